"""Figures of metrics with their intervals: headline, sites, groups, classes, confounds, models, unseen sites."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from neurocontrast.evaluation.schema import Increment, Metric, Sensitive
from neurocontrast.reporting import metrics, style
from neurocontrast.reporting.figures.intervals import Series, draw_intervals, draw_rows, list_values
from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.new_sites import constant_estimate, estimate, recentred, site_rows
from neurocontrast.reporting.strata import Strata
from neurocontrast.reporting.words import IMAGES, SCANS, Words

_CONFOUND_METRICS = ("balanced_accuracy", "auc", "r2", "mae")
_N_EXTREME_CLASSES = 12


def _estimates(named: Iterable[tuple[str, Metric | Increment | None]], name: str = "model") -> pd.DataFrame:
    """Return metrics or differences of evaluation.json as rows: their name, value, low and high."""
    rows = []
    for label, values in named:
        value = values.difference if isinstance(values, Increment) else metrics.point_estimate(values)
        if value is not None:
            low, high = (values.interval if values else None) or (np.nan, np.nan)
            rows.append({name: label, "value": float(value), "low": low, "high": high})
    return pd.DataFrame(rows, columns=[name, "value", "low", "high"]).astype({"low": float, "high": float})


def _chance(metric: str, n_classes: int, words: Words = SCANS) -> tuple[float, str] | None:
    level = metrics.chance_level(metric, n_classes, words)
    return None if level is None else (level, "Chance")


def _about_bars(files: EvaluationFiles) -> str:
    n_draws = files.summary.bootstrap.n
    if not n_draws:
        return "No interval was computed."
    return f"Bars: {files.level:.0%} bootstrap interval ({n_draws:,} draws of {files.words.unit}s)."


@style.styled
def draw_headline(files: EvaluationFiles) -> style.Picture | None:
    """Draw the headline metric of embedding and baselines, and below what the embedding adds to each."""
    key = metrics.choose_headline(files.kind, files.metrics)
    if key is None or metrics.point_estimate(files.metrics[key]) is None:
        return None
    covariates = f"Only {' + '.join(files.summary.baseline_covariates) or 'covariates'}"
    looks = {"Embedding": style.MAIN, covariates: style.BASELINE, "Only voxels (PCA)": style.VOXELS}
    parts = (files.metrics, files.summary.baseline, files.summary.voxels)
    models = _estimates([(name, part.get(key)) for name, part in zip(looks, parts, strict=True)])
    names = ("Minus covariates", "Minus voxels (PCA)") if files.summary.voxels_increment else ("Difference", "")
    gains = _estimates(
        [(names[0], files.summary.increment.get(key)), (names[1], files.summary.voxels_increment.get(key))]
    )
    heights = [len(models), *([len(gains)] if len(gains) else [])]
    figure = style.blank_figure(height=1.1 + 0.3 * sum(heights) + 0.5 * len(heights))
    panels = figure.subplots(len(heights), 1, squeeze=False, height_ratios=heights)[:, 0]
    about = metrics.describe_metric(key)
    drawn = [
        Series(models.loc[[row]], color=looks[name], marker="D" if row else "o", filled=not row)
        for row, name in enumerate(models["model"])
    ]
    labels, chance = style.distinct_labels(models["model"], length=26), _chance(key, len(files.classes))
    draw_rows(panels[0], drawn, labels, xlabel=about.label, limits=about.limits, reference=chance)
    style.legend_below(figure, panels[0])
    if len(gains):
        draw_rows(panels[1], [Series(gains, color=style.INK, marker="s")], list(gains["model"]), reference=(0.0, None),
                  xlabel=f"Difference in {about.name} (0 = nothing added)")  # fmt: skip
    rows = pd.concat([models, gains], ignore_index=True)
    alt = f"{about.label}: {list_values([Series(rows)], list(rows['model']))}"
    caption = f"{about.label}, pooled out-of-fold. {_about_bars(files)}"
    return style.Picture("headline", figure, alt=alt, caption=caption, numbers=rows)


@style.styled
def draw_accuracies(files: EvaluationFiles) -> style.Picture | None:
    """Draw the leading metrics of images beside chance; None where none is defined."""
    keys = metrics.leading_metrics(files.kind, files.metrics, files.words)
    keys = [key for key in keys if metrics.point_estimate(files.metrics[key]) is not None]
    if not keys or files.kind == "continuous":
        return None
    rows = _estimates([(metrics.describe_metric(key, files.words).label, files.metrics[key]) for key in keys], "metric")
    rows["chance"] = [metrics.chance_level(key, len(files.classes), files.words) for key in keys]
    tested = Series(rows, "Test images" if files.fixed else "Out of fold")
    chance = Series(rows, "Chance", value="chance", color=style.CHANCE, marker="|")
    return draw_intervals(
        "headline", [tested, chance], list(rows["metric"]), _about_bars(files), xlabel="", limits=(0.0, 1.0),
        percent=True, numbers=rows,
    )  # fmt: skip


@style.styled
def draw_forest(files: EvaluationFiles, strata: Strata, metric: str) -> style.Picture | None:
    """Draw a metric by site or group, everybody in the last row; None where the metric is defined nowhere."""
    table = strata.ordered()
    if metric not in table or table[metric].isna().all():
        return None
    sources = {"value": metric, "low": f"{metric}_low", "high": f"{metric}_high", "baseline": f"baseline_{metric}"}
    rows = table.reindex(columns=[strata.column, "n", *sources.values()]).set_axis(
        [strata.column, "n", *sources], axis=1
    )
    rows[strata.column] = rows[strata.column].fillna("not stated")
    total = _estimates([("", files.metrics.get(metric))])
    baseline = metrics.point_estimate(files.summary.baseline.get(metric))
    total = total.assign(baseline=baseline).set_axis(total.index + len(rows))
    about, names = metrics.describe_metric(metric), style.distinct_labels(rows[strata.column], length=24)
    return draw_intervals(
        f"{strata.name}_{metric}",
        [
            Series(rows, "Embedding"),
            Series(total, color=style.INK, marker="s"),
            Series(pd.concat([rows, total]), "Covariates only", "baseline", style.BASELINE, "D", filled=False),
        ],
        [*(f"{name} (n={n:.0f})" for name, n in zip(names, rows["n"], strict=True)), strata.total],
        f"{about.label} {strata.where}, with {files.level:.0%} bootstrap intervals.",
        note="Small groups scatter widely by chance alone: read the interval, not the point.",
        xlabel=about.label,
        reference=_chance(metric, len(files.classes)),
        limits=about.limits,
        total=True,
        numbers=rows,
    )


@style.styled
def draw_recalls(files: EvaluationFiles) -> style.Picture | None:
    """Draw the recall of each class, of many classes the lowest and the highest; None where not recorded."""
    if files.by_class is None or files.by_class["recall"].isna().all():
        return None
    ordered = files.by_class.dropna(subset=["recall"]).sort_values("recall", kind="stable", ignore_index=True)
    half, mean = _N_EXTREME_CLASSES, float(ordered["recall"].mean())
    few = len(ordered) <= 2 * half
    rows = ordered if few else pd.concat([ordered.head(half), ordered.tail(half)], ignore_index=True)
    which = "each class" if few else f"the {half} lowest and {half} highest of {len(ordered)} classes"
    return draw_intervals(
        "recall_by_class",
        [Series(rows, value="recall")],
        style.distinct_labels(rows["class"], length=22),
        f"Recall of {which}, the lowest first, with {files.level:.0%} Wilson intervals.",
        xlabel="Recall (share of the class that is recognised)",
        reference=(mean, f"Mean {mean:.1%}"),
        percent=True,
        numbers=ordered,
    )


def confound_metrics(files: EvaluationFiles) -> list[str]:
    """Return the metrics of confounds.tsv that have a value, those of classes first."""
    if files.confounds is None:
        return []
    known = list(dict.fromkeys(files.confounds.loc[files.confounds["value"].notna(), "metric"]))
    return sorted(known, key=lambda name: (*_CONFOUND_METRICS, name).index(name))


@style.styled
def draw_confounds(files: EvaluationFiles, metric: str) -> style.Picture | None:
    """Draw how well each column is predicted from the embedding, over all scans and within classes."""
    if metric not in confound_metrics(files):
        return None
    assert files.confounds is not None
    rows = files.confounds[files.confounds["metric"] == metric].dropna(subset=["value"])
    rows = rows.reindex(columns=list(dict.fromkeys([*rows.columns, "within", "chance"]))).fillna({"within": "all"})
    place = {name: number for number, name in enumerate(dict.fromkeys(rows["column"]))}
    rows = rows.sort_values("column", key=lambda names: names.map(place), kind="stable", ignore_index=True)
    everybody, about = rows["within"] == "all", metrics.describe_metric(metric)
    side = "Right" if about.higher_is_better else "Left"
    return draw_intervals(
        f"confounds_{metric}",
        [
            Series(rows[everybody], "All scans"),
            Series(rows[~everybody], "Within one class", marker="s", filled=False),
            Series(rows, "Chance", "chance", style.CHANCE, "|"),
        ],
        style.distinct_labels(rows["column"] + np.where(everybody, ", all scans", ", within " + rows["within"])),
        f"{about.label} with which each column is predicted from the embedding, over all scans and within each class.",
        note=f"{side} of the chance mark: the embedding holds the column.",
        xlabel=about.label,
        numbers=rows,
    )


def tabulate_sensitive(block: Sensitive) -> pd.DataFrame:
    """Return the error of each sensitive column, of a constant, and R², with their ends; then their means."""
    rows = [{"column": str(name), **vars(values)} for name, values in block.columns.items()]
    if len(rows) != 1:
        mse, r2 = block.mse, block.r2
        mean = {"mse": mse.value, "r2": r2.value, "constant_mse": block.constant_mse}
        ends = {"low": mse.low, "high": mse.high, "r2_low": r2.low, "r2_high": r2.high}
        rows.append({"column": "mean of the columns", **mean, **ends})
    names = ["mse", "low", "high", "constant_mse", "r2", "r2_low", "r2_high"]
    return pd.DataFrame(rows).reindex(columns=["column", *names]).astype(dict.fromkeys(names, "float64"))


@style.styled
def draw_sensitive(block: Sensitive, *, level: float) -> style.Picture | None:
    """Draw the mean squared error of each sensitive column beside that of a constant."""
    rows = tabulate_sensitive(block).dropna(subset=["mse"]).reset_index(drop=True)
    if rows.empty:
        return None
    values = rows.rename(columns={"mse": "value"})
    constant = Series(values, "Constant (mean of training images)", "constant_mse", style.BASELINE, "|")
    return draw_intervals(
        "sensitive",
        [Series(values, "From the features"), constant],
        style.distinct_labels(rows["column"], length=24),
        f"Mean squared error of the sensitive variable, predicted linearly from the frozen features, with {level:.0%} "
        "bootstrap intervals; beside it, that of predicting the same value for every image.",
        xlabel="Mean squared error (right: fairer)",
        numbers=rows,
    )


@style.styled
def draw_models(models: pd.DataFrame, metric: str, *, n_classes: int, words: Words = SCANS) -> style.Picture | None:
    """Draw a metric of every model of a comparison; None where no model has it."""
    rows = models[(models["metric"] == metric) & models["value"].notna()].reset_index(drop=True)
    if rows.empty:
        return None
    about = metrics.describe_metric(metric, words)
    pooled = "" if words is IMAGES else ", pooled out-of-fold"
    return draw_intervals(
        f"models_{metric}",
        [Series(rows)],
        style.distinct_labels(rows["model"], length=26),
        f"{about.label} of each model{pooled}, with bootstrap intervals over the same resamples.",
        xlabel=about.label,
        reference=_chance(metric, n_classes, words),
        limits=about.limits,
        numbers=rows,
    )


@style.styled
def draw_differences(differences: pd.DataFrame, metric: str, *, words: Words = SCANS) -> style.Picture | None:
    """Draw the difference of every model from the reference; None where there is none."""
    rows = differences[(differences["metric"] == metric) & differences["difference"].notna()].reset_index(drop=True)
    if rows.empty:
        return None
    about, shown = metrics.describe_metric(metric, words), rows.rename(columns={"difference": "value"})
    settled = (rows["low"] > 0) | (rows["high"] < 0)
    reference = style.plain_label(rows["reference"].iloc[0], length=24)
    return draw_intervals(
        f"differences_{metric}",
        [Series(shown[settled], marker="s"), Series(shown[~settled], marker="s", filled=False)],
        style.distinct_labels(rows["model"], length=26),
        f"Paired differences in {about.name} from {reference}, with bootstrap intervals.",
        note="Filled squares: the interval leaves out zero; hollow ones: it does not.",
        xlabel=f"Difference in {about.name} from {reference}",
        reference=(0.0, "No difference"),
        sides=("worse ←", "→ better") if about.higher_is_better else ("better ←", "→ worse"),
        numbers=rows,
    )


@style.styled
def draw_new_sites(files: EvaluationFiles, metric: str) -> style.Picture | None:
    """Draw a metric of every site, known and left out; None where no site has a value of either kind."""
    rows = site_rows(files, metric)
    if rows.empty or rows[["embedding_home", "embedding_unseen"]].isna().all(axis=None):
        return None
    rows = pd.concat([rows, _all_sites(files, metric, rows)], ignore_index=True)
    about, chance, moved = metrics.describe_metric(metric), _chance(metric, len(files.classes)), recentred(files)
    labels = ("Site known (others of it trained on)", "Site unseen (left out)", "Unseen, recentred (transductive)")
    shift = 0.2 if moved else 0.13
    series = [
        Series(rows, labels[0], "embedding_home", filled=False, shift=-shift),
        Series(rows, labels[1], "embedding_unseen", style.PALETTE[1], "s", shift=0.0 if moved else shift),
        Series(rows, labels[2], "recentred_unseen", style.PALETTE[2], "^", filled=False, shift=shift),
    ]
    if chance is None and metric != "bias":
        series.append(Series(rows, "Constant guess, no scan", "constant_unseen", style.INK, "|"))
    names = zip(style.distinct_labels(rows["site"][:-1], length=24), rows["n"], strict=False)
    note = " Triangles are transductive: they use unlabelled scans of the unseen site." if moved else ""
    return draw_intervals(
        f"new_sites_{metric}",
        series,
        [*(f"{name} (n={metrics.number_text(n, digits=0)})" for name, n in names), "All left out, pooled"],
        f"{about.label} of the people of each site: while other people of the site are trained on, and while none is.",
        note=f"With {files.level:.0%} intervals; a point without a line has none.{note}",
        xlabel=about.label,
        reference=(0.0, "No bias") if metric == "bias" else chance,
        limits=about.limits,
        total=True,
        numbers=rows.dropna(axis="columns", how="all"),
    )


def _all_sites(files: EvaluationFiles, metric: str, rows: pd.DataFrame) -> pd.DataFrame:
    """Return the row of all sites together; its values are those of evaluation.json."""
    places = [(model, part) for model in ("embedding", "recentred", "baseline") for part in ("home", "unseen")]
    found = {f"{model}_{part}": estimate(files, part, model, metric) for model, part in places}
    found["constant_unseen"] = constant_estimate(files, metric)
    row: dict[str, object] = {"site": "pooled", "n": rows["n"].sum(), "note": ""}
    for column, value in found.items():
        if value is not None:
            low, high = value.interval or (np.nan, np.nan)
            row |= {column: value.value, f"{column}_low": low, f"{column}_high": high}
    return pd.DataFrame([row])
