"""How well two classes are told apart: ROC and precision–recall curves with bootstrap bands."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from sklearn.metrics import precision_recall_curve, roc_curve

from neurocontrast.reporting import style
from neurocontrast.reporting.page import Section, SectionBuilder, note, pictures
from neurocontrast.reporting.predictions import tested_rows
from neurocontrast.reporting.read import EvaluationFiles
from neurocontrast.reporting.wording import interval_text, number_text, point_estimate

__all__ = ["CURVES", "GRID", "curve_band", "draw_curve"]

Floats = npt.NDArray[np.float64]

GRID: Floats = np.linspace(0.0, 1.0, 101)
"""Places along the horizontal axis at which a band is given."""

_FINE_GRID: Floats = np.linspace(0.0, 1.0, 401)
_MAX_UNDEFINED_SHARE = 0.05
_N_DRAWS, _FEWEST_DRAWS, _WORK = 500, 200, 20_000_000
_MAX_POINTS = 1000
_TITLES = {"roc": "ROC", "precision_recall": "Precision–recall"}
_AREAS = {"roc": ("auc", "AUC"), "precision_recall": ("average_precision", "average precision")}


def _build(files: EvaluationFiles) -> Section:
    shown = pictures(*(draw_curve(files, curve) for curve in _TITLES))
    why = note("No curve is defined: the out-of-fold predictions hold one class only.")
    return Section("curves", "Discrimination", shown or [why])


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
            curves = [_points(curve, truth[part], score[part], weight[part]) for part in repeats]
            drawn.append(np.mean([_heights(curve, points, GRID) for points in curves], axis=0))
    if len(drawn) < (1 - _MAX_UNDEFINED_SHARE) * n_draws:
        return None
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return pd.DataFrame({"x": GRID, "low": low, "high": high})


@style.styled
def draw_curve(files: EvaluationFiles, curve: str) -> style.Picture | None:
    """Draw ``roc`` or ``precision_recall`` of the baseline, and of the embedding over it; None where undefined."""
    tested, title, (metric, area), s = tested_rows(files), _TITLES[curve], _AREAS[curve], files.summary
    figure, axes = style.new_figure(height=style.WIDTH * 1.02)
    covariates = f" ({style.plain_label(' + '.join(s.baseline_covariates))})" if s.baseline_covariates else ""
    parts, bands = [], []
    for name, column, found, color, line in (
        ("Baseline", "baseline_score", s.baseline, style.BASELINE, "--"),
        ("Embedding", "y_score", files.metrics, style.MAIN, "-"),
    ):
        points, values = _pooled(tested, column, files.positive, curve), found.get(metric)
        if points is None:
            continue
        label = f"{name}{covariates if column == 'baseline_score' else ''}: {area} "
        label += number_text(point_estimate(values), digits=2)
        label += f" [{interval_text(values.interval, digits=2)}]" if values and values.interval else ""
        axes.plot(*points, color=color, linestyle=line, linewidth=2.1, label=label,
                  drawstyle="default" if curve == "roc" else "steps-pre")  # fmt: skip
        parts.append(pd.DataFrame({"curve": name, "x": points[0], "y": points[1]}))
        band = curve_band(tested, column=column, positive=files.positive, curve=curve, level=files.level,
                          unit=s.bootstrap.unit or "subject", seed=s.seed or 0)  # fmt: skip
        if band is not None:
            # The baseline's band is hatched, so that the two differ without colour.
            hatched: Any = {"facecolor": "none", "edgecolor": color, "hatch": "////", "alpha": 0.28}
            look = hatched if line == "--" else {"color": color, "alpha": 0.18}
            axes.fill_between(band["x"], band["low"], band["high"], linewidth=0, **look)
            bands.append(band.assign(curve=f"{name}, band"))
    if not parts:
        return None
    chance = _draw_chance(axes, files, tested, curve)
    found_class = f" (“{style.plain_label(files.positive, length=20)}” found)"
    labels = {"roc": ("1 − specificity", f"Sensitivity{found_class}")}
    xlabel, ylabel = labels.get(curve, (f"Recall{found_class}", "Precision"))
    axes.set(xlabel=xlabel, ylabel=ylabel, xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    style.legend_below(figure, axes, n_columns=1)
    legend = "; ".join(str(label).replace("\\", "") for label in axes.get_legend_handles_labels()[1])
    return style.Picture(
        curve,
        figure,
        alt=f"{title} curves for {files.target}. {legend}.",
        caption=f"{title} curves. {_about_lines(files, bool(bands))}{chance}",
        numbers=pd.concat([*parts, *bands], ignore_index=True),
    )


def _pooled(rows: pd.DataFrame, column: str, positive: str, curve: str) -> tuple[Floats, Floats] | None:
    """Return the curve of all folds together; with repeats the mean of their curves, whose area is the mean area."""
    known = rows[rows[column].notna() & rows["y_true"].notna()] if column in rows else rows.iloc[:0]
    curves = []
    for _, part in known.groupby("repeat"):
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
    share = float((tested["y_true"] == files.positive).mean())
    axes.axhline(share, label=f"Chance: share of positives, {share:.2f}", **look)
    common = f"how common “{files.positive}” is in this cohort ({share:.0%})"
    return f" Precision depends on {common}; elsewhere it will differ."


def _about_lines(files: EvaluationFiles, banded: bool) -> str:
    repeats = tested_rows(files)["repeat"].nunique()
    lines = f"Lines: all tested {files.words.items} pooled" + (
        f", mean over {repeats} repeats." if repeats > 1 else "."
    )
    if not banded:
        return f"{lines} No bands."
    unit = "site" if files.summary.bootstrap.unit == "site" else files.words.unit
    return f"{lines} Bands: {files.level:.0%} of bootstrap resamples of {unit}s at each place, models held fixed."


CURVES = SectionBuilder("curves", "Discrimination", order=70, build=_build, covers="curves", kinds=("binary",))
