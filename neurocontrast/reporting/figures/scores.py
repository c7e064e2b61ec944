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
_NEW_SITES = {
    "embedding_home": ("o", style.MAIN, False, "Site known (others of it trained on)"),
    "embedding_unseen": ("s", style.PALETTE[1], True, "Site unseen (left out)"),
    "recentred_unseen": ("^", style.PALETTE[2], False, "Unseen, recentred (transductive)"),
    "constant_unseen": ("|", style.INK, True, "Constant guess, no scan"),
}


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
    alt = f"{about.label}: {list_values(rows['model'], rows)}"
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
    return draw_intervals(
        "headline",
        [tested, Series(rows, "Chance", value="chance", color=style.CHANCE, marker="|")],
        list(rows["metric"]),
        xlabel="",
        limits=(0.0, 1.0),
        percent=True,
        alt=list_values(rows["metric"], rows, digits=3),
        caption=_about_bars(files),
        numbers=rows,
    )


@style.styled
def draw_forest(files: EvaluationFiles, strata: Strata, metric: str) -> style.Picture | None:
    """Draw a metric by site or group, everybody in the last row; None where the metric is defined nowhere."""
    table = strata.ordered()
    if metric not in table or table[metric].isna().all():
        return None
    rows = pd.DataFrame({strata.column: table[strata.column].fillna("not stated"), "n": table["n"]})
    sources = {"value": metric, "low": f"{metric}_low", "high": f"{metric}_high", "baseline": f"baseline_{metric}"}
    for name, source in sources.items():
        rows[name] = table[source].astype(float) if source in table else np.nan
    total = _estimates([("", files.metrics.get(metric))])
    total = total.assign(baseline=metrics.point_estimate(files.summary.baseline.get(metric))).set_axis(
        total.index + len(rows)
    )
    beside = pd.concat([rows, total])
    beside = beside[beside["baseline"].notna()]
    about, names = metrics.describe_metric(metric), style.distinct_labels(rows[strata.column], length=24)
    return draw_intervals(
        f"{strata.name}_{metric}",
        [
            Series(rows, "Embedding"),
            Series(total, color=style.INK, marker="s"),
            *(
                [Series(beside, "Covariates only", "baseline", style.BASELINE, "D", filled=False)]
                if len(beside)
                else []
            ),
        ],
        [*(f"{name} (n={n:.0f})" for name, n in zip(names, rows["n"], strict=True)), strata.total],
        xlabel=about.label,
        reference=_chance(metric, len(files.classes)),
        limits=about.limits,
        total=True,
        alt=f"{about.label} {strata.where}. {list_values(rows[strata.column], rows)}",
        caption=(
            f"{about.label} {strata.where}, with {files.level:.0%} bootstrap intervals. "
            "Small groups scatter widely by chance alone: read the interval, not the point."
        ),
        numbers=rows,
    )


@style.styled
def draw_recalls(files: EvaluationFiles) -> style.Picture | None:
    """Draw the recall of each class, of many classes the lowest and the highest; None where not recorded."""
    if files.by_class is None or files.by_class["recall"].isna().all():
        return None
    ordered = files.by_class.dropna(subset=["recall"]).sort_values("recall", kind="stable")
    half = _N_EXTREME_CLASSES
    few = len(ordered) <= 2 * half
    rows = ordered if few else pd.concat([ordered.head(half), ordered.tail(half)])
    rows = rows.rename(columns=lambda name: name.replace("recall", "value").replace("value_", "")).reset_index()
    mean = float(ordered["recall"].mean())
    which = "each class" if few else f"the {half} lowest and {half} highest of {len(ordered)} classes"
    return draw_intervals(
        "recall_by_class",
        [Series(rows)],
        style.distinct_labels(rows["class"], length=22),
        xlabel="Recall (share of the class that is recognised)",
        reference=(mean, f"Mean {mean:.1%}"),
        percent=True,
        alt=f"Recall of {which}: " + "; ".join(f"{row['class']} {row['value']:.1%}" for _, row in rows.iterrows()),
        caption=f"Recall of {which}, the lowest first, with {files.level:.0%} Wilson intervals.",
        numbers=ordered.reset_index(drop=True),
    )


def confound_metrics(files: EvaluationFiles) -> list[str]:
    """Return the metrics of confounds.tsv that have a value, those of classes first."""
    if files.confounds is None:
        return []
    known = list(dict.fromkeys(files.confounds.loc[files.confounds["value"].notna(), "metric"]))
    return [name for name in _CONFOUND_METRICS if name in known] + [
        name for name in known if name not in _CONFOUND_METRICS
    ]


@style.styled
def draw_confounds(files: EvaluationFiles, metric: str) -> style.Picture | None:
    """Draw how well each column is predicted from the embedding, over all scans and within classes."""
    table = pd.DataFrame() if files.confounds is None else files.confounds[files.confounds["metric"] == metric]
    if table.empty or table["value"].isna().all():
        return None
    rows = table[table["value"].notna()].reset_index(drop=True)
    rows["within"] = rows["within"].fillna("all") if "within" in rows else "all"
    place = {name: number for number, name in enumerate(dict.fromkeys(rows["column"]))}
    rows = rows.sort_values("column", key=lambda names: names.map(place), kind="stable", ignore_index=True)
    everybody, about = rows["within"] == "all", metrics.describe_metric(metric)
    names = rows["column"] + np.where(everybody, ", all scans", ", within " + rows["within"])
    series = [
        Series(rows[everybody], "All scans"),
        Series(rows[~everybody], "Within one class", marker="s", filled=False),
        *(
            [Series(rows, "Chance", "chance", style.CHANCE, "|")]
            if "chance" in rows and rows["chance"].notna().any()
            else []
        ),
    ]
    side = "Right" if about.higher_is_better else "Left"
    return draw_intervals(
        f"confounds_{metric}",
        [one for one in series if len(one.rows)],
        style.distinct_labels(names, length=30),
        xlabel=about.label,
        alt=f"{about.label} of columns predicted from the embedding. {list_values(names, rows)}",
        caption=(
            f"{about.label} with which each column is predicted from the embedding, over all scans and within each "
            f"class. {side} of the chance mark: the embedding holds the column."
        ),
        numbers=rows,
    )


@style.styled
def draw_dependence(files: EvaluationFiles) -> style.Picture | None:
    """Draw the normalised HSIC of the embedding with each column; None where it was not computed."""
    if files.dependence is None or files.dependence["hsic"].isna().all():
        return None
    rows = files.dependence.dropna(subset=["hsic"]).sort_values("hsic", ascending=False, ignore_index=True)
    p_values = [f" (p = {p:.3g})" if pd.notna(p) else "" for p in rows.get("p", pd.Series(np.nan, rows.index))]
    listed = [f"{row['column']} {row['hsic']:.3f}{p}" for (_, row), p in zip(rows.iterrows(), p_values, strict=True)]
    return draw_intervals(
        "hsic",
        [Series(rows, value="hsic")],
        [name + p for name, p in zip(style.distinct_labels(rows["column"]), p_values, strict=True)],
        xlabel="Normalised HSIC (0: independent, 1: one is the other)",
        reference=(0.0, "Independent"),
        alt=f"Normalised HSIC between the embedding and each column: {'; '.join(listed)}.",
        caption=(
            "Dependence of any form between the embedding and each column (HSIC, normalised as in centred kernel "
            "alignment), with the p-value of permuting the column."
        ),
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
    constants = [metrics.number_text(value, digits=4) for value in rows["constant_mse"]]
    return draw_intervals(
        "sensitive",
        [
            Series(values, "From the features"),
            Series(values, "Constant (mean of training images)", "constant_mse", style.BASELINE, "|"),
        ],
        style.distinct_labels(rows["column"], length=24),
        xlabel="Mean squared error (right: fairer)",
        alt="Mean squared error of the sensitive variable predicted from the features: "
        + list_values(rows["column"] + [f" (constant {value})" for value in constants], values, digits=4),
        caption=(
            f"Mean squared error of the sensitive variable, predicted linearly from the frozen features, with "
            f"{level:.0%} bootstrap intervals; beside it, that of predicting the same value for every image."
        ),
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
        xlabel=about.label,
        reference=_chance(metric, n_classes, words),
        limits=about.limits,
        alt=f"{about.label} of each model: {list_values(rows['model'], rows, digits=3)}",
        caption=f"{about.label} of each model{pooled}, with bootstrap intervals over the same resamples.",
        numbers=rows,
    )


@style.styled
def draw_differences(differences: pd.DataFrame, metric: str, *, words: Words = SCANS) -> style.Picture | None:
    """Draw the difference of every model from the reference; None where there is none."""
    rows = differences[(differences["metric"] == metric) & differences["difference"].notna()].reset_index(drop=True)
    if rows.empty:
        return None
    about, reference = metrics.describe_metric(metric, words), rows["reference"].iloc[0]
    rows, shown = rows, rows.rename(columns={"difference": "value"})
    settled = (rows["low"] > 0) | (rows["high"] < 0)
    listed = list_values(rows["model"], shown, digits=3, signed=True)
    return draw_intervals(
        f"differences_{metric}",
        [Series(shown[settled], marker="s"), Series(shown[~settled], marker="s", filled=False)],
        style.distinct_labels(rows["model"], length=26),
        xlabel=f"Difference in {about.name} from {style.distinct_labels([reference], length=24)[0]}",
        reference=(0.0, "No difference"),
        sides=("worse ←", "→ better") if about.higher_is_better else ("better ←", "→ worse"),
        alt=f"Difference in {about.label} from {reference}: {listed}",
        caption=(
            f"Paired differences in {about.name}, with bootstrap intervals. Filled squares: the interval leaves out "
            "zero; hollow ones: it does not."
        ),
        numbers=rows,
    )


@style.styled
def draw_new_sites(files: EvaluationFiles, metric: str) -> style.Picture | None:
    """Draw a metric of every site, known and left out; None where no site has a value of either kind."""
    rows = site_rows(files, metric)
    if rows.empty or rows[["embedding_home", "embedding_unseen"]].isna().all(axis=None):
        return None
    rows = pd.concat([rows, _all_sites(files, metric, rows)], ignore_index=True)
    about, guess = metrics.describe_metric(metric), metrics.chance_level(metric, len(files.classes))
    keys = [key for key in _NEW_SITES if rows[key].notna().any() and (key != "constant_unseen" or guess is None)]
    shifts = np.linspace(-0.2, 0.2, 3) if "recentred_unseen" in keys else (-0.13, 0.13, 0)
    series = [
        Series(rows, label, key, color, marker, filled, shift=0 if marker == "|" else shift)
        for key, shift in zip(_NEW_SITES, [*shifts, 0], strict=True)
        if key in keys
        for marker, color, filled, label in [_NEW_SITES[key]]
    ]
    names = style.distinct_labels(rows["site"][:-1], length=24)
    labels = [f"{name} (n={metrics.number_text(n, digits=0)})" for name, n in zip(names, rows["n"], strict=False)]
    return draw_intervals(
        f"new_sites_{metric}",
        series,
        [*labels, "All left out, pooled"],
        xlabel=about.label,
        reference=(0.0, "No bias") if metric == "bias" else _chance(metric, len(files.classes)),
        limits=about.limits,
        total=True,
        alt=f"{about.label} of each site while it is known to the model, and while it is left out. {_alt(rows)}",
        caption=(
            f"{about.label} of the people of each site: while other people of the site are trained on, and while none "
            f"is. With {files.level:.0%} intervals; a point without a line has none."
            + (" Triangles are transductive: they use unlabelled scans of the unseen site." if recentred(files) else "")
        ),
        numbers=rows.dropna(axis="columns", how="all"),
    )


def _all_sites(files: EvaluationFiles, metric: str, rows: pd.DataFrame) -> pd.DataFrame:
    """Return the row of all sites together; its values are those of evaluation.json."""
    found = {
        f"{model}_{part}": estimate(files, part, model, metric)
        for model in ("embedding", "recentred", "baseline")
        for part in ("home", "unseen")
    }
    found["constant_unseen"] = constant_estimate(files, metric)
    row: dict[str, object] = {"site": "pooled", "n": rows["n"].sum(), "note": ""}
    for column, value in found.items():
        if value is not None:
            low, high = value.interval or (np.nan, np.nan)
            row |= {column: value.value, f"{column}_low": low, f"{column}_high": high}
    return pd.DataFrame([row])


def _alt(rows: pd.DataFrame) -> str:
    names = {"embedding_home": "known", "embedding_unseen": "unseen", "recentred_unseen": "recentred",
             "constant_unseen": "constant guess"}  # fmt: skip
    parts = []
    for row in rows.to_dict("records"):
        values = [
            f"{name} {metrics.number_text(row[key], digits=2)} "
            f"({metrics.interval_text((row.get(f'{key}_low'), row.get(f'{key}_high')), digits=2)})"
            for key, name in names.items()
            if pd.notna(row.get(key))
        ]
        parts.append(
            f"{row['site']} (n = {metrics.number_text(row['n'], digits=0)}): {', '.join(values) or 'not defined'}"
        )
    return "; ".join([*parts[:12], *parts[-1:]] if len(parts) > 13 else parts) + "."
