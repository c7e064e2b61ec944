"""Middle slices of a few of the scans."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from nibabel.filebasedimages import ImageFileError

from neurocontrast.reporting.blocks import Block, Paragraph, Pictures, Section
from neurocontrast.reporting.figures.volumes import draw_scan
from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.options import ReportOptions
from neurocontrast.reporting.section import Input, SectionBuilder
from neurocontrast.reporting.style import Picture

__all__ = ["SCANS"]

_MAX_SCANS = 6


def _build(files: EvaluationFiles, options: ReportOptions) -> Section:
    """Build the middle slices of a few scans; those not found are counted, not guessed."""
    assert files.scans is not None, "needed"
    pictures: list[Picture] = []
    absent, unreadable = 0, 0
    for number, row in enumerate(files.scans.head(_MAX_SCANS).to_dict("records"), start=1):
        path = Path(str(row["path"]))
        if not path.is_file():
            absent += 1
            continue
        try:
            label = _scan_label(row, number, files, options)
            pictures.append(draw_scan(path, name=f"scan_{number}", label=label))
        except (OSError, ValueError, EOFError, ImageFileError):
            unreadable += 1
    blocks: list[Block] = [Pictures(pictures)] if pictures else []
    for n, what in ((absent, "not where the evaluation found it"), (unreadable, "not readable as a volume")):
        if n:
            blocks.append(Paragraph(f"Not shown: {n} scan{'s' if n > 1 else ''}, {what}.", role="note"))
    lead = "Middle slices before preprocessing: sagittal, coronal, axial; L and R are the person's left and right."
    return Section("scans", "A few of the scans", blocks, lead=lead if pictures else "")


def _scan_label(row: dict, number: int, files: EvaluationFiles, options: ReportOptions) -> str:
    label = f"Simulated scan {number}" if files.summary.simulated else f"Scan {number}"
    session = "" if pd.isna(row.get("session")) else row["session"]
    if options.show_ids and not pd.isna(row.get("participant_id")):
        label += f" ({row['participant_id']} {session}".rstrip() + ")"
    site = "" if pd.isna(row.get("site")) else f"site: {row['site']}"
    return ", ".join(part for part in (label, site, _truth(row, session, files)) if part)


def _truth(row: dict, session: str, files: EvaluationFiles) -> str:
    table = files.predictions
    if "participant_id" not in table:
        return ""
    rows = table[table["participant_id"] == row.get("participant_id")]
    if session and "session" in table:
        rows = rows[rows["session"] == session]
    if rows.empty or pd.isna(rows["y_true"].iloc[0]):
        return ""
    value = rows["y_true"].iloc[0]
    return f"{files.target}: {value:.1f}" if files.kind == "continuous" else f"{files.target}: {value}"


SCANS = SectionBuilder(
    "scans",
    "A few of the scans",
    order=190,
    build=_build,
    inputs=(Input("scans.tsv", "slices of a few scans", "scans", needed=True),),
    of=("scans",),
)
