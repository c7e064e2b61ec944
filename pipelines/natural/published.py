"""What the papers report beside what was found: published values by data set, and whether their orderings appear."""

from __future__ import annotations

import pandas as pd

from pipelines.natural.experiment import MEASURES, Experiment, Ordering
from pipelines.natural.intervals import format_estimate, mean_interval

__all__ = [
    "appearance_of",
    "dataset_of",
    "describe_ordering",
    "paired_difference",
    "published_elsewhere",
    "published_here",
]

_NAMES = {
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "mnist": "ColorMNIST",
    "utzappos": "UT-Zappos50K",
    "cub": "CUB",
}


def dataset_of(experiment: Experiment) -> str:
    """Return the data set of an experiment, as `Variant.published` names it."""
    images = experiment.prepared_images
    return str(images.get("name") or images.get("dataset", "digits"))


def published_here(experiment: Experiment) -> dict[str, list[str]]:
    """Return columns of published values of the experiment's own data set: head → a cell for each variant."""
    return _columns(experiment, dataset_of(experiment))


def published_elsewhere(experiment: Experiment) -> dict[str, dict[str, list[str]]]:
    """Return, for each other data set by its name, columns like those of `published_here`."""
    known = dict.fromkeys(
        name for variant in experiment.variants.values() for name in variant.published
    )
    known.pop(dataset_of(experiment), None)
    return {_NAMES.get(name, name): _columns(experiment, name) for name in known}


def _columns(experiment: Experiment, dataset: str) -> dict[str, list[str]]:
    values = [variant.published.get(dataset, {}) for variant in experiment.variants.values()]
    measures = dict.fromkeys(name for each in values for name in each)
    return {f"Published {MEASURES[name].short}": [f"{each[name]:g}" if name in each else "–" for each in values]
            for name in measures}  # fmt: skip


def paired_difference(
    values: pd.DataFrame, higher: str, lower: str, *, measure: str, layer: str
) -> tuple[float, float, float, int]:
    """Return the mean difference of two variants, paired by seed, its 95 % interval, and the number of pairs."""
    kept = values[(values["measure"] == measure) & values["layer"].isin(["", layer])]
    by_seed = kept.pivot(index="seed", columns="variant", values="value").reindex(
        columns=[higher, lower]
    )
    differences = (by_seed[higher] - by_seed[lower]).dropna()
    return (*mean_interval(differences), len(differences))


def describe_ordering(
    ordering: Ordering, values: pd.DataFrame, experiment: Experiment
) -> list[str]:
    """Return cells that say what was published, what was found, and whether the ordering appears."""
    measure, sides = MEASURES[ordering.measure], (ordering.higher, ordering.lower)
    found = paired_difference(values, *sides, measure=ordering.measure, layer=experiment.layers[0])
    texts = []
    for dataset in experiment.variants[ordering.higher].published:
        pair = [
            experiment.variants[side].published.get(dataset, {}).get(ordering.measure)
            for side in sides
        ]
        if None not in pair:
            texts.append(f"{_NAMES.get(dataset, dataset)} {pair[0]:g} against {pair[1]:g}")
    names = [experiment.labels[side] for side in sides]
    return [
        f"{names[0]} > {names[1]}",
        measure.short,
        f"{'; '.join(texts)} ({ordering.source})" if texts else ordering.source,
        format_estimate(*found[:3], measure, signed=True),
        str(found[3]),
        appearance_of(*found[:3]),
    ]


def appearance_of(mean: float, low: float, high: float) -> str:
    """Say whether an ordering appears, from the mean difference and its interval."""
    if pd.isna(low):
        return "not run" if pd.isna(mean) else "too few seeds to tell"
    if low > 0:
        return "appears"
    if high < 0:
        return "the opposite appears"
    return (
        "not settled; the mean is as published"
        if mean > 0
        else "not settled; the mean is the other way"
    )
