"""ROC and precision–recall curves: the embedding with a band, the baseline beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from sklearn.metrics import precision_recall_curve, roc_curve

from neurocontrast.reporting.figures.bands import curve_band
from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.metrics import interval_text, number_text, point_estimate
from neurocontrast.reporting.pooling import tested_rows
from neurocontrast.reporting.style import (
    BASELINE,
    CHANCE,
    LINES,
    MAIN,
    PALETTE,
    WIDTH,
    Picture,
    distinct_labels,
    legend_below,
    new_figure,
    plain_label,
    styled,
)

__all__ = ["draw_one_vs_rest", "draw_precision_recall", "draw_roc"]

_MAX_POINTS = 1000
_MAX_FOLDS = 10
_MAX_BANDS = 3

Points = tuple[np.ndarray, np.ndarray]


def _roc(truth: np.ndarray, score: np.ndarray) -> Points:
    false_positive_rate, true_positive_rate, _ = roc_curve(truth, score)
    return false_positive_rate, true_positive_rate


def _precision_recall(truth: np.ndarray, score: np.ndarray) -> Points:
    precision, recall, _ = precision_recall_curve(truth, score)
    # From the strictest threshold on; the end that is not measured (nobody called positive) is left out.
    recall, precision = recall[-2::-1], precision[-2::-1]
    return np.append(0.0, recall), np.append(precision[0], precision)


@dataclass(frozen=True)
class _Kind:
    """One kind of curve: how it is computed, and what its area is called."""

    band: str
    drawstyle: str
    points: Callable[[np.ndarray, np.ndarray], Points]
    metric: str
    area: str


_ROC = _Kind("roc", "default", _roc, "auc", "AUC")
_PR = _Kind("precision_recall", "steps-pre", _precision_recall, "average_precision", "average precision")


@styled
def draw_roc(files: EvaluationFiles) -> Picture | None:
    """Draw the ROC curves of a binary target; None where no curve is defined."""
    figure, axes = new_figure(height=WIDTH * 1.02)
    numbers, notes = _draw_models(axes, files, _ROC)
    if numbers.empty:
        return None
    axes.plot([0, 1], [0, 1], color=CHANCE, linestyle=":", linewidth=1.3, label="Chance")
    axes.set(
        xlabel=f"1 − specificity (“{plain_label(files.negative, length=20)}” called positive)",
        ylabel=f"Sensitivity (“{plain_label(files.positive, length=20)}” found)",
    )
    _square(axes)
    legend_below(figure, axes, n_columns=1)
    return Picture(
        "roc",
        figure,
        alt=f"ROC curves for {files.target}. {_areas(files, _ROC)}; chance is 0.50. {_heights(numbers)}",
        caption=f"ROC curves. {notes}",
        numbers=numbers,
    )


@styled
def draw_precision_recall(files: EvaluationFiles) -> Picture | None:
    """Draw the precision–recall curves of a binary target; None where no curve is defined."""
    figure, axes = new_figure(height=WIDTH * 1.02)
    numbers, notes = _draw_models(axes, files, _PR)
    if numbers.empty:
        return None
    share = float((tested_rows(files)["y_true"] == files.positive).mean())
    axes.axhline(share, color=CHANCE, linestyle=":", linewidth=1.3, label=f"Chance: share of positives, {share:.2f}")
    axes.set(
        xlabel=f"Recall (“{plain_label(files.positive, length=20)}” found)",
        ylabel="Precision (called positive and right)",
    )
    _square(axes)
    legend_below(figure, axes, n_columns=1)
    return Picture(
        "precision_recall",
        figure,
        alt=f"Precision–recall curves for {files.target}. {_areas(files, _PR)}; chance is {share:.2f}.",
        caption=(
            f"Precision and recall. {notes} Precision depends on how common “{files.positive}” is in this cohort "
            f"({share:.0%}); elsewhere it will differ."
        ),
        numbers=numbers,
    )


@styled
def draw_one_vs_rest(files: EvaluationFiles, curve: str = "roc") -> Picture | None:
    """Draw one curve a class against all the others, ``roc`` or ``precision_recall``; None where none is defined."""
    kind = _ROC if curve == "roc" else _PR
    tested = tested_rows(files)
    figure, axes = new_figure(height=WIDTH * 1.02 + 0.17 * len(files.classes))
    parts = []
    labels = distinct_labels(files.classes)
    for index, name in enumerate(files.classes):
        points = _pooled_points(tested, f"score_{name}", name, kind)
        if points is None:
            continue
        color, line = PALETTE[index % len(PALETTE)], LINES[index % len(LINES)]
        band = curve_band(tested, column=f"score_{name}", positive=name, curve=kind.band, **_resampling(files))  # type: ignore[arg-type]
        if band is not None and len(files.classes) <= _MAX_BANDS:
            axes.fill_between(band["x"], band["low"], band["high"], color=color, alpha=0.1, linewidth=0)
        n = round((tested["y_true"] == name).sum() / tested["repeat"].nunique())
        label = f"{labels[index]}: {kind.area} {_area(points, kind):.2f} (n = {n})"
        axes.plot(*points, color=color, linestyle=line, linewidth=1.9, drawstyle=kind.drawstyle, label=label)
        parts += [_as_table(name, points), *([] if band is None else [band.assign(curve=f"{name}, band")])]
    if not parts:
        return None
    if kind is _ROC:
        axes.plot([0, 1], [0, 1], color=CHANCE, linestyle=":", linewidth=1.3, label="Chance")
    names = ("1 − specificity", "Sensitivity") if kind is _ROC else ("Recall", "Precision")
    axes.set(xlabel=names[0], ylabel=names[1])
    _square(axes)
    legend_below(figure, axes, n_columns=1)
    legend = "; ".join(str(text) for text in axes.get_legend_handles_labels()[1])
    what = "ROC" if kind is _ROC else "Precision–recall"
    chance = "" if kind is _ROC else " Chance is the share of each class."
    file = f"{kind.band}_one_vs_rest"
    bands = (
        _band_text(files) if len(files.classes) <= _MAX_BANDS else f"Bands of so many classes are in {file}.tsv only."
    )
    return Picture(
        file,
        figure,
        alt=f"{what} curves of each class of {files.target} against all others. {legend}.",
        caption=f"{what} curves, each class against all others. {_lines(files)} {bands}{chance}",
        numbers=pd.concat(parts, ignore_index=True),
    )


def _draw_models(axes: Axes, files: EvaluationFiles, kind: _Kind) -> tuple[pd.DataFrame, str]:
    """Draw embedding and baseline with their bands; return the points, and the words for the caption."""
    tested, parts, banded = tested_rows(files), [], False
    for column, name, values, color, line, width in (
        ("baseline_score", "Baseline" + _covariates(files), files.baseline, BASELINE, "--", 2.0),
        ("y_score", "Embedding", files.metrics, MAIN, "-", 2.6),
    ):
        points = _pooled_points(tested, column, files.positive, kind)
        if points is None:
            continue
        band = curve_band(tested, column=column, positive=files.positive, curve=kind.band, **_resampling(files))  # type: ignore[arg-type]
        if band is not None:
            banded = True
            # The baseline's band is hatched, so that the two differ without colour.
            look = {"hatch": "////", "facecolor": "none", "edgecolor": color, "alpha": 0.28}
            look = look if column == "baseline_score" else {"color": color, "alpha": 0.2}
            axes.fill_between(band["x"], band["low"], band["high"], linewidth=0, **look)  # type: ignore[arg-type]
            parts.append(band.assign(curve=f"{name}, band"))
        axes.plot(
            *points, color=color, linestyle=line, linewidth=width, drawstyle=kind.drawstyle,
            label=f"{name}: {_value(values, kind)}",
        )  # fmt: skip
        parts.append(_as_table(name, points))
    notes = _lines(files) + (f" {_band_text(files)}" if banded else f" Too few {files.words.items} for a band.")
    # Of precision and recall, the curves of single folds are too jagged to be read.
    folds, text = _draw_folds(axes, files, kind) if parts and kind is _ROC else ([], "")
    return (pd.concat([*parts, *folds], ignore_index=True) if parts else pd.DataFrame()), notes + text


def _draw_folds(axes: Axes, files: EvaluationFiles, kind: _Kind) -> tuple[list[pd.DataFrame], str]:
    """Draw each test fold thin, where they are few enough to be told apart."""
    folds = list(files.predictions.groupby(["repeat", "fold"]))
    if len(folds) < 2 or len(folds) > _MAX_FOLDS:
        return [], ""
    parts: list[pd.DataFrame] = []
    for (repeat, fold), rows in folds:
        points = _points(rows, "y_score", files.positive, kind)
        if points is not None:
            axes.plot(*points, color=MAIN, alpha=0.3, linewidth=0.8, label=None if parts else "One test fold each")
            parts.append(_as_table(f"repeat {repeat:g} fold {fold:g}", points))
    n_undefined = len(folds) - len(parts)
    text = f" Thin: each of the {len(folds)} test folds."
    if n_undefined:
        text += f" {n_undefined} of these, with one class only, cannot have a curve."
    return parts, text


def _resampling(files: EvaluationFiles) -> dict[str, object]:
    unit = "site" if (files.summary.get("bootstrap") or {}).get("unit") == "site" else "subject"
    return {"unit": unit, "level": files.level, "seed": int(files.summary.get("seed") or 0)}


def _band_text(files: EvaluationFiles) -> str:
    unit = files.words.unit if _resampling(files)["unit"] == "subject" else "site"
    return f"Bands: {files.level:.0%} of bootstrap resamples of {unit}s at each place, models held fixed."


def _lines(files: EvaluationFiles) -> str:
    folds = files.predictions.groupby(["repeat", "fold"]).ngroups
    repeats = tested_rows(files)["repeat"].nunique()
    if folds < 2:
        return f"One curve of all {files.words.items}."
    return "Lines: all folds pooled" + ("." if repeats < 2 else f", mean over {repeats} repeats.")


def _area(points: Points, kind: _Kind) -> float:
    if kind is _ROC:
        return float(np.trapezoid(points[1], points[0]))
    return float(np.sum(np.diff(points[0]) * points[1][1:]))


def _points(rows: pd.DataFrame, column: str, positive: str, kind: _Kind) -> Points | None:
    if column not in rows:
        return None
    rows = rows[rows[column].notna() & rows["y_true"].notna()]
    truth = (rows["y_true"] == positive).to_numpy()
    if truth.all() or not truth.any():
        return None
    return _thin(*kind.points(truth, rows[column].to_numpy(dtype=float)))


def _thin(x: np.ndarray, y: np.ndarray) -> Points:
    """Keep as many points of a curve as a reader can see, its ends among them."""
    if len(x) <= _MAX_POINTS:
        return x, y
    kept = np.unique(np.linspace(0, len(x) - 1, _MAX_POINTS).round().astype(int))
    return x[kept], y[kept]


def _pooled_points(tested: pd.DataFrame, column: str, positive: str, kind: _Kind) -> Points | None:
    """Return the curve of all folds together; with repeats the mean of their curves, whose area is the mean area."""
    curves = [_points(rows, column, positive, kind) for _, rows in tested.groupby("repeat")]
    defined = [points for points in curves if points is not None]
    if len(defined) < 2:
        return defined[0] if defined else None
    grid = np.linspace(0, 1, 401)
    if kind is _ROC:
        heights = [np.interp(grid, x, y) for x, y in defined]
        return np.append(0.0, grid), np.append(0.0, np.mean(heights, axis=0))
    # Precision must not be interpolated: it is that of the first threshold that finds so many.
    heights = [y[np.searchsorted(x, np.maximum(grid, 1e-9) - 1e-12)] for x, y in defined]
    return grid, np.mean(heights, axis=0)


def _as_table(name: str, points: Sequence[np.ndarray]) -> pd.DataFrame:
    return pd.DataFrame({"curve": name, "x": points[0], "y": points[1]})


def _square(axes: Axes) -> None:
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")


def _covariates(files: EvaluationFiles) -> str:
    return f" ({plain_label(' + '.join(files.covariates))})" if files.covariates else ""


def _value(metrics: object, kind: _Kind) -> str:
    values = metrics.get(kind.metric) if isinstance(metrics, dict) else None
    text = number_text(point_estimate(values), digits=2)
    interval = interval_text((values or {}).get("interval"), digits=2)
    return f"{kind.area} {text} [{interval}]" if values and values.get("interval") else f"{kind.area} {text}"


def _areas(files: EvaluationFiles, kind: _Kind) -> str:
    text = f"The pooled curve of the embedding has {_value(files.metrics, kind)}"
    return text + (f"; that of the covariates alone {_value(files.baseline, kind)}" if files.baseline else "")


def _heights(numbers: pd.DataFrame) -> str:
    """Say how high the embedding's curve stands at two places, for who cannot see it."""
    curve = numbers[numbers["curve"] == "Embedding"]
    if curve.empty:
        return ""
    at = [(place, float(np.interp(place, curve["x"], curve["y"]))) for place in (0.1, 0.2)]
    words = " and ".join(f"{height:.2f} at {1 - place:.0%} specificity" for place, height in at)
    return f"The embedding's sensitivity is {words}."
