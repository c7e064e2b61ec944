"""Several losses over several seeds put together: a table, figures, and the experiment as it was run."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from neurocontrast.config.experiments import AnnotationSettings, Experiment
from neurocontrast.evaluation.seeds import summarise_seeds
from neurocontrast.exceptions import DataError, one_of
from neurocontrast.files import write_table, write_text
from neurocontrast.progress import SILENT, Progress
from neurocontrast.reporting.experiments import render_results
from neurocontrast.reporting.metrics import point_estimate
from neurocontrast.reporting.summary import read_summary
from neurocontrast.seeds import derive_generator
from neurocontrast.stages.experiment_figures import draw_experiment, read_metrics
from neurocontrast.stages.figure_files import write_figures

__all__ = ["annotate", "simulate_attributes", "summarise_experiment"]

LEVEL = 0.95
"""Of every interval."""
_OF_RUN = ("initial_loss", "final_loss", "minutes")
_BLOCKS: dict[str, tuple[str, ...]] = {
    "sensitive_mse": ("sensitive", "mse", "value"),
    "target_cosine": ("similarity", "target", "mean"),
    "noise_cosine": ("similarity", "noise", "mean"),
    "cosine_difference": ("similarity", "difference", "mean"),
    "own_class_nearest": ("similarity", "own_class_nearest"),
}
"""Where in evaluation.json a measure is that is no metric of the probe."""


def simulate_attributes(labels: Sequence[str], settings: AnnotationSettings) -> pd.DataFrame:
    """Return weak annotation: each image's attributes by its class, some of them wrong.

    Parameters
    ----------
    labels : sequence of str (n,)
        Class of each image.
    settings : AnnotationSettings
        Attributes of each class, how often they are wrong, and the seed.

    Returns
    -------
    DataFrame (n, attributes)
        0 and 1.

    Raises
    ------
    DataError
        Where an image's class has no attributes.
    """
    names = np.asarray(labels, dtype=object).astype(str)
    unknown = sorted(set(names) - set(settings.classes))
    if unknown:
        raise DataError(
            f"annotation.classes: has no attributes for {one_of(unknown)}; it has them for {one_of(settings.classes)}."
        )
    true = np.array([settings.classes[name] for name in names]).reshape(len(names), len(settings.columns))
    wrong = derive_generator("annotation", settings.seed).random(true.shape) < settings.flip
    return pd.DataFrame(true ^ wrong, columns=list(settings.columns)).astype(int)


def annotate(
    participants: str | os.PathLike[str], *, settings: AnnotationSettings, out: str | os.PathLike[str]
) -> None:
    """Write a table of simulated attributes for the images of a prepared data set.

    Parameters
    ----------
    participants : path
        ``participants.tsv`` with ``participant_id`` and ``label``.
    settings : AnnotationSettings
        See `simulate_attributes`.
    out : path
        Table to write: ``participant_id`` and the attributes.
    """
    table = pd.read_csv(participants, sep="\t", dtype=str, keep_default_na=False)
    attributes = simulate_attributes(table["label"].to_numpy(dtype=object).tolist(), settings)
    write_table(out, pd.concat([table[["participant_id"]], attributes], axis=1))


def summarise_experiment(
    folder: str | os.PathLike[str], *, experiment: Experiment, progress: Progress = SILENT
) -> pd.DataFrame:
    """Write what an experiment found: ``results.tsv``, ``results.md``, ``values.tsv``, figures, ``experiment.yaml``.

    Parameters
    ----------
    folder : path
        Holds ``<variant>/seed-<seed>/run`` and ``…/<layer>``, an evaluation, for every variant, seed and layer.
    experiment : Experiment
        What was run.
    progress : Progress
        Told how far the work is.

    Returns
    -------
    DataFrame
        ``results.tsv``: see `neurocontrast.evaluation.seeds.summarise_seeds`.

    Raises
    ------
    DataError
        Where a file of a run or an evaluation is missing or damaged.
    """
    root = Path(folder)
    values = _read_values(root, experiment)
    summary = summarise_seeds(values, reference=experiment.reference, level=LEVEL)
    summary = summary[summary["n_seeds"] > 0].reset_index(drop=True)
    write_table(root / "values.tsv", values)
    pictures = draw_experiment(root, experiment, values, summary, level=LEVEL)
    write_figures(root / "figures", pictures, progress=progress)
    content = experiment.model_dump(mode="json") | {"images": experiment.prepared_images}
    content["images"] = {key: Path(value).name if key in ("source", "attributes") and value else value
                         for key, value in content["images"].items()}  # fmt: skip
    write_text(root / "experiment.yaml", yaml.safe_dump(content, sort_keys=False, allow_unicode=True))
    published = {name: each.published for name, each in experiment.variants.items() if each.published is not None}
    page = render_results(
        summary, title=experiment.title, question=experiment.question, labels=experiment.labels,
        reference=experiment.reference, facts=_facts(root, experiment), published=published, level=LEVEL,
    )  # fmt: skip
    write_text(root / "results.md", page)
    write_table(root / "results.tsv", summary)
    return summary


def _read_values(root: Path, experiment: Experiment) -> pd.DataFrame:
    """Return one row a variant, layer, measure and seed."""
    rows = []
    of_run = [measure for measure in experiment.measures if measure in _OF_RUN]
    for variant in experiment.variants:
        for seed in experiment.seeds:
            place = root / variant / f"seed-{seed}"
            summaries = {layer: read_summary(place / layer / "evaluation.json") for layer in experiment.layers}
            run = _read_run(place / "run" / "metrics.csv") if of_run else {}
            for measure in experiment.measures:
                found = {"": run.get(measure)} if measure in of_run else {
                    layer: _measure(summary, measure) for layer, summary in summaries.items()
                }  # fmt: skip
                for layer, value in found.items():
                    rows.append((variant, layer, measure, seed, np.nan if value is None else float(value)))
    return pd.DataFrame(rows, columns=["variant", "layer", "measure", "seed", "value"])


def _measure(summary: Mapping[str, Any], measure: str) -> float | None:
    if measure == "class_separation":
        within, between = ((summary.get("similarity") or {}).get(key) for key in ("within", "between"))
        return None if within is None or between is None else float(within - between)
    if measure not in _BLOCKS:
        return point_estimate((summary.get("metrics") or {}).get(measure))
    found: Any = summary
    for key in _BLOCKS[measure]:
        found = (found or {}).get(key)
    return found


def _read_run(path: Path) -> dict[str, float]:
    metrics = read_metrics(path)
    return {
        "initial_loss": float(metrics["train_loss"].iloc[0]),
        "final_loss": float(metrics["train_loss"].iloc[-1]),
        "minutes": float(metrics["seconds"].sum() / 60),
    }


def _facts(root: Path, experiment: Experiment) -> list[str]:
    """Return what was done, as lines: images, network and training, from the first run's own files."""
    place = root / experiment.reference / f"seed-{experiment.seeds[0]}"
    summary = read_summary(place / experiment.layers[0] / "evaluation.json")
    images, run = experiment.prepared_images, summary.get("run") or {}
    n = (summary.get("split") or {}).get("n") or {}
    parts = ("train", "validation", "test")
    counted = ", ".join(f"{n[part]:,} {part}" for part in parts if isinstance(n.get(part), int))
    seeds = ", ".join(map(str, experiment.seeds))
    lines = [
        f"Images: {images.get('dataset')}" + (f" ({counted})" if counted else ""),
        f"Network: {(run.get('encoder') or {}).get('name', 'unknown')}",
        f"Seeds: {seeds} (weights, order and views; the images and their split are the same)",
    ]
    if run.get("epochs") is not None:
        trained = run.get("n_training_scans")
        lines.append(f"{run['epochs']} epochs" + (f" of {trained:,} images" if trained else "") + " (reference)")
    if experiment.annotation is not None:
        lines.append(
            f"Simulated annotation: {len(experiment.annotation.columns)} binary attributes by class, each wrong with "
            f"a probability of {experiment.annotation.flip:.0%}"
        )
    return lines
