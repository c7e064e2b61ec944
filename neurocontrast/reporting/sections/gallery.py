"""The images themselves: some drawn at random, and the worst mistakes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.reporting.answers import given_answers
from neurocontrast.reporting.blocks import Block, Paragraph, Pictures, Section
from neurocontrast.reporting.figures.tiles import N_TILES, draw_tiles
from neurocontrast.reporting.folder import EvaluationFiles, store_of
from neurocontrast.reporting.options import ReportOptions
from neurocontrast.reporting.section import Input, SectionBuilder
from neurocontrast.reporting.style import Picture

__all__ = ["GALLERY", "LARGEST_SIDE", "read_pictures"]

LARGEST_SIDE = 96
"""Pixels of a picture in the report: larger images are made smaller by averaging, so that the page stays small."""

_TITLE = "The images themselves"
Pixels = npt.NDArray[np.uint8]


def _build(files: EvaluationFiles, options: ReportOptions) -> Section:
    """Build the two galleries; where the images are no longer there, that is said."""
    del options
    answers = given_answers(files)
    known = answers[answers["path"].notna()].reset_index(drop=True)
    n_wrong = int(answers["wrong"].sum())
    chosen = np.random.default_rng(0).choice(max(len(known), 1), min(N_TILES, len(known)), replace=False)
    drawn = [
        _draw(files, known.iloc[np.sort(chosen)], "random", f"{N_TILES} of {len(known):,} tested images, at random."),
        _draw(
            files,
            known[known["wrong"]].nsmallest(N_TILES, "of_truth"),
            "worst",
            f"The worst of {n_wrong:,} mistakes: the true class was given the lowest probability.",
        ),
    ]
    pictures = [picture for picture in drawn if picture is not None]
    if not pictures:
        text = "Not shown: the evaluation does not record where the images lie."
        if len(known):
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


def _draw(files: EvaluationFiles, rows: pd.DataFrame, name: str, caption: str) -> Picture | None:
    pictures = read_pictures(rows["path"].tolist(), folder=files.folder)
    there = [picture is not None for picture in pictures]
    n_gone = len(there) - sum(there)
    if n_gone and n_gone < len(there):
        caption += f" {n_gone} could not be read."
    shown = rows[there].assign(image=[str(path).rpartition("#")[2] for path in rows["path"][there]])
    found = [picture for picture in pictures if picture is not None]
    return draw_tiles(found, shown, name=f"gallery_{name}", caption=caption)


def read_pictures(paths: Sequence[object], *, folder: Path) -> list[Pixels | None]:
    """Return the images as (height, width, 3) arrays; None for each that is not there or no picture.

    Parameters
    ----------
    paths : sequence
        ``store.npy#row``: a plain array of uint8, images × 3 × height × width.
    folder : path
        The evaluation folder.
    """
    opened = cache(_open)
    found: list[Pixels | None] = []
    for path in paths:
        file, row = store_of(path, folder=folder) or (None, 0)
        store = opened(file) if file else None
        found.append(None if store is None or row >= len(store) else _shrink(store[row]))
    return found


def _open(file: Path) -> Pixels | None:
    try:
        store = np.load(file, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    right = isinstance(store, np.ndarray) and store.ndim == 4 and store.dtype == np.uint8 and store.shape[1] == 3
    return store if right else None


def _shrink(image: Pixels) -> Pixels:
    """Return an image with its channels last, no side longer than `LARGEST_SIDE`."""
    step = -(-max(image.shape[1:]) // LARGEST_SIDE)
    pixels = np.asarray(image).transpose(1, 2, 0)
    height, width = (size // step for size in pixels.shape[:2])
    blocks = pixels[: height * step, : width * step].reshape(height, step, width, step, 3)
    return blocks.mean(axis=(1, 3)).round().astype(np.uint8)


GALLERY = SectionBuilder(
    "gallery",
    _TITLE,
    order=95,
    build=_build,
    inputs=(Input("scans.tsv", "where pictures of a few images lie", "scans"),),
    kinds=("binary", "multiclass"),
    of=("images",),
)
