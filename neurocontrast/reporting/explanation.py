"""Reading the folder of ``neurocontrast explain``: a brain map, or a ranking of measures."""

from dataclasses import dataclass
from pathlib import Path

from neurocontrast.documents.explanation import (
    EXPLANATION_FILE,
    BlockShare,
    ExplanationRecord,
)
from neurocontrast.documents.result import FORMAT
from neurocontrast.exceptions import DataError
from neurocontrast.reading import read_json
from neurocontrast.reporting.wording import value_text

_SETTINGS = {
    "method": "Method",
    "n_subjects": "Subjects",
    "target": "Target",
    "positive": "Positive class",
    "score": "Score",
    "n_members": "Members",
    "n_of_class": "Subjects by class",
    "patch_mm": "Edge of a cube, mm",
    "smooth_mm": "Smoothing, mm",
    "spacing_mm": "Voxel size, mm",
    "shape": "Voxels",
    "seed": "Seed",
}
"""Key of ``explain.json`` → label of the setting on a report's page."""
_REMEDY = "Run 'neurocontrast explain' again."


@dataclass(frozen=True)
class ExplainedBlock:
    """Share of the differences in score between subjects that one group of features carries.

    The score is the explained model's. `name` is the group, ``network`` or ``components``.
    `map_path` is the brain map of the group; None for an encoder of regional measures, where the
    table that ranks the measures has a column called `name`.
    """

    name: str
    share: float
    map_path: Path | None


@dataclass(frozen=True)
class Explanation:
    """Content of the folder that ``neurocontrast explain`` writes about an evaluated model.

    `record` is ``explain.json``. `map_path` is the brain map, which shows by how much each place in
    the scan contributes to the differences in the model's score between subjects; for an encoder of
    regional measures, it is a table that ranks the measures. `blocks` has the share, and the brain
    map, of each group of features: ``network``, and ``components`` if the encoder has linear
    components as well as a network.
    """

    record: ExplanationRecord
    map_path: Path
    blocks: tuple[ExplainedBlock, ...] = ()

    @property
    def is_share(self) -> bool:
        """Whether the map has shares of the differences between subjects in the model's score.

        The model is the explained one. The maps of early versions have changes in score.
        """
        return self.record.quantity.startswith("share")

    def settings(self) -> list[tuple[str, str]]:
        """List the settings that ``explain.json`` records, as pairs of a label and a value."""
        content = self.record.content()
        shown = []
        for key, label in _SETTINGS.items():
            if content.get(key) is not None:
                shown.append((label, value_text(content[key])))
        return shown


def read_explanation(folder: Path) -> Explanation | None:
    """Read the folder of an explanation; None without ``explain.json``.

    A record of another version's format and a missing map raise DataError.
    """
    file = folder / EXPLANATION_FILE
    if not file.is_file():
        return None
    content = read_json(file, remedy=_REMEDY)
    if content.get("format") != FORMAT:
        raise DataError(
            f"{file}: format must be {FORMAT}, found {content.get('format')!r}. It was written by "
            f"another version of neurocontrast. {_REMEDY}"
        )
    record = ExplanationRecord.of(content, file, remedy=_REMEDY)
    # The name of a file in this folder, and no way out of it.
    path = folder / Path(record.map).name
    if not path.is_file():
        raise DataError(f"{path}: the map of the explanation is missing. {_REMEDY}")
    blocks = []
    for block in record.blocks:
        blocks.append(ExplainedBlock(block.name, block.share, _map_of(block, path)))
    return Explanation(record, path, tuple(blocks))


def _map_of(block: BlockShare, map_path: Path) -> Path | None:
    """Return the path of a feature group's brain map; None for an encoder of regional measures.

    `block` is the group. `map_path` is the main file of the explanation: a brain map, or a table
    (``.tsv``) that ranks regional measures. A brain map that is missing raises DataError.
    """
    if map_path.suffix == ".tsv":
        return None
    if block.map is None:
        raise DataError(
            f"{map_path.with_name(EXPLANATION_FILE)}: the block '{block.name}' lacks map. {_REMEDY}"
        )
    path = map_path.with_name(Path(block.map).name)
    if not path.is_file():
        raise DataError(f"{path}: the map of the block '{block.name}' is missing. {_REMEDY}")
    return path
