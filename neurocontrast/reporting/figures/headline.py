"""The headline: the embedding beside the covariates alone, and the difference, with intervals."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.metrics import (
    DASH,
    chance_level,
    choose_headline,
    describe_metric,
    interval_text,
    number_text,
    point_estimate,
)
from neurocontrast.reporting.style import BASELINE, CHANCE, INK, MAIN, VOXELS, WIDTH, Picture, plain_label, styled

__all__ = ["draw_headline"]


@styled
def draw_headline(files: EvaluationFiles) -> Picture | None:
    """Draw the headline metric with its interval; None where there is no metric."""
    key = choose_headline(files.kind, files.metrics)
    if key is None or point_estimate(files.metrics[key]) is None:
        return None
    rows = _rows(files, key)
    differences = _difference_rows(files, key)
    n, has_difference = len(rows), len(differences) > 0
    height = (2.5 if has_difference else 1.7) + (0.7 if files.voxels else 0.0)
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(
        2 if has_difference else 1, 1, squeeze=False, height_ratios=[n, len(differences)] if has_difference else [1]
    )
    _draw_models(panels[0, 0], rows, key, chance_level(key, len(files.classes)))
    if has_difference:
        rows = pd.concat([rows, differences], ignore_index=True)
        _draw_differences(panels[1, 0], differences, key)
    return Picture(
        "headline", figure, alt=_alt(rows, key), caption=_caption(files, key), numbers=rows.drop(columns="color")
    )


def _rows(files: EvaluationFiles, key: str) -> pd.DataFrame:
    covariates = " + ".join(files.covariates) or "covariates"
    models = [("Embedding", files.metrics[key], MAIN)]
    if files.baseline.get(key):
        models.append((f"Only {covariates}", files.baseline[key], BASELINE))
    if files.voxels.get(key):
        models.append(("Only voxels (PCA)", files.voxels[key], VOXELS))
    return pd.DataFrame(
        [
            {"model": name, "value": point_estimate(values), **_ends(values.get("interval")), "color": color}
            for name, values, color in models
        ]
    )


def _difference_rows(files: EvaluationFiles, key: str) -> pd.DataFrame:
    """Return the embedding minus each baseline, as far as they are defined."""
    named = [("Difference", files.increment.get(key), INK)]
    if files.voxels_increment:
        named = [("Minus covariates", files.increment.get(key), BASELINE)]
        named += [("Minus voxels (PCA)", files.voxels_increment.get(key), VOXELS)]
    return pd.DataFrame(
        [
            {"model": name, "value": float(found["difference"]), **_ends(found.get("interval")), "color": color}
            for name, found, color in named
            if found and found.get("difference") is not None
        ]
    )


def _ends(interval: list | None) -> dict[str, float]:
    low, high = interval or (float("nan"), float("nan"))
    return {"low": low, "high": high}


def _draw_models(axes: Axes, rows: pd.DataFrame, key: str, chance: float | None) -> None:
    metric = describe_metric(key)
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    for position, row in enumerate(rows.itertuples()):
        _draw_interval(axes, row, position, marker="o" if position == 0 else "D", filled=position == 0)
    if chance is not None:
        axes.axvline(chance, color=CHANCE, linestyle=":", linewidth=1.3)
        axes.annotate(
            "chance", (chance, 0), (3, 2), xycoords=("data", "axes fraction"), textcoords="offset points",
            fontsize=8.5, color=CHANCE,
        )  # fmt: skip
    axes.set_yticks(range(len(rows)), [plain_label(name, length=26) for name in rows["model"]])
    axes.set(ylim=(len(rows) - 0.4, -0.6), xlabel=metric.label)
    axes.grid(axis="y", visible=False)


def _draw_differences(axes: Axes, rows: pd.DataFrame, key: str) -> None:
    for position, row in enumerate(rows.itertuples()):
        _draw_interval(axes, row, position, marker="s", filled=True)
    axes.axvline(0, color=CHANCE, linestyle=":", linewidth=1.3)
    axes.set_yticks(range(len(rows)), list(rows["model"]))
    axes.set(ylim=(len(rows) - 0.3, -0.7), xlabel=f"Difference in {describe_metric(key).name} (0 = nothing added)")
    axes.grid(axis="y", visible=False)
    axes.margins(x=0.12)
    axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))


def _draw_interval(axes: Axes, row: object, position: int, *, marker: str, filled: bool) -> None:
    color, value = row.color, row.value  # type: ignore[attr-defined]
    low, high = row.low, row.high  # type: ignore[attr-defined]
    if pd.notna(low):
        axes.plot([low, high], [position, position], color=color, linewidth=2.4)
    axes.plot(value, position, marker=marker, markersize=8, color=color, markerfacecolor=color if filled else "white",
              markeredgewidth=1.8, linestyle="none")  # fmt: skip


def _alt(rows: pd.DataFrame, key: str) -> str:
    parts = [
        f"{row.model} {number_text(row.value, digits=2)} ({interval_text((row.low, row.high), digits=2)})"
        for row in rows.itertuples()
    ]
    return f"{describe_metric(key).label}: " + "; ".join(parts).replace(f"({DASH})", "(no interval)") + "."


def _caption(files: EvaluationFiles, key: str) -> str:
    bootstrap = files.summary.get("bootstrap") or {}
    text = describe_metric(key).label + ", pooled out-of-fold. "
    if bootstrap.get("n"):
        level = float(bootstrap.get("level") or 0.95)
        draws = f"{bootstrap['n']:,} draws of {bootstrap.get('unit', 'unit')}s"
        return f"{text}Bars: {level:.0%} bootstrap interval ({draws})."
    return text + "No interval was computed."
