"""What the encoder made of the scans: maps, slices, training curves."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from nibabel.filebasedimages import ImageFileError

from neurocontrast.reporting.blocks import Block, Paragraph, Pictures, Section
from neurocontrast.reporting.figures.points import MAPS, draw_map, list_map_columns
from neurocontrast.reporting.figures.training import draw_training, list_terms
from neurocontrast.reporting.figures.volumes import draw_scan
from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.naming import objective_text
from neurocontrast.reporting.options import ReportOptions
from neurocontrast.reporting.style import Picture

__all__ = ["build_map", "build_scans", "build_training"]

_MAX_SCANS = 6


def build_map(files: EvaluationFiles, options: ReportOptions) -> Section:
    """Build the maps of the embedding, one small multiple a column, for PCA and, if computed, UMAP."""
    del options
    title = "Map of the embedding"
    columns = list_map_columns(files)
    blocks: list[Block] = []
    for layout in MAPS:
        drawn = (draw_map(files, layout=layout, column=column) for column in columns)
        pictures = [picture for picture in drawn if picture is not None]
        if pictures:
            blocks += [Paragraph(_about(layout), label=layout.upper() + "."), Pictures(pictures)]
    if not blocks:
        return Section("map", title, [Paragraph("map.tsv is absent or empty: no map can be shown.", role="note")])
    if not any(isinstance(block, Paragraph) and block.label == "UMAP." for block in blocks):
        text = "No UMAP was computed; it is, where the package umap-learn is installed at evaluation."
        blocks.append(Paragraph(text, role="note"))
    lead = (
        "Each point is a scan; the same points are coloured several ways. Sites that lie apart mean that the scanner "
        "can be read off the embedding."
    )
    return Section("map", title, blocks, lead=lead)


def _about(layout: str) -> str:
    if layout == "pca":
        return "The two directions of largest spread, over all scans. Most of the embedding is not in this plane."
    return "Neighbours are kept together; distances between clusters, and their sizes, mean nothing."


def build_scans(files: EvaluationFiles, options: ReportOptions) -> Section:
    """Build the middle slices of a few scans; those not found are counted, not guessed."""
    title = "A few of the scans"
    if files.scans is None:
        text = "scans.tsv is absent or empty: no slices can be shown."
        return Section("scans", title, [Paragraph(text, role="note")])
    pictures: list[Picture] = []
    absent, unreadable = 0, 0
    for position, row in enumerate(files.scans.head(_MAX_SCANS).to_dict("records")):
        path = Path(str(row["path"]))
        if not path.is_file():
            absent += 1
            continue
        try:
            label = _scan_label(row, position + 1, files, options)
            pictures.append(draw_scan(path, name=f"scan_{position + 1}", label=label))
        except (OSError, ValueError, EOFError, ImageFileError):
            unreadable += 1
    blocks: list[Block] = [Pictures(pictures)] if pictures else []
    for n, what in ((absent, "not where the evaluation found it"), (unreadable, "not readable as a volume")):
        if n:
            blocks.append(Paragraph(f"Not shown: {n} scan{'s' if n > 1 else ''}, {what}.", role="note"))
    lead = "Middle slices before preprocessing: sagittal, coronal, axial; L and R are the person's left and right."
    return Section("scans", title, blocks, lead=lead if pictures else "")


def _scan_label(row: dict, number: int, files: EvaluationFiles, options: ReportOptions) -> str:
    parts = [f"Simulated scan {number}" if files.simulated else f"Scan {number}"]
    if options.show_ids and not pd.isna(row.get("participant_id")):
        session = row.get("session")
        parts[0] += f" ({row['participant_id']}{'' if pd.isna(session) else f' {session}'})"
    if not pd.isna(row.get("site")):
        parts.append(f"site: {row['site']}")
    truth = _truth(row, files)
    if truth:
        parts.append(truth)
    return ", ".join(parts)


def _truth(row: dict, files: EvaluationFiles) -> str:
    table = files.predictions
    if "participant_id" not in table:
        return ""
    rows = table[table["participant_id"] == row.get("participant_id")]
    if "session" in table and not pd.isna(row.get("session")):
        rows = rows[rows["session"] == row["session"]]
    if rows.empty or pd.isna(rows["y_true"].iloc[0]):
        return ""
    value = rows["y_true"].iloc[0]
    return f"{files.target}: {value:.1f}" if files.kind == "continuous" else f"{files.target}: {value}"


def build_training(files: EvaluationFiles, options: ReportOptions) -> Section:
    """Build the training curves of the encoder."""
    del options
    drawn = (draw_training(files, term) for term in list_terms(files))
    pictures = [picture for picture in drawn if picture is not None]
    if not pictures:
        text = "No training curves: training.tsv is absent, or the embeddings came without the record of a run."
        return Section("training", "Pretraining", [Paragraph(text, role="note")])
    lead = f"Objective: {objective_text(files.summary.get('objective'))}."
    return Section("training", "Pretraining", [Pictures(pictures)], lead=lead)
