"""Reporting guidelines: what this report covers of them, and what only the author can add."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from neurocontrast.reporting.blocks import Block, Cell, Numbered, Section, Table
from neurocontrast.reporting.checklists import CLAIM, TRIPOD, Item
from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.inputs import missing_sections
from neurocontrast.reporting.options import ReportOptions
from neurocontrast.reporting.references import Citations

__all__ = ["build_guidelines"]

_TITLES = {
    "warnings": "warnings",
    "result": "result",
    "new_site": "unseen sites",
    "outlyingness": "scans outside",
    "cohort": "cohort",
    "sites": "sites",
    "groups": "sex and age",
    "curves": "curves",
    "calibration": "calibration",
    "errors": "errors",
    "worst": "worst errors",
    "learning": "learning curve",
    "external": "external test set",
    "confounds": "confounds",
    "brain": "brain map",
    "map": "embedding map",
    "folds": "folds",
    "training": "pretraining",
    "methods": "methods",
    "silences": "limits",
    "provenance": "provenance",
}


def build_guidelines(files: EvaluationFiles, options: ReportOptions) -> Section:
    """Build the tables of TRIPOD+AI and CLAIM."""
    del options
    cite = Citations()
    there = _sections_with_content(files)
    blocks: list[Block] = [
        _table(f"TRIPOD+AI {cite('tripod')}, 27 items with their parts", TRIPOD, there),
        _table(f"CLAIM, 2024 update {cite('claim')}, 44 items", CLAIM, there),
        Numbered("Guidelines", cite.listed()),
    ]
    lead = (
        "Items are summarised; read the guidelines themselves. A link says that a part of this report speaks to the "
        "item, not that the item is met; “not in this report” that it could, from an input that is absent."
    )
    return Section("guidelines", "Reporting guidelines", blocks, lead=lead)


def _sections_with_content(files: EvaluationFiles) -> Mapping[str, bool]:
    missing = missing_sections(files)
    absent = {"curves", "calibration"} if files.kind == "continuous" else set()
    return {name: name not in missing for name in _TITLES if name not in absent}


def _table(title: str, items: Sequence[Item], there: Mapping[str, bool]) -> Table:
    rows = []
    n_covered = 0
    for item in items:
        links = [(name, _TITLES[name]) for name in item.sections if there.get(name)]
        gone = [_TITLES[name] for name in item.sections if name in there and not there[name]]
        n_covered += bool(links)
        rows.append(
            (
                Cell(item.number, heading=True),
                Cell(item.asks),
                Cell(
                    "" if links else "no", links=links, detail=f"not in this report: {', '.join(gone)}" if gone else ""
                ),
                Cell(item.author or "nothing"),
            )
        )
    caption = f"{title}: this report speaks to {n_covered} of {len(items)} rows."
    return Table(caption, ("Item", "Asks for", "In this report", "Left to the author"), rows, text_columns=(0, 1, 2, 3),
                 folded=True)  # fmt: skip
