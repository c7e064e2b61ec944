"""Figures of pairs of images: cosines of classes (SINCERE, figures 2 and 3), and the conditions of CCL-K (figure 2)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from neurocontrast.config import build_objective, load_config
from neurocontrast.data.cohort import read_cohort
from neurocontrast.data.metadata import encode_metadata, read_vectors
from neurocontrast.exceptions import DataError, one_of
from neurocontrast.kernels.conditional import conditional_operator
from pipelines.natural.experiment import Experiment
from pipelines.natural.probing import Split, class_cosines, read_splits

__all__ = ["draw_cosines", "draw_histograms", "draw_operator"]

Drawn = Iterator[tuple[str, Figure, pd.DataFrame]]
_BINS = np.linspace(-1, 1, 81)
_N_CONDITIONS = 64


def draw_cosines(root: Path, experiment: Experiment) -> Drawn:
    """Draw the mean cosine of each two classes of test images, over seeds: one panel a variant, one scale for all."""
    found = {}
    for variant in experiment.variants:
        parts = [class_cosines(images) for images in _of_seeds(root, experiment, variant)]
        found[variant] = sum(parts[1:], parts[0]) / len(parts)
    n = len(found)
    figure = Figure(figsize=(1.2 + 3.6 * n, 4.2), layout="constrained")
    low = min(float(np.nanmin(each)) for each in found.values())
    for axes, (variant, cosines) in zip(
        figure.subplots(1, n, squeeze=False)[0], found.items(), strict=True
    ):
        shown = axes.imshow(cosines, vmin=low, vmax=1, cmap="viridis")
        axes.set_xticks(range(len(cosines)), cosines.columns, rotation=90)
        axes.set_yticks(range(len(cosines)), cosines.index)
        axes.grid(visible=False)
        axes.set_title(experiment.labels[variant])
    figure.colorbar(shown, ax=figure.axes, label="Mean cosine of two test images", shrink=0.8)
    rows = pd.concat(
        [
            each.rename_axis("class").reset_index().assign(variant=name)
            for name, each in found.items()
        ]
    )
    yield "cosines", figure, rows


def draw_histograms(root: Path, experiment: Experiment) -> Drawn:
    """Draw all cosines of a class of test images with itself and with every other class: one panel a variant."""
    rows, n = [], len(experiment.variants)
    figure = Figure(figsize=(6.2, 0.8 + 2.0 * n), layout="constrained")
    panels = figure.subplots(n, 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    for axes, variant in zip(panels, experiment.variants, strict=True):
        for images in _of_seeds(root, experiment, variant):
            target = experiment.target_class or max(images.labels)
            if target not in set(images.labels):
                raise DataError(
                    f"target_class: no test image is of '{target}'. There are {one_of(set(images.labels))}."
                )
            rows += [(variant, kind, *row) for kind, row in _counts(images, target)]
        table = pd.DataFrame(rows, columns=["variant", "pairs", "cosine", "share"])
        for kind, part in table[table["variant"] == variant].groupby("pairs", sort=False):
            shares = part.groupby("cosine")["share"].mean()
            axes.stairs(shares, _BINS, fill=True, alpha=0.5, label=kind)
        axes.set(title=experiment.labels[variant], ylabel="Share of pairs")
    panels[-1].set_xlabel("Cosine of two test images")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    yield (
        "histograms",
        figure,
        table.groupby(["variant", "pairs", "cosine"], sort=False, as_index=False).mean(),
    )


def _counts(images: Split, target: str) -> Iterator[tuple[str, tuple[float, float]]]:
    """Yield kind, centre and share of each bin of the cosines, of the mean over one seed's pairs."""
    unit = images.features / np.linalg.norm(images.features, axis=1, keepdims=True)
    own, others = unit[images.labels == target], unit[images.labels != target]
    within = (own @ own.T)[np.triu_indices(len(own), 1)]
    pairs = {f"{target}, {target}": within, f"{target}, another class": (own @ others.T).ravel()}
    for kind, cosines in pairs.items():
        counts = np.histogram(np.clip(cosines, -1, 1), _BINS)[0]
        for centre, count in zip((_BINS[1:] + _BINS[:-1]) / 2, counts, strict=True):
            yield kind, (round(float(centre), 4), count / max(len(cosines), 1))


def draw_operator(root: Path, experiment: Experiment) -> Drawn:
    """Draw K and (K + λI)⁻¹K of some training images, each scaled to 0-1, for the first variant with a condition."""
    for variant in experiment.variants:
        config = load_config(root / variant / f"seed-{experiment.seeds[0]}" / "run" / "config.yaml")
        if config.objective.loss in ("weakly_supervised_cclk", "fair_cclk"):
            break
    else:
        raise DataError("figures: operator needs a variant of weakly_supervised_cclk or fair_cclk.")
    matrices = _matrices(config)
    figure = Figure(figsize=(7.6, 4.0), layout="constrained")
    names = ("K", f"(K + {config.objective.ridge:g} I)⁻¹ K")
    for axes, matrix, name in zip(figure.subplots(1, 2), matrices, names, strict=True):
        shown = axes.imshow(
            (matrix - matrix.min()) / max(float(np.ptp(matrix)), 1e-12), cmap="viridis"
        )
        axes.grid(visible=False)
        axes.set(title=name, xlabel="Image", ylabel="Image")
    figure.colorbar(shown, ax=figure.axes, label="Scaled to 0-1", shrink=0.8)
    i, j = np.indices(matrices[0].shape)
    columns = {
        "row": i.ravel(),
        "column": j.ravel(),
        "kernel": matrices[0].ravel(),
        "operator": matrices[1].ravel(),
    }
    yield "operator", figure, pd.DataFrame(columns)


def _matrices(config: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return K and (K + λI)⁻¹K of the first training images, sorted by class."""
    cohort = read_cohort(
        config.data.participants, images_root=config.data.images_root, check_images=False
    )
    cohort = cohort.select({"split": ["train"]})
    objective, vectors = (
        build_objective(config.objective),
        read_vectors(config.data.vectors, cohort),
    )
    metadata = encode_metadata(cohort.table, objective.columns, vectors=vectors)[0]
    objective.fit(metadata)
    first = (
        cohort.table["label"]
        .reset_index(drop=True)
        .head(_N_CONDITIONS)
        .sort_values(kind="stable")
        .index.tolist()
    )
    of_first = {name: values[first] for name, values in metadata.items()}
    kernel = objective.kernel(of_first)
    operator = conditional_operator(
        objective.kernel, of_first, ridge=config.objective.ridge, dtype=kernel.dtype
    )
    return kernel.numpy(), operator.numpy()


def _of_seeds(root: Path, experiment: Experiment, variant: str) -> Iterator[Split]:
    for seed in experiment.seeds:
        yield read_splits(root / variant / f"seed-{seed}" / "head.parquet")[1]
