"""Folder of ``neurocontrast explain``, read: a map or ranking, and how it was made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from neurocontrast.data.problems import shown
from neurocontrast.documents.document import Document
from neurocontrast.evaluation.record import FORMAT
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
"""Keys that are shown, with their labels."""


class ExplanationRecord(Document):
    """Method of a map of the brain, or of a ranking of measures."""

    method: str | None = None
    n_subjects: int | None = None
    positive: str | None = None
    n_members: int | None = None
    n_measures: int | None = None
    n_resamples: int | None = None
    n_units: int | None = None
    resampled: str | None = None
    """Units that intervals resample: ``subject`` or ``site``."""
    patch_mm: float | None = None
    quantity: str = ""
    atlas: str | None = None
    software: str | None = None
    template: str | None = None
    simulated: bool = False
    warnings: list[str] = Field(default_factory=list)
    top_regions: list[object] = Field(default_factory=list)

    @property
    def is_share(self) -> bool:
        """Whether values are shares of the differences in score; early versions show changes."""
        return self.quantity.startswith("share")

    def settings(self) -> list[tuple[str, str]]:
        """List the settings that are recorded, with their labels."""
        content = self.content()
        shown = []
        for key, label in _SETTINGS.items():
            if content.get(key) is not None:
                shown.append((label, value_text(content[key])))
        return shown


@dataclass(frozen=True)
class ExplainedBlock:
    """A block of an encoder's features: its share of the differences in score, and its map.

    Of regional measures `map_path` is None: the ranking has a column of the block's name.
    """

    name: str
    share: float
    map_path: Path | None


@dataclass(frozen=True)
class Explanation:
    """Result of ``neurocontrast explain``: ``explain.json``, its map, and the blocks' maps."""

    about: ExplanationRecord
    map_path: Path
    blocks: tuple[ExplainedBlock, ...] = ()


def read_explanation(folder: Path) -> Explanation | None:
    """Read the folder of an explanation; None where there is none."""
    if not (folder / "explain.json").is_file():
        return None
    remedy = "Run 'neurocontrast explain' again."
    about = read_json(folder / "explain.json", remedy=remedy)
    if about.get("format") != FORMAT:
        raise DataError(
            f"{folder / 'explain.json'}: format must be {FORMAT}, found {about.get('format')!r}. It was written by "
            f"another version of neurocontrast. {remedy}"
        )
    # The name of a file in this folder, and no way out of it.
    path = folder / Path(str(about.get("map") or "saliency.nii.gz")).name
    if not path.is_file():
        raise DataError(f"{path}: the map of the explanation is missing. {remedy}")
    record = ExplanationRecord.of(about, folder / "explain.json", remedy=remedy)
    return Explanation(record, path, _read_blocks(about.get("blocks") or [], path, remedy))


def _read_blocks(
    described_blocks: Sequence[Any], map_path: Path, remedy: str
) -> tuple[ExplainedBlock, ...]:
    """Read the blocks of features of an explanation; explanations of earlier versions have none.

    Each block has a map beside that of the whole score; in a ranking of measures it has a column.
    """
    blocks = []
    for described in described_blocks:
        try:
            name = str(described["name"])
            share = float(described["share"])
            path = None if map_path.suffix == ".tsv" else Path(described["map"])
        except (KeyError, TypeError, ValueError):
            raise DataError(
                f"{map_path.with_name('explain.json')}: 'blocks' must be a list of name, share and "
                f"map, found {shown(described)}. {remedy}"
            ) from None
        if path is not None:
            path = map_path.with_name(path.name)
            if not path.is_file():
                raise DataError(f"{path}: the map of the block '{name}' is missing. {remedy}")
        blocks.append(ExplainedBlock(name, share, path))
    return tuple(blocks)
