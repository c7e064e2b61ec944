"""Tested images themselves, each under its true class and what it was given."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from neurocontrast.reporting.style import BASELINE, INK, WIDTH, Picture, plain_label, styled

__all__ = ["N_TILES", "draw_tiles"]

_N_COLUMNS, _N_ROWS = 5, 4
N_TILES = _N_COLUMNS * _N_ROWS
"""Images of one gallery."""

_LETTERS = 13


@styled
def draw_tiles(
    pictures: Sequence[npt.NDArray[np.uint8]], answers: pd.DataFrame, *, name: str, caption: str
) -> Picture | None:
    """Draw images side by side, the true class above and the given one below; None where there is no image.

    Parameters
    ----------
    pictures : sequence of ndarray (height, width, 3)
        uint8.
    answers : DataFrame
        ``y_true``, ``given``, ``confidence`` and ``wrong``, one row a picture.
    name, caption : str
        Of the figure.
    """
    if not pictures:
        return None
    n_rows = -(-len(pictures) // _N_COLUMNS)
    figure = Figure(figsize=(WIDTH, 0.1 + 1.4 * n_rows), layout=ConstrainedLayoutEngine(w_pad=0.02, h_pad=0.05))
    FigureCanvasAgg(figure)
    panels = figure.subplots(n_rows, _N_COLUMNS, squeeze=False).ravel()
    rows = answers.to_dict("records")
    for axes in panels[len(pictures) :]:
        axes.axis("off")
    for axes, picture, row in zip(panels, pictures, rows, strict=False):
        _draw_tile(axes, picture, row)
    shown = "; ".join(_words(row) for row in rows)
    numbers = answers[["image", "y_true", "given", "confidence"]] if "image" in answers else None
    return Picture(name, figure, alt=f"{len(pictures)} images. {shown}.", caption=caption, numbers=numbers)


def _draw_tile(axes: Axes, picture: npt.NDArray[np.uint8], row: dict) -> None:
    axes.imshow(picture, interpolation="none")
    axes.set(xticks=[], yticks=[])
    axes.grid(visible=False)
    axes.spines[:].set(visible=bool(row["wrong"]), color=BASELINE, linewidth=1.6)
    axes.set_title(plain_label(row["y_true"], length=_LETTERS), fontsize=8, loc="center", pad=2)
    mark = "✗ " + plain_label(row["given"], length=_LETTERS - 2) if row["wrong"] else "✓"
    sure = "" if pd.isna(row["confidence"]) else f"{row['confidence']:.0%}"
    text = f"{mark}\n{sure}" if row["wrong"] else f"{mark} {sure}\n"
    axes.set_xlabel(text, fontsize=7.5, color=BASELINE if row["wrong"] else INK, labelpad=1, linespacing=1.1)


def _words(row: dict) -> str:
    sure = "" if pd.isna(row["confidence"]) else f" ({row['confidence']:.0%})"
    return f"{row['y_true']} given as {row['given']}{sure}" if row["wrong"] else f"{row['y_true']}, right{sure}"
