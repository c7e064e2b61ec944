"""Look of the report's figures, and their encoding for a page, without pyplot's global state."""

import base64
import io
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from neurocontrast.files import atomic_path, write_table
from neurocontrast.progress import Progress
from neurocontrast.reporting.wording import DASH, interval_text, number_text, point_estimate

# Okabe and Ito's palette without its yellow, which is too light for points on white.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#7A5195")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h", "*")
LINES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)))
MAIN = "#0072B2"
BASELINE = "#B34700"
CHANCE = "#767676"
INK = "#1f2933"
MUTED = "#5f6b76"

MODEL_LINES: dict[str, dict[str, Any]] = {
    "baseline": {"color": BASELINE, "linestyle": "--"},
    "embedding": {"color": MAIN, "linestyle": "-"},
}
"""Colour and line of the embedding and of the baseline of covariates in curves."""
CHANCE_LINE: dict[str, Any] = {"color": CHANCE, "linestyle": ":", "linewidth": 1.3}

WIDTH = 5.2
"""Width of a figure in inches: two fit side by side on a desktop page, one fills a telephone's."""

_LOOK = matplotlib.rc_params_from_file(
    Path(__file__).with_name("templates") / "report.mplstyle", use_default_template=False
)


@dataclass(frozen=True)
class Picture:
    """A figure of a page, with its name, alternative text, caption and numbers.

    Parameters
    ----------
    name : str
        Name of the figure's files.
    figure : Figure
        The drawing.
    alt : str
        Alternative text, which describes the drawing with its numbers.
    caption : str
        Sentences below the figure.
    numbers : DataFrame, optional
        Values that were drawn, without identifiers of participants.
    """

    name: str
    figure: Figure
    alt: str
    caption: str
    numbers: pd.DataFrame | None = None

    def encode(self, file_format: str) -> bytes:
        """Return the figure as the bytes of an ``svg`` or ``png`` file; equal for equal figures."""
        return self._svg if file_format == "svg" else self._save(file_format)

    @cached_property
    def _svg(self) -> bytes:
        # Verdana is as wide as DejaVu Sans, by which the layout was measured; other fonts are
        # narrower.
        return self._save("svg").replace(b"'DejaVu Sans'", b"'DejaVu Sans', Verdana, sans-serif")

    def _save(self, file_format: str) -> bytes:
        buffer = io.BytesIO()
        metadata = (
            {"Date": None, "Creator": "neurocontrast"}
            if file_format == "svg"
            else {"Software": "neurocontrast"}
        )
        with matplotlib.rc_context(_LOOK), warnings.catch_warnings():
            # Names can hold letters that the figure's font lacks; the tables show them all.
            warnings.filterwarnings("ignore", message="Glyph .* missing from")
            self.figure.savefig(buffer, format=file_format, dpi=150, metadata=metadata)
        return buffer.getvalue()

    def data_uri(self) -> str:
        """Return the figure's SVG as a data URI, which the page holds in place of a link."""
        return "data:image/svg+xml;base64," + base64.b64encode(self._svg).decode("ascii")


styled = matplotlib.rc_context(_LOOK)
"""Decorator by which a function draws in the report's look; matplotlib's settings are restored."""


def blank_figure(*, height: float, width: float = WIDTH, layout: Any = "constrained") -> Figure:
    """Return an empty figure of a size in inches, without pyplot's global state."""
    return Figure(figsize=(width, height), layout=layout)


def new_figure(*, height: float, width: float = WIDTH) -> tuple[Figure, Axes]:
    """Return a figure of a size in inches, and the one pair of axes in the figure."""
    figure = blank_figure(height=height, width=width)
    return figure, figure.add_subplot()


def look_of(number: int) -> dict[str, Any]:
    """Return colour, marker and line style of the n-th curve of a figure, to tell curves apart."""
    look = {"color": PALETTE, "marker": MARKERS, "linestyle": LINES}
    return {name: choices[number % len(choices)] for name, choices in look.items()}


def plain_label(text: object, *, length: int = 30) -> str:
    """Return a name as a figure's label: on one line, shortened to `length`, with ``$`` escaped."""
    return shorten(text, length=length).replace("$", r"\$")


def shorten(text: object, *, length: int = 30) -> str:
    """Return a name on one printable line, without its middle if longer than `length`.

    Names of sites often differ only in their last letters, which stay.
    """
    line = " ".join(
        "".join(letter if letter.isprintable() else " " for letter in str(text)).split()
    )
    if len(line) <= length:
        return line
    tail = (length - 1) // 2
    return f"{line[: length - 1 - tail].rstrip()}…{line[-tail:].lstrip()}"


def distinct_labels(names: Iterable[object], *, length: int = 30) -> list[str]:
    """Return a figure's labels for `names`, shortened to `length`; equal labels are numbered."""
    labels = [shorten(name, length=length) for name in names]
    for clash in {label for label in labels if labels.count(label) > 1}:
        rows = [row for row, label in enumerate(labels) if label == clash]
        for number, row in enumerate(rows, start=1):
            labels[row] = f"{clash[: length - 5]} #{number}"
    return [label.replace("$", r"\$") for label in labels]


def legend_below(
    figure: Figure, axes: Axes, *, n_columns: int = 2, marker_scale: float = 1.0
) -> None:
    """Put the legend of `axes` below the axes, where no data can be hidden."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        figure.legend(
            handles,
            labels,
            loc="outside lower center",
            ncols=n_columns,
            handlelength=2.4,
            columnspacing=1.4,
            markerscale=marker_scale,
        )


def write_figures(folder: Path, pictures: Sequence[Picture], *, progress: Progress) -> None:
    """Write each figure to `folder` as ``name.svg`` and ``name.png``, its numbers as ``name.tsv``.

    Captions and alternative texts of all figures are listed in ``figures.tsv``.
    """
    with progress.task("Writing figures", len(pictures), "figure") as task:
        for picture in pictures:
            for file_format in ("svg", "png"):
                with atomic_path(folder / f"{picture.name}.{file_format}") as temporary:
                    temporary.write_bytes(picture.encode(file_format))
            if picture.numbers is not None:
                write_table(folder / f"{picture.name}.tsv", picture.numbers)
            task.advance()
    listed = [(picture.name, picture.caption, picture.alt) for picture in pictures]
    write_table(folder / "figures.tsv", pd.DataFrame(listed, columns=["name", "caption", "alt"]))


MAX_VECTORS = 1500
"""Most points of a scatter plot that are drawn as vectors; more are an image inside the SVG."""

_MAX_LISTED = 12
_MAX_POINTS = 3000
_MAX_GROUPS = 12


@dataclass(frozen=True)
class Series:
    """Points of one colour and marker; the index of `rows` is each point's row in the plot.

    `value` is the name of the column with the points' values, by default ``value``. Columns ``low``
    and ``high`` then hold the ends of the intervals; for a column of another name, ``<name>_low``
    and ``<name>_high`` do.
    """

    rows: pd.DataFrame
    label: str | None = None
    value: str = "value"
    color: str = MAIN
    marker: str = "o"
    filled: bool = True
    shift: float = 0.0

    @property
    def values(self) -> pd.Series:
        """Values of the plotted points, as floats: the column of `rows` that `value` names."""
        return self.rows[self.value].astype(float)

    @property
    def ends(self) -> tuple[pd.Series, pd.Series]:
        """Low ends and high ends of the points' intervals.

        NaN for a point without interval, and for points drawn as ticks.
        """
        names = (
            ("low", "high")
            if self.value == "value"
            else (f"{self.value}_low", f"{self.value}_high")
        )
        ends = self.rows.reindex(columns=names).astype(float)
        return (
            (ends[names[0]], ends[names[1]])
            if self.marker != "|"
            else (ends[names[0]] * np.nan,) * 2
        )


def tabulate_estimates(named: Iterable[tuple[str, Any]]) -> pd.DataFrame:
    """Tabulate each model with a value: ``model``, ``value``, ``low`` and ``high``.

    `named` holds pairs of a model's name and its values of one metric (`Metric`, or None).
    """
    columns = ["model", "value", "low", "high"]
    rows = [
        (
            label,
            point_estimate(values),
            *((values.interval if values else None) or (np.nan, np.nan)),
        )
        for label, values in named
    ]
    estimates = pd.DataFrame(rows, columns=columns).dropna(subset="value", ignore_index=True)
    return estimates.astype(dict.fromkeys(columns[1:], float))


def draw_rows(
    axes: Axes,
    series: Sequence[Series],
    labels: Sequence[str],
    *,
    xlabel: str,
    reference: tuple[float | None, str | None] = (None, None),
    limits: tuple[float | None, float | None] = (None, None),
    total: bool = False,
) -> None:
    """Draw points with intervals on `axes`, in one row for each of `labels`, the first at the top.

    Each of `series` holds points of one look, and the index of its table is the row of each point.
    `reference` is the place and the label of a vertical line, and `limits` bound the x axis. With
    `total`, a line sets the last row apart.
    """
    for one in series:
        low, high = one.ends
        heights = one.rows.index + one.shift
        bounded = (high > low).to_numpy()
        axes.hlines(heights[bounded], low[bounded], high[bounded], color=one.color, linewidth=2)
        tick = one.marker == "|"
        axes.plot(
            one.values,
            heights,
            marker=one.marker,
            linestyle="none",
            color=one.color,
            label=one.label,
            markersize=15 if tick else 6.5,
            markeredgewidth=2 if tick else 1.5,
            markerfacecolor=one.color if one.filled else "white",
        )
    if reference[0] is not None:
        axes.axvline(reference[0], color=CHANCE, linestyle=":", linewidth=1.3, label=reference[1])
    defined = {row for one in series for row in one.rows.index[one.values.notna()]}
    for row in set(range(len(labels))) - defined:
        axes.annotate(
            "not defined (see table)",
            (0.02, row),
            xycoords=("axes fraction", "data"),
            va="center",
            fontsize=8.5,
            color=MUTED,
            style="italic",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0},
        )
    if total:
        axes.axhline(len(labels) - 1.5, color="#9aa5b1", linewidth=0.8)
    axes.set_yticks(range(len(labels)), labels)
    axes.set(ylim=(len(labels) - 0.4, -0.6), xlabel=xlabel)
    axes.grid(axis="y", visible=False)
    axes.margins(x=0.08)
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    _bound(axes, series, [] if reference[0] is None else [reference[0]], limits)


def _bound(
    axes: Axes,
    series: Sequence[Series],
    marked: list[float],
    limits: tuple[float | None, float | None],
) -> None:
    """Limit the x axis to the range of the values with a margin, and to `limits`.

    The values are all of `series`, and `marked` places such as a vertical line. The margin is 1.5
    times the range of the values or the median width of the intervals, whichever is larger; an
    interval that ends farther out is cut off. `limits` hold where they are narrower.
    """
    values = np.concatenate([marked, *(one.values for one in series)])
    widths = pd.concat([one.ends[1] - one.ends[0] for one in series]).dropna()
    values = values[np.isfinite(values)]
    typical = float(widths.median()) if len(widths) else 0.0
    low, high = axes.get_xlim()
    room = 1.5 * max(float(np.ptp(values)), typical) if len(values) else 0.0
    if room > 0:
        low = max(low, values.min() - room)
        high = min(high, values.max() + room)
    margin = 0.02 * (high - low)
    low = low if limits[0] is None else max(low, limits[0] - margin)
    high = high if limits[1] is None else min(high, limits[1] + margin)
    axes.set_xlim(low, high)


@styled
def draw_intervals(
    name: str,
    series: Sequence[Series],
    labels: Sequence[str],
    sentence: str,
    *,
    note: str = "",
    numbers: pd.DataFrame,
    sides: tuple[str, str] = ("", ""),
    **look: Any,
) -> Picture | None:
    """Draw points of `series` with intervals, a row for each label; None if no value is defined.

    The caption is `sentence` and `note`; the alternative text is `sentence` and the values. `sides`
    are words above the left and the right end of the axis; `look` is passed on to `draw_rows`.
    """
    drawn = [one for one in series if one.values.notna().any()]
    if not drawn:
        return None
    figure, axes = new_figure(height=1.6 + (0.36 if len(labels) < 16 else 0.28) * len(labels))
    draw_rows(axes, drawn, labels, **look)
    for x, words, side in ((0.0, sides[0], "left"), (1.0, sides[1], "right")):
        axes.annotate(
            words,
            (x, 1.0),
            xycoords="axes fraction",
            ha=side,
            va="bottom",
            size=8.5,
            color=MUTED,
        )
    legend_below(figure, axes, n_columns=1 if len(drawn) > 2 else 2)
    alt = f"{sentence} {_list_values(drawn, labels)}"
    return Picture(name, figure, alt=alt, caption=f"{sentence} {note}".strip(), numbers=numbers)


def _list_values(series: Sequence[Series], labels: Sequence[str]) -> str:
    """Return values as alternative text: "site-01: embedding 0.71 (0.60 to 0.80); site-02: …"."""
    parts = []
    for row, label in enumerate(labels):
        values = []
        for one in series:
            if row in one.rows.index and pd.notna(one.values[row]):
                ends = interval_text((one.ends[0][row], one.ends[1][row]))
                value = f"{(one.label or '').lower()} {number_text(one.values[row])}".strip()
                values.append(value + ("" if ends == DASH else f" ({ends})"))
        parts.append(f"{label}: {', '.join(values) or 'not defined'}".replace("\\", ""))
    more = f"; and {len(parts) - _MAX_LISTED} more in the table" if len(parts) > _MAX_LISTED else ""
    return "; ".join(parts[:_MAX_LISTED]) + more + "."


def thin_rows(table: pd.DataFrame) -> pd.DataFrame:
    """Return at most 3,000 rows of a table to be drawn as points, chosen at random.

    The seed is fixed: equal tables give equal rows.
    """
    few = (
        table
        if len(table) <= _MAX_POINTS
        else table.sample(_MAX_POINTS, random_state=0).sort_index()
    )
    return few.reset_index(drop=True)


def about_thinning(n_shown: int, n_all: int, items: str) -> str:
    """Return words on how many of all scans or other `items` are drawn as points; "" if all are."""
    return (
        f" {n_shown:,} of the {n_all:,} {items} are drawn, chosen at random."
        if n_shown < n_all
        else ""
    )


def point_size(n_points: int) -> float:
    """Return the area of a marker in a plot of `n_points`, smaller for more points."""
    return float(np.clip(9000 / max(n_points, 1), 8, 34))


def draw_groups(axes: Axes, x: pd.Series, y: pd.Series, values: pd.Series) -> None:
    """Draw points at `x` and `y` with a colour and marker for each of the commonest `values`.

    A value is, for example, the site of the point. Rare values share one look, and so do missing
    ones.
    """
    counts = values.value_counts()
    names = sorted(counts.index, key=str)
    if len(names) > _MAX_GROUPS:
        names = sorted(counts.index[: _MAX_GROUPS - 1], key=str)
    is_rare = values.notna() & ~values.isin(names)
    groups = [(f"{len(counts) - len(names)} smaller ones", is_rare, "#b0b7bf", "o")]
    for number, (name, label) in enumerate(
        zip(names, distinct_labels(names, length=22), strict=True)
    ):
        look = look_of(number)
        groups.append((label, values == name, look["color"], look["marker"]))
    groups.append(("not stated", values.isna(), CHANCE, "x"))
    groups = [
        (f"{label} ({members.sum()})", members, color, marker)
        for label, members, color, marker in groups
        if members.any()
    ]
    for label, members, color, marker in groups:
        edge: Any = {} if marker == "x" else {"edgecolor": "white"}
        axes.scatter(
            x[members],
            y[members],
            s=point_size(len(x)),
            marker=marker,
            facecolor=color,
            alpha=0.8,
            label=label,
            linewidth=1.0 if marker == "x" else 0.4 if len(x) <= MAX_VECTORS else 0.0,
            rasterized=len(x) > MAX_VECTORS,
            **edge,
        )
    # Markers of the legend are large enough to be seen, whatever the number of points.
    figure: Any = axes.figure
    legend_below(figure, axes, marker_scale=float(np.sqrt(34 / point_size(len(x)))))
