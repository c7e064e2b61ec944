"""ROC and precision–recall curves with bootstrap bands."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from sklearn.metrics import precision_recall_curve, roc_curve

from neurocontrast.reporting import style
from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.metrics import interval_text, number_text, point_estimate
from neurocontrast.reporting.predictions import tested_rows

__all__ = ["GRID", "curve_band", "draw_curve"]

Floats = npt.NDArray[np.float64]

GRID: Floats = np.linspace(0.0, 1.0, 101)
"""Places along the horizontal axis at which a band is given."""

_FINE_GRID: Floats = np.linspace(0.0, 1.0, 401)
_MAX_UNDEFINED_SHARE = 0.05
_N_DRAWS, _FEWEST_DRAWS, _WORK = 500, 200, 20_000_000
_MAX_POINTS, _MAX_BANDS = 1000, 3
_TITLES = {"roc": "ROC", "precision_recall": "Precision–recall"}
_AREAS = {"roc": ("auc", "AUC"), "precision_recall": ("average_precision", "average precision")}


class _Line(NamedTuple):
    """A curve: the score and the class that it is of, and how it looks."""

    name: str
    label: str
    column: str
    positive: str
    color: str
    style: Any


def _points(
    curve: str, truth: npt.NDArray[np.bool_], score: Floats, weight: Floats | None = None
) -> tuple[Floats, Floats]:
    """Return the curve from the strictest threshold on; recall 0 has the precision of the first threshold."""
    if curve == "roc":
        false_positive_rate, sensitivity, _ = roc_curve(truth, score, sample_weight=weight)
        return false_positive_rate, sensitivity
    precision, recall, _ = precision_recall_curve(truth, score, sample_weight=weight)
    return np.append(0.0, recall[-2::-1]), np.append(precision[-2], precision[-2::-1])


def _heights(curve: str, points: tuple[Floats, Floats], grid: Floats) -> Floats:
    """Return a curve's heights over a grid; precision is that of the first threshold with so high a recall."""
    x, y = points
    if curve == "roc":
        return np.interp(grid, x, y)
    return np.asarray(y[np.searchsorted(x, np.maximum(grid, 1e-9) - 1e-12)])


def _area(curve: str, points: tuple[Floats, Floats]) -> float:
    x, y = points
    return float(np.trapezoid(y, x) if curve == "roc" else np.sum(np.diff(x) * y[1:]))


def curve_band(
    rows: pd.DataFrame,
    *,
    column: str,
    positive: str,
    curve: str,
    unit: str = "subject",
    level: float = 0.95,
    seed: int = 0,
) -> pd.DataFrame | None:
    """Return percentiles of a pooled curve over resamples of whole units, as ``x``, ``low`` and ``high``.

    Models are held fixed. A resample's curve is the mean over repeats, with the same people in each. None where
    there is nothing to resample, or where too many resamples hold one class only.
    """
    name = "site" if unit == "site" else next((key for key in ("subject_id", "participant_id") if key in rows), None)
    known = rows[rows[column].notna() & rows["y_true"].notna()] if column in rows else rows.iloc[:0]
    truth = (known["y_true"] == positive).to_numpy()
    if name is None or truth.all() or not truth.any():
        return None
    codes, units = pd.factorize(known[name].fillna(""))
    if len(units) < 2:
        return None
    n_draws = int(np.clip(_WORK // len(codes), _FEWEST_DRAWS, _N_DRAWS))
    counts = np.random.default_rng(seed).multinomial(len(units), np.full(len(units), 1 / len(units)), size=n_draws)
    score = known[column].to_numpy(float)
    repeats = [np.flatnonzero(known["repeat"] == repeat) for repeat in known["repeat"].unique()]
    drawn = []
    for weight in counts[:, codes].astype(float):
        if all(0 < (weight[part] * truth[part]).sum() < weight[part].sum() for part in repeats):
            heights = [
                _heights(curve, _points(curve, truth[part], score[part], weight[part]), GRID) for part in repeats
            ]
            drawn.append(np.mean(heights, axis=0))
    if len(drawn) < (1 - _MAX_UNDEFINED_SHARE) * n_draws:
        return None
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return pd.DataFrame({"x": GRID, "low": low, "high": high})


@style.styled
def draw_curve(files: EvaluationFiles, curve: str) -> style.Picture | None:
    """Draw ``roc`` or ``precision_recall`` curves, of several classes one each; None where none is defined."""
    tested, title, binary = tested_rows(files), _TITLES[curve], files.kind == "binary"
    figure, axes = style.new_figure(height=style.WIDTH * 1.02 + (0.0 if binary else 0.17 * len(files.classes)))
    parts, bands = [], []
    for line in _models(files, curve) if binary else _classes(files):
        points = _pooled(tested, line.column, line.positive, curve)
        if points is None:
            continue
        label = line.label if binary else f"{line.label}: {_AREAS[curve][1]} {_area(curve, points):.2f}"
        axes.plot(*points, color=line.color, linestyle=line.style, linewidth=2.1, label=label,
                  drawstyle="default" if curve == "roc" else "steps-pre")  # fmt: skip
        parts.append(pd.DataFrame({"curve": line.name, "x": points[0], "y": points[1]}))
        band = None
        if binary or len(files.classes) <= _MAX_BANDS:
            band = curve_band(tested, column=line.column, positive=line.positive, curve=curve, **_resampling(files))
        if band is not None:
            # The baseline's band is hatched, so that the two differ without colour.
            look: Any = {"facecolor": "none", "edgecolor": line.color, "hatch": "////", "alpha": 0.28}
            look = look if line.column == "baseline_score" else {"color": line.color, "alpha": 0.18}
            axes.fill_between(band["x"], band["low"], band["high"], linewidth=0, **look)
            bands.append(band.assign(curve=f"{line.name}, band"))
    if not parts:
        return None
    chance = _draw_chance(axes, files, tested, curve)
    names = {"roc": ("1 − specificity", "Sensitivity"), "precision_recall": ("Recall", "Precision")}[curve]
    found = f" (“{style.plain_label(files.positive, length=20)}” found)" if binary else ""
    xlabel, ylabel = (names[0], names[1] + found) if curve == "roc" else (names[0] + found, names[1])
    axes.set(xlabel=xlabel, ylabel=ylabel, xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    style.legend_below(figure, axes, n_columns=1)
    legend = "; ".join(str(label).replace("\\", "") for label in axes.get_legend_handles_labels()[1])
    against = "" if binary else ", each class against all others"
    return style.Picture(
        curve if binary else f"{curve}_one_vs_rest",
        figure,
        alt=f"{title} curves for {files.target}{against}. {legend}.",
        caption=f"{title} curves{against}. {_about_lines(files, bool(bands))}{chance}",
        numbers=pd.concat([*parts, *bands], ignore_index=True),
    )


def _models(files: EvaluationFiles, curve: str) -> list[_Line]:
    """Return the curves of a binary target: of the baseline, and of the embedding over it."""
    (metric, area), lines = _AREAS[curve], []
    covariates = (
        f" ({style.plain_label(' + '.join(files.summary.baseline_covariates))})"
        if files.summary.baseline_covariates
        else ""
    )
    for name, column, found, color, dashes in (
        (f"Baseline{covariates}", "baseline_score", files.summary.baseline, style.BASELINE, "--"),
        ("Embedding", "y_score", files.metrics, style.MAIN, "-"),
    ):
        values = found.get(metric)
        label = f"{name}: {area} {number_text(point_estimate(values), digits=2)}"
        label += f" [{interval_text(values.interval, digits=2)}]" if values and values.interval else ""
        lines.append(_Line(name, label, column, files.positive, color, dashes))
    return lines


def _classes(files: EvaluationFiles) -> list[_Line]:
    """Return the curves of several classes, each against all others."""
    tested, lines = tested_rows(files), []
    for place, (name, label) in enumerate(zip(files.classes, style.distinct_labels(files.classes), strict=True)):
        n = round((tested["y_true"] == name).sum() / tested["repeat"].nunique())
        look = style.look_of(place)
        lines.append(_Line(name, f"{label} (n = {n})", f"score_{name}", name, look["color"], look["linestyle"]))
    return lines


def _pooled(rows: pd.DataFrame, column: str, positive: str, curve: str) -> tuple[Floats, Floats] | None:
    """Return the curve of all folds together; with repeats the mean of their curves, whose area is the mean area."""
    if column not in rows:
        return None
    curves = []
    for _, part in rows[rows[column].notna() & rows["y_true"].notna()].groupby("repeat"):
        truth = (part["y_true"] == positive).to_numpy()
        if truth.any() and not truth.all():
            curves.append(_points(curve, truth, part[column].to_numpy(float)))
    if len(curves) > 1:
        heights = np.mean([_heights(curve, points, _FINE_GRID) for points in curves], axis=0)
        return np.append(0.0, _FINE_GRID), np.append(0.0 if curve == "roc" else heights[0], heights)
    if not curves:
        return None
    kept = np.unique(np.linspace(0, len(curves[0][0]) - 1, _MAX_POINTS).round().astype(int))
    return curves[0][0][kept], curves[0][1][kept]


def _draw_chance(axes: Axes, files: EvaluationFiles, tested: pd.DataFrame, curve: str) -> str:
    """Draw what scores without information reach; return the sentence that the caption needs."""
    look: Any = {"color": style.CHANCE, "linestyle": ":", "linewidth": 1.3}
    if curve == "roc":
        axes.plot([0, 1], [0, 1], label="Chance: 0.50", **look)
        return ""
    if files.kind != "binary":
        return " Chance is the share of each class."
    share = float((tested["y_true"] == files.positive).mean())
    axes.axhline(share, label=f"Chance: share of positives, {share:.2f}", **look)
    common = f"how common “{files.positive}” is in this cohort ({share:.0%})"
    return f" Precision depends on {common}; elsewhere it will differ."


def _resampling(files: EvaluationFiles) -> dict:
    unit = "site" if files.summary.bootstrap.unit == "site" else "subject"
    return {"unit": unit, "level": files.level, "seed": files.summary.seed or 0}


def _about_lines(files: EvaluationFiles, banded: bool) -> str:
    repeats = tested_rows(files)["repeat"].nunique()
    lines = "Lines: all folds pooled" + ("." if repeats < 2 else f", mean over {repeats} repeats.")
    if files.predictions.groupby(["repeat", "fold"]).ngroups < 2:
        lines = f"One curve of all {files.words.items}."
    if not banded:
        return f"{lines} No bands."
    unit = files.words.unit if _resampling(files)["unit"] == "subject" else "site"
    return f"{lines} Bands: {files.level:.0%} of bootstrap resamples of {unit}s at each place, models held fixed."
