"""Each site while the model knows it, and while it is left out: dumbbells with intervals."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.metrics import chance_level, describe_metric, interval_text, number_text
from neurocontrast.reporting.new_sites import Estimate, constant_estimate, estimate, recentred, site_rows
from neurocontrast.reporting.style import (
    CHANCE,
    INK,
    MAIN,
    MUTED,
    PALETTE,
    Picture,
    distinct_labels,
    legend_below,
    new_figure,
    styled,
)

__all__ = ["draw_new_sites"]

_KNOWN, _UNSEEN, _RECENTRED = "embedding_home", "embedding_unseen", "recentred_unseen"
_LOOKS = {
    _KNOWN: ("o", MAIN, "white", "Site known (others of it trained on)"),
    _UNSEEN: ("s", PALETTE[1], PALETTE[1], "Site unseen (left out)"),
    _RECENTRED: ("^", PALETTE[2], "white", "Unseen, recentred (transductive)"),
}
_SHIFT = {False: 0.14, True: 0.22}
"""How far known and unseen stand apart in a row: further where recentred ones stand there too."""
_MANY = 15
"""With more sites rows are drawn closer together."""


@styled
def draw_new_sites(files: EvaluationFiles, metric: str) -> Picture | None:
    """Draw a metric of every site, known and unseen; None where no site has a value of either kind."""
    rows = site_rows(files, metric)
    if rows.empty or rows[[_KNOWN, _UNSEEN]].notna().sum().sum() == 0:
        return None
    rows = pd.concat([rows, _pooled(files, metric, rows)], ignore_index=True)
    rows = rows.dropna(axis="columns", how="all")
    figure, axes = new_figure(height=2.3 + (0.42 if len(rows) <= _MANY else 0.33) * len(rows))
    looks = {key: look for key, look in _LOOKS.items() if key in rows}
    _draw_rows(axes, rows, looks)
    about = describe_metric(metric)
    _draw_reference(axes, rows, metric, chance_level(metric, len(files.classes)))
    names = distinct_labels(rows["site"][:-1], length=24)
    labels = [f"{name} (n={number_text(n, digits=0)})" for name, n in zip(names, rows["n"], strict=False)]
    axes.set_yticks(range(len(rows)), [*labels, "All left out, pooled"])
    axes.set(ylim=(len(rows) - 0.4, -0.6), xlabel=about.label)
    axes.axhline(len(rows) - 1.5, color="#9aa5b1", linewidth=0.8)
    axes.grid(axis="y", visible=False)
    _bound(axes, rows, about.limits)
    legend_below(figure, axes, n_columns=1)
    return Picture(
        f"new_sites_{metric}",
        figure,
        alt=f"{about.label} of each site while it is known to the model, and while it is left out. {_alt(rows)}",
        caption=_caption(files, metric),
        numbers=rows,
    )


def _pooled(files: EvaluationFiles, metric: str, rows: pd.DataFrame) -> pd.DataFrame:
    """Return the row of all sites together; its values are those of evaluation.json."""
    row: dict[str, object] = {"site": "pooled", "n": rows["n"].sum(), "note": ""}
    for model in ("embedding", "recentred", "baseline"):
        for column, part in ((f"{model}_home", "home"), (f"{model}_unseen", "unseen")):
            row |= _ends(column, estimate(files, part, model, metric))
    return pd.DataFrame([row | _ends("constant_unseen", constant_estimate(files, metric))])


def _ends(column: str, value: Estimate | None) -> dict[str, float]:
    if value is None:
        return {}
    low, high = value.interval or (float("nan"), float("nan"))
    return {column: value.value, f"{column}_low": low, f"{column}_high": high}


def _draw_rows(axes: Axes, rows: pd.DataFrame, looks: dict[str, tuple[str, str, str, str]]) -> None:
    three = _RECENTRED in looks
    shift = _SHIFT[three]
    places = {_KNOWN: -shift, _UNSEEN: 0.0 if three else shift, _RECENTRED: shift}
    if {_KNOWN, _UNSEEN} <= set(rows):
        both = rows[[_KNOWN, _UNSEEN]].dropna()
        for position, pair in zip(both.index.to_numpy(dtype=float), both.to_numpy(dtype=float), strict=True):
            axes.plot(pair, [position + places[_KNOWN], position + places[_UNSEEN]], color="#c3cad2",
                      linewidth=1.0, zorder=1)  # fmt: skip
    for key, (marker, color, face, label) in looks.items():
        there = rows[rows[key].notna()]
        where = there.index + places[key]
        ends = {end: there.get(f"{key}_{end}", pd.Series(float("nan"), index=there.index)) for end in ("low", "high")}
        bounded = (ends["high"] > ends["low"]).to_numpy()
        axes.hlines(where[bounded], ends["low"][bounded], ends["high"][bounded], color=color, linewidth=1.6)
        axes.plot(there[key], where, marker=marker, linestyle="none", color=color, markerfacecolor=face, markersize=5.5,
                  markeredgewidth=1.4, label=label)  # fmt: skip
    nothing = rows.index[rows[[key for key in looks if key != _RECENTRED]].isna().all(axis=1)]
    for position in nothing:
        axes.annotate(
            "not defined (see table)", (0.02, position), xycoords=("axes fraction", "data"), va="center", fontsize=8.5,
            color=MUTED, style="italic", bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0},
        )  # fmt: skip


def _draw_reference(axes: Axes, rows: pd.DataFrame, metric: str, chance: float | None) -> None:
    """Draw what a guess without the scan reaches: at each site where it differs, else one line."""
    if metric == "bias":
        axes.axvline(0, color=CHANCE, linestyle=":", linewidth=1.3, label="No bias")
    elif chance is not None:
        axes.axvline(chance, color=CHANCE, linestyle=":", linewidth=1.3, label="Chance")
    elif "constant_unseen" in rows:
        there = rows[rows["constant_unseen"].notna()]
        axes.plot(there["constant_unseen"], there.index, marker="|", linestyle="none", color=INK, markersize=15,
                  markeredgewidth=1.7, label="Constant guess, no scan")  # fmt: skip


def _bound(axes: Axes, rows: pd.DataFrame, limits: tuple[float | None, float | None]) -> None:
    """Keep a metric's axis inside its limits, and one far-out interval from squeezing all the others."""
    low, high = axes.get_xlim()
    values = rows[[key for key in (*_LOOKS, "constant_unseen") if key in rows]].to_numpy(dtype=float)
    values = values[np.isfinite(values)]
    spread = max(float(values.max() - values.min()), 1e-9)
    low, high = max(low, float(values.min()) - 1.5 * spread), min(high, float(values.max()) + 1.5 * spread)
    margin = 0.02 * (high - low)
    low = low if limits[0] is None else max(low, limits[0] - margin)
    high = high if limits[1] is None else min(high, limits[1] + margin)
    axes.set_xlim(low, high)


def _alt(rows: pd.DataFrame) -> str:
    names = {_KNOWN: "known", _UNSEEN: "unseen", _RECENTRED: "recentred", "constant_unseen": "constant guess"}
    parts = []
    for row in rows.to_dict("records"):
        said = [_words(row, key, name) for key, name in names.items() if pd.notna(row.get(key))]
        parts.append(f"{row['site']} (n = {number_text(row['n'], digits=0)}): {', '.join(said) or 'not defined'}")
    shown = [*parts[:12], *parts[-1:]] if len(parts) > 13 else parts
    more = f" ({len(parts) - 13} more sites are in the table)" if len(parts) > 13 else ""
    return "; ".join(shown) + f"{more}."


def _words(row: dict, key: str, name: str) -> str:
    value = f"{name} {number_text(row[key], digits=2)}"
    interval = interval_text((row.get(f"{key}_low"), row.get(f"{key}_high")), digits=2)
    return value if key == "constant_unseen" else f"{value} ({interval})"


def _caption(files: EvaluationFiles, metric: str) -> str:
    text = (
        f"{describe_metric(metric).label} of the people of each site: while other people of the site are trained on, "
        f"and while none is. With {files.level:.0%} intervals; a point without a line has none."
    )
    if recentred(files):
        text += " Triangles are transductive: they use unlabelled scans of the unseen site."
    return text
