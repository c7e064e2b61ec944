"""The images themselves: some drawn at random, and the worst mistakes."""

from __future__ import annotations

import numpy as np
import pandas as pd

from neurocontrast.reporting.blocks import Block, Paragraph, Pictures, Section
from neurocontrast.reporting.figures.tiles import N_TILES, draw_tiles
from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.images.classes import given_answers
from neurocontrast.reporting.images.pictures import LARGEST_SIDE, read_pictures
from neurocontrast.reporting.options import ReportOptions
from neurocontrast.reporting.style import Picture

__all__ = ["build_gallery"]

_TITLE = "The images themselves"


def build_gallery(files: EvaluationFiles, options: ReportOptions) -> Section | None:
    """Build the two galleries; where the images are no longer there, that is said."""
    del options
    if files.kind == "continuous":
        return None
    answers = given_answers(files)
    known = answers[answers["path"].notna()].reset_index(drop=True)
    if known.empty:
        text = "Not shown: the evaluation does not record where the images lie."
        return Section("gallery", _TITLE, [Paragraph(text, role="note")])
    n_wrong = int(answers["wrong"].sum())
    drawn = [
        _gallery(files, _at_random(known), "gallery_random", f"{N_TILES} of {len(known):,} tested images, at random."),
        _gallery(
            files,
            known[known["wrong"]].nsmallest(N_TILES, "of_truth"),
            "gallery_worst",
            f"The worst of {n_wrong:,} mistakes: the true class was given the lowest probability.",
        ),
    ]
    pictures = [picture for picture in drawn if picture is not None]
    if not pictures:
        text = "Not shown: the store of the images is not where the evaluation found it, or is no such store."
        return Section("gallery", _TITLE, [Paragraph(text, role="note")])
    lead = (
        "Above each image its class, below what it was given: ✓ right, or ✗ and the class it was taken for, with the "
        "probability of that."
    )
    blocks: list[Block] = [Pictures(pictures)]
    if n_wrong == 0:
        blocks.append(Paragraph("No image was given a wrong class.", role="note"))
    size = (
        f"Images larger than {LARGEST_SIDE} pixels are shown smaller; their numbers in the store are in the .tsv files."
    )
    return Section("gallery", _TITLE, [*blocks, Paragraph(size, role="note")], lead=lead)


def _at_random(known: pd.DataFrame) -> pd.DataFrame:
    chosen = np.random.default_rng(0).choice(len(known), min(N_TILES, len(known)), replace=False)
    return known.iloc[np.sort(chosen)]


def _gallery(files: EvaluationFiles, rows: pd.DataFrame, name: str, caption: str) -> Picture | None:
    pictures = read_pictures(rows["path"].tolist(), folder=files.folder)
    there = [picture is not None for picture in pictures]
    n_gone = len(there) - sum(there)
    if n_gone and n_gone < len(there):
        caption += f" {n_gone} could not be read."
    shown = rows[there].assign(image=[str(path).rpartition("#")[2] for path in rows["path"][there]])
    return draw_tiles([picture for picture in pictures if picture is not None], shown, name=name, caption=caption)
