"""Results of an experiment: one row a seed, means with paired differences, and a Markdown page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from neurocontrast.exceptions import DataError
from neurocontrast.files import write_table, write_text
from pipelines.natural.experiment import MEASURES, Experiment
from pipelines.natural.figures import draw_experiment, read_metrics
from pipelines.natural.intervals import bootstrap_mean, format_estimate, mean_interval
from pipelines.natural.published import describe_ordering, published_elsewhere, published_here
from pipelines.workflow import markdown_table

__all__ = ["summarise_experiment", "summarise_seeds"]

_OF_RUN = ("initial_loss", "final_loss", "minutes")
_IN_WORDS = ("accuracy", "sensitive_r2")
"""Measures of the page's sentences."""


def summarise_experiment(folder: str | Path, *, experiment: Experiment) -> pd.DataFrame:
    """Write ``results.tsv``, ``results.md``, ``values.tsv``, ``figures/`` and ``experiment.yaml``.

    Parameters
    ----------
    folder : path
        Holds ``<variant>/seed-<seed>/run`` and ``<variant>/seed-<seed>/<layer>`` of every variant,
        seed and layer.
    experiment : Experiment
        The experiment that was run.

    Returns
    -------
    DataFrame
        ``results.tsv``, see `summarise_seeds`.

    Raises
    ------
    DataError
        Where a file of a run or an evaluation is missing or damaged.
    """
    root = Path(folder)
    values = _read_values(root, experiment)
    summary = summarise_seeds(values, reference=experiment.reference)
    summary = summary[summary["n_seeds"] > 0].reset_index(drop=True)
    write_table(root / "values.tsv", values)
    draw_experiment(root, experiment, values, summary, curves=_read_curves(root, experiment))
    images = experiment.prepared_images  # written without folders of the data, which are private
    images |= {key: Path(images[key]).name for key in ("source", "attributes") if images.get(key)}
    content = experiment.model_dump(mode="json") | {"images": images}
    write_text(
        root / "experiment.yaml", yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
    )
    page = _page(values, summary, experiment, _facts(root, experiment)) + _page_of_bootstraps(
        root, experiment
    )
    write_text(root / "results.md", page)
    write_table(root / "results.tsv", summary)
    return summary


def summarise_seeds(values: pd.DataFrame, *, reference: str) -> pd.DataFrame:
    """Return means over seeds with 95 % intervals, and differences to a reference, paired by seed.

    Parameters
    ----------
    values : DataFrame
        ``variant, layer, measure, seed, value``: one row a seed.
    reference : str
        The variant that is subtracted.

    Returns
    -------
    DataFrame
        ``variant, layer, measure, n_seeds, mean, sd, low, high, difference, difference_low,
        difference_high, n_pairs, n_above``, in the order of `values`. Two runs of one seed are a
        pair: order and views are the same. ``n_above`` counts the pairs with a positive difference.
        Differences of the reference are NaN.
    """
    keys = ["variant", "layer", "measure"]
    base = values.loc[values["variant"] == reference, ["layer", "measure", "seed", "value"]]
    paired = values.merge(
        base, on=["layer", "measure", "seed"], how="left", suffixes=("", "_of_reference")
    )
    paired["gain"] = paired["value"] - paired["value_of_reference"]
    rows = []
    for names, part in paired.groupby(keys, sort=False):
        value, gain = part["value"], part["gain"]
        pairs = (*mean_interval(gain), gain.count(), (gain > 0).sum())
        if names[0] == reference:
            pairs = (np.nan,) * 5
        mean, low, high = mean_interval(value)
        rows.append((*names, value.count(), mean, value.std(), low, high, *pairs))
    found = ["n_seeds", "mean", "sd", "low", "high"]
    differences = ["difference", "difference_low", "difference_high", "n_pairs", "n_above"]
    return pd.DataFrame(rows, columns=[*keys, *found, *differences])


def _read_values(root: Path, experiment: Experiment) -> pd.DataFrame:
    """Return one row a variant, layer, measure and seed."""
    rows = []
    for variant in experiment.variants:
        for seed in experiment.seeds:
            place = root / variant / f"seed-{seed}"
            summaries = {
                layer: _read_json(place / layer / "evaluation.json") for layer in experiment.layers
            }
            sensitive = {}
            if "sensitive_r2" in experiment.measures:
                sensitive = {
                    layer: _explained(place / layer / "confounds.tsv")
                    for layer in experiment.layers
                }
            run = (
                _of_run(place / "run" / "metrics.csv")
                if set(_OF_RUN) & set(experiment.measures)
                else {}
            )
            probed = {}
            if any(MEASURES[measure].features for measure in experiment.measures):
                probed = _read_json(place / "probes.json")
            for measure in experiment.measures:
                found = {layer: _value(summary, measure) for layer, summary in summaries.items()}
                found = {"": run[measure]} if measure in _OF_RUN else found
                found = {"": probed.get(measure, np.nan)} if MEASURES[measure].features else found
                found = sensitive if measure == "sensitive_r2" else found
                rows += [(variant, layer, measure, seed, value) for layer, value in found.items()]
    return pd.DataFrame(rows, columns=["variant", "layer", "measure", "seed", "value"])


def _of_run(path: Path) -> dict[str, float]:
    metrics = read_metrics(path)
    losses, minutes = metrics["train_loss"], metrics["seconds"].sum() / 60
    return dict(zip(_OF_RUN, (losses.iloc[0], losses.iloc[-1], minutes), strict=True))


def _read_json(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: not readable ({error}). Run the workflow again.") from error


def _explained(path: Path) -> float:
    """Return the mean R² of the covariates, each predicted from the features of all tested images."""
    if not path.is_file():
        raise DataError(
            f"{path}: absent. Set evaluation.confounds to true and name covariates in the recipe."
        )
    table = pd.read_csv(path, sep="\t")
    return float(table.loc[(table["metric"] == "r2") & (table["within"] == "all"), "value"].mean())


def _value(summary: Mapping[str, Any], measure: str) -> float:
    """Return a measure of an evaluation, NaN where the evaluation lacks it."""
    return _at(summary, *(MEASURES[measure].keys or ("metrics", measure, "pooled")))


def _at(summary: Mapping[str, Any], *keys: str) -> float:
    found = reduce(lambda section, key: (section or {}).get(key), keys, summary)
    return np.nan if found is None else float(found)


def _read_curves(root: Path, experiment: Experiment) -> pd.DataFrame:
    """Return the accuracy on test images after each milestone: ``variant, epoch, n, mean, low, high``."""
    if not experiment.milestones:
        return pd.DataFrame()
    rows = []
    for variant, epoch in product(experiment.variants, experiment.milestones):
        runs = [root / variant / f"seed-{seed}" for seed in experiment.seeds]
        found = pd.concat([pd.read_csv(run / f"epoch-{epoch}.tsv", sep="\t") for run in runs])[
            "accuracy"
        ]
        rows.append((variant, epoch, len(found), *mean_interval(found)))
    return pd.DataFrame(rows, columns=["variant", "epoch", "n", "mean", "low", "high"])


def _facts(root: Path, experiment: Experiment) -> list[str]:
    """Return lines about images, network and training, from the evaluation of the reference at the first seed."""
    place = root / experiment.reference / f"seed-{experiment.seeds[0]}" / experiment.layers[0]
    summary = _read_json(place / "evaluation.json")
    run, n = summary.get("run") or {}, (summary.get("split") or {}).get("n") or {}
    counted = ", ".join(
        f"{n[part]:,} {part}" for part in ("train", "validation", "test") if n.get(part) is not None
    )
    seeds = ", ".join(map(str, experiment.seeds))
    lines = [
        f"Images: {experiment.prepared_images.get('dataset')}"
        + (f" ({counted})" if counted else ""),
        f"Network: {(run.get('encoder') or {}).get('name', 'unknown')}",
        f"Seeds: {seeds} (weights, order and views; the images and their split are the same)",
    ]
    if run.get("epochs") is not None:
        trained = run.get("n_training_scans")
        lines.append(
            f"{run['epochs']} epochs"
            + (f" of {trained:,} images" if trained else "")
            + " (reference)"
        )
    if experiment.annotation is not None:
        lines.append(
            f"Simulated annotation: {len(experiment.annotation.columns)} binary attributes by class, each wrong with "
            f"a probability of {experiment.annotation.flip:.0%}"
        )
    return lines


def _page(
    values: pd.DataFrame, summary: pd.DataFrame, experiment: Experiment, facts: Sequence[str]
) -> str:
    """Return tables of means, published values, orderings and differences, and a sentence a variant about these."""
    rows = {
        (row["variant"], row["layer"], row["measure"]): row for row in summary.to_dict("records")
    }
    columns = list(dict.fromkeys((layer, measure) for _, layer, measure in rows))
    many = len(experiment.layers) > 1
    heads = {column: MEASURES[column[1]].short + (f" ({column[0]})" if many and column[0] else "")
             for column in columns}  # fmt: skip
    labels, reference = experiment.labels, experiment.labels[experiment.reference]
    published = published_here(experiment)
    last = dict(
        zip(
            labels,
            zip(*published.values(), strict=True) if published else [()] * len(labels),
            strict=True,
        )
    )

    def cells(variant: str, prefix: str) -> list[str]:
        found = [(rows.get((variant, *column), {}), MEASURES[column[1]]) for column in columns]
        names = (
            ("difference", "difference_low", "difference_high")
            if prefix
            else ("mean", "low", "high")
        )
        return [format_estimate(*(row.get(name, np.nan) for name in names), measure, signed=bool(prefix))
                for row, measure in found]  # fmt: skip

    lines = [
        f"# {experiment.title}",
        "",
        experiment.question,
        "",
        *(f"- {fact}" for fact in facts),
        "",
    ]
    lines += markdown_table(["Loss", *heads.values(), *published],
                    [[labels[name], *cells(name, ""), *last[name]] for name in labels])  # fmt: skip
    lines += [
        "",
        "Means over seeds and 95% intervals of Student's t; percentages where a column is an accuracy.",
        "",
    ]
    lines += _page_of_papers(values, experiment)
    others = [name for name in labels if name != experiment.reference]
    if others:
        worded = [column for column in columns if column[1] in _IN_WORDS] or columns[:1]
        lines += [f"Differences to {reference}, paired by seed:", ""]
        lines += markdown_table(
            ["Loss", *heads.values()],
            [[labels[name], *cells(name, "difference")] for name in others],
        )
        lines += [
            "",
            f"Against {reference}, by whether the interval of the difference holds zero:",
            "",
        ]
        for name in others:
            found = [
                f"{heads[column]} {_verdict(rows[name, *column])}"
                for column in worded
                if (name, *column) in rows
            ]
            lines += [f"- {labels[name]}: {'. '.join(found)}."] if found else []
    return "\n".join(lines).rstrip() + "\n"


def _page_of_papers(values: pd.DataFrame, experiment: Experiment) -> list[str]:
    """Return tables of what was published on other images, and of whether the published orderings appear."""
    lines, labels = [], experiment.labels.values()
    for name, columns in published_elsewhere(experiment).items():
        lines += [
            f"Published on {name}, other images than these: orderings may be compared, levels not.",
            "",
        ]
        lines += [
            *markdown_table(
                ["Loss", *columns],
                [list(cells) for cells in zip(labels, *columns.values(), strict=True)],
            ),
            "",
        ]
    if experiment.orderings:
        head = ["Published ordering", "Measure", "Published", "Difference here", "Seeds", "It"]
        rows = [describe_ordering(each, values, experiment) for each in experiment.orderings]
        lines += [*markdown_table(head, rows), ""]
    return lines


def _read_answers(path: Path) -> pd.DataFrame:
    if not path.is_file():
        raise DataError(
            f"{path}: missing. Remove {path.with_name('probes.json')} and run the workflow again."
        )
    return pd.read_csv(path, sep="\t", na_values="n/a")


def _page_of_bootstraps(root: Path, experiment: Experiment) -> str:
    """Return a table of the SGD classifier's accuracies with bootstraps of the test images (SINCERE, table 2)."""
    wanted = [name for name in experiment.measures if name in ("sgd_accuracy", "sgd_top5_accuracy")]
    if not wanted:
        return ""
    seeds = [f"seed-{seed}" for seed in experiment.seeds]
    answers = {name: sum(_read_answers(root / name / seed / "sgd.tsv") for seed in seeds) / len(seeds)
               for name in experiment.variants}  # fmt: skip
    base, rows = answers[experiment.reference], []
    for name, label in experiment.labels.items():
        cells = [label]
        for measure in wanted:
            column = measure.removeprefix("sgd_")
            of_images = answers[name][column]
            cells.append(format_estimate(*bootstrap_mean(of_images), MEASURES[measure]))
            gain = (
                (np.nan,) * 3
                if name == experiment.reference
                else bootstrap_mean(of_images - base[column])
            )
            cells.append(format_estimate(*gain, MEASURES[measure], signed=True))
        rows.append(cells)
    reference = experiment.labels[experiment.reference]
    heads = [text for name in wanted for text in (MEASURES[name].short, f"above {reference}")]
    title = (
        "The same classifier with 1,000 bootstraps of the test images, each counted by its mean over seeds, and 95% "
        "intervals of percentiles:"
    )
    return "\n".join(["", title, "", *markdown_table(["Loss", *heads], rows)]) + "\n"


def _verdict(row: Mapping[str, float]) -> str:
    """Return what the interval of a difference settles."""
    n, above = row["n_pairs"], row["n_above"]
    if pd.isna(row["difference_low"]):
        return "too few seeds to tell"
    if row["difference_low"] > 0:
        return f"higher, in {above:.0f} of {n:.0f} seeds"
    if row["difference_high"] < 0:
        return f"lower, in {n - above:.0f} of {n:.0f} seeds"
    return f"not settled; higher in {above:.0f} of {n:.0f} seeds"
