"""Choose among the atlases and kinds of measure in a folder of tables."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from neurocontrast.data.measures.sheets import Sheet
from neurocontrast.exceptions import DataError, one_of, suggestion

_PARCELLATIONS = (
    "aparc.a2009s",
    "aparc",
    "aparc.DKTatlas",
    "aparc.DKTatlas.mapped",
    "neuromorphometrics",
)
_SEGMENTATIONS = (
    *("aseg", "aseg.presurf", "aseg.withCC", "aseg.VINN", "aseg+DKT", "aseg+DKT.VINN"),
    *("wmparc", "wmparc.DKTatlas.mapped"),
)
"""Atlases of segmented structures in order of preference, surface-corrected ones first. The first
present atlas is taken.
"""
_OF_WHITE_MATTER = "wmparc"


@dataclass(frozen=True)
class Choice:
    """Options that choose among the tables of measures in a folder, and among their rows.

    `read_tables` describes each option.
    """

    atlas: str = ""
    measure: str = "thickness"
    stream: str = ""
    dataset: str = ""


def choose_atlases(atlases: set[str], atlas: str, notes: list[str], path: Path) -> set[str]:
    """Choose one parcellation and one segmentation among `atlases`; `atlas` may name either.

    Return the names of the chosen atlases, by default the first of each kind in order of
    preference. `notes` gets a line on atlases of the folder `path` that are present and not chosen.
    """
    segmentations = sorted(atlases.intersection(_SEGMENTATIONS), key=_SEGMENTATIONS.index)
    usual = sorted(atlases.intersection(_PARCELLATIONS), key=_PARCELLATIONS.index)
    parcellations = usual + sorted(atlases.difference(_SEGMENTATIONS, usual))
    names = re.findall(r"[^,\s]+", atlas)
    for name in names:
        if name not in atlases:
            present = [*parcellations, *segmentations]
            hint = suggestion(name, present)
            raise DataError(f"{path}: no atlas '{name}'.{hint} There are: {one_of(present)}.")
    taken: set[str] = set()
    for group in (segmentations, parcellations):
        asked = sorted(set(names).intersection(group))
        if len(asked) > 1:
            raise DataError(f"{path}: atlas names {one_of(asked)}; one of them can be taken.")
        chosen = asked or group[:1]
        taken.update(chosen)
        left = [name for name in group if name not in chosen]
        if group is parcellations and left:
            notes.append(
                f"{path.name}: of the atlases that are there, {one_of(chosen)} is taken; not "
                f"{one_of(left)}."
            )
        else:
            _note_segmentations(chosen, left, notes, path)
    return taken


def _note_segmentations(
    chosen: Sequence[str], left: Sequence[str], notes: list[str], path: Path
) -> None:
    """Add a line to `notes` on segmentations of a folder that are not read, as others are chosen.

    ``wmparc`` is not mentioned: white matter is no alternative to the chosen structures.
    """
    alternatives = [name for name in left if not name.startswith(_OF_WHITE_MATTER)]
    if alternatives:
        notes.append(
            f"{path.name}: of the segmentations that are there, {one_of(chosen)} is taken; not "
            f"{one_of(alternatives)} (atlas={alternatives[0]} takes that instead)."
        )


def choose_measure(
    sheets: Sequence[Sheet], measure: str, notes: list[str], path: Path
) -> list[Sheet]:
    """Return the tables of one measure of the cortex, and all tables of other structures.

    `measure` names the measure, such as ``thickness``; ``all`` takes all tables. `notes` gets a
    line on measures of the cortex that are not taken.
    """
    measures = sorted({sheet.measure for sheet in sheets if _is_cortical(sheet)})
    if measure == "all" or not measures:
        return list(sheets)
    if measure not in measures:
        hint = suggestion(measure, measures)
        raise DataError(
            f"{path}: no measure '{measure}' of the cortex.{hint} There are: "
            f"{one_of(measures)}, 'all'."
        )
    left = [name for name in measures if name != measure]
    if left:
        notes.append(
            f"{path.name}: of the measures of the cortex, '{measure}' is taken; not {one_of(left)}."
        )
    return [sheet for sheet in sheets if not _is_cortical(sheet) or sheet.measure == measure]


def _is_cortical(sheet: Sheet) -> bool:
    """Tell whether a table has one measure, such as thickness, of a cortical atlas ("aparc…")."""
    return sheet.atlas.startswith("aparc") and bool(sheet.measure)
