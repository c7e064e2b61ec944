"""Tested images themselves, each under its true class and what it was given."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.reporting.style import BASELINE, INK, Picture, blank_figure, plain_label, styled

__all__ = ["N_TILES", "draw_tiles"]

_N_COLUMNS = 5
N_TILES = 4 * _N_COLUMNS
"""Images of one gallery."""


@styled
def draw_tiles(
    pictures: Sequence[npt.NDArray[np.uint8]], answers: pd.DataFrame, *, name: str, caption: str
) -> Picture | None:
    """Draw images side by side, the true class above and the given one below; None where there is no image.

    `answers` holds ``y_true``, ``given``, ``confidence`` and ``wrong``, one row a picture.
    """
    if not pictures:
        return None
    n_rows = -(-len(pictures) // _N_COLUMNS)
    figure = blank_figure(height=0.1 + 1.4 * n_rows)
    panels = figure.subplots(n_rows, _N_COLUMNS, squeeze=False).ravel()
    for axes in panels[len(pictures) :]:
        axes.axis("off")
    shown = []
    for axes, picture, row in zip(panels, pictures, answers.to_dict("records"), strict=False):
        sure = "" if pd.isna(row["confidence"]) else f"{row['confidence']:.0%}"
        wrong, color = bool(row["wrong"]), BASELINE if row["wrong"] else INK
        axes.imshow(picture, interpolation="none")
        axes.set(xticks=[], yticks=[])
        axes.grid(visible=False)
        axes.spines[:].set(visible=wrong, color=color, linewidth=1.6)
        axes.set_title(plain_label(row["y_true"], length=13), fontsize=8, loc="center", pad=2)
        text = f"✗ {plain_label(row['given'], length=11)}\n{sure}" if wrong else f"✓ {sure}\n"
        axes.set_xlabel(text, fontsize=7.5, color=color, labelpad=1, linespacing=1.1)
        given = f"given as {row['given']}" if wrong else "right"
        shown.append(f"{row['y_true']} {given}" + (f" ({sure})" if sure else ""))
    numbers = answers[["image", "y_true", "given", "confidence"]] if "image" in answers else None
    alt = f"{len(pictures)} images. {'; '.join(shown)}."
    return Picture(name, figure, alt=alt, caption=caption, numbers=numbers)
