"""How figures look, and how one becomes part of the page. Nothing goes through pyplot."""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

P = ParamSpec("P")
R = TypeVar("R")

# Okabe and Ito's palette without its yellow, which is too light for points on white.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#7A5195")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h", "*")
LINES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)))
MAIN, BASELINE, VOXELS, REGIONAL = "#0072B2", "#B34700", "#7A5195", "#00785A"
CHANCE, INK, MUTED = "#767676", "#1f2933", "#5f6b76"

WIDTH = 5.2
"""Width of a figure in inches: two fit side by side on a desktop page, one fills a telephone's."""

_LOOK = matplotlib.rc_params_from_file(
    Path(__file__).with_name("templates") / "report.mplstyle", use_default_template=False
)


@dataclass(frozen=True)
class Picture:
    """A figure of the report.

    `name` names its files, `alt` says what it shows with its numbers, `caption` is printed under it, and
    `numbers` is what was drawn, without identifiers of participants.
    """

    name: str
    figure: Figure
    alt: str
    caption: str
    numbers: pd.DataFrame | None = None

    def encode(self, file_format: str) -> bytes:
        """Return the figure as the bytes of an ``svg`` or ``png`` file, the same every time."""
        return self._svg if file_format == "svg" else self._save(file_format)

    @cached_property
    def _svg(self) -> bytes:
        # Verdana is as wide as DejaVu Sans, by which the layout was measured; other fonts are narrower.
        return self._save("svg").replace(b"'DejaVu Sans'", b"'DejaVu Sans', Verdana, sans-serif")

    def _save(self, file_format: str) -> bytes:
        buffer = io.BytesIO()
        metadata = {"Date": None, "Creator": "neurocontrast"} if file_format == "svg" else {"Software": "neurocontrast"}
        with matplotlib.rc_context(_LOOK), warnings.catch_warnings():
            # Names can hold letters that the figure's font lacks; the tables show them all.
            warnings.filterwarnings("ignore", message="Glyph .* missing from")
            self.figure.savefig(buffer, format=file_format, dpi=150, metadata=metadata)
        return buffer.getvalue()

    def data_uri(self) -> str:
        """Return the figure as an address that holds the figure itself."""
        return "data:image/svg+xml;base64," + base64.b64encode(self._svg).decode("ascii")


def styled(draw: Callable[P, R]) -> Callable[P, R]:
    """Run a drawing function under the report's look, and leave matplotlib's settings as they were."""

    @wraps(draw)
    def with_look(*args: P.args, **kwargs: P.kwargs) -> R:
        with matplotlib.rc_context(_LOOK):
            return draw(*args, **kwargs)

    return with_look


def blank_figure(*, height: float, width: float = WIDTH, layout: Any = "constrained") -> Figure:
    """Return an empty figure of the given inches, outside pyplot."""
    figure = Figure(figsize=(width, height), layout=layout)
    FigureCanvasAgg(figure)
    return figure


def new_figure(*, height: float, width: float = WIDTH) -> tuple[Figure, Axes]:
    """Return a figure of the given inches with one pair of axes."""
    figure = blank_figure(height=height, width=width)
    return figure, figure.add_subplot()


def look_of(place: int) -> dict[str, Any]:
    """Return colour, marker and line of the n-th of several curves, told apart without colour."""
    look = {"color": PALETTE, "marker": MARKERS, "linestyle": LINES}
    return {name: choices[place % len(choices)] for name, choices in look.items()}


def plain_label(text: object, *, length: int = 30) -> str:
    """Return a name as a figure can show it: one printable line, `$` not read as mathematics, not too long."""
    return shorten(text, length=length).replace("$", r"\$")


def shorten(text: object, *, length: int = 30) -> str:
    """Return a name on one printable line, its middle left out where the name is longer than `length`.

    The middle goes, since names of sites often differ only in their last letters.
    """
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in str(text)).split())
    if len(line) <= length:
        return line
    tail = (length - 1) // 2
    return f"{line[: length - 1 - tail].rstrip()}…{line[-tail:].lstrip()}"


def distinct_labels(names: Iterable[object], *, length: int = 30) -> list[str]:
    """Return labels of limited length that differ where the names differ: those alike after shortening are numbered."""
    labels = [shorten(name, length=length) for name in names]
    for clash in {label for label in labels if labels.count(label) > 1}:
        rows = [row for row, label in enumerate(labels) if label == clash]
        for number, row in enumerate(rows, start=1):
            labels[row] = f"{clash[: length - 5]} #{number}"
    return [label.replace("$", r"\$") for label in labels]


def legend_below(figure: Figure, axes: Axes, *, n_columns: int = 2, marker_scale: float = 1.0) -> None:
    """Put the legend under the axes, where it can hide no data."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        figure.legend(
            handles, labels, loc="outside lower center", ncols=n_columns, handlelength=2.4, columnspacing=1.4,
            markerscale=marker_scale,
        )  # fmt: skip
