"""Pretrain an encoder: from a configuration to a run directory."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from neurocontrast.augment import TwoViews
from neurocontrast.config import Config, as_config, build_objective
from neurocontrast.data import Cohort, VolumeCache, VolumeDataset, encode_metadata, read_cohort, split_by_subject
from neurocontrast.encoders import ContrastiveModel, build_model, check_shape, save_encoder
from neurocontrast.exceptions import ConfigError, DataError, one_of, suggestion
from neurocontrast.files import digest_of_file
from neurocontrast.progress import SILENT, Progress
from neurocontrast.stages.run_folder import check_can_continue, check_new, is_finished, start_run
from neurocontrast.training import (
    AnyObjective,
    FitResult,
    TrainingData,
    accelerator_of,
    check_loggers,
    check_split,
    fit,
)

__all__ = ["pretrain"]


def pretrain(
    config: Config | Mapping[str, Any] | str | os.PathLike[str] | None = None,
    *,
    out: str | os.PathLike[str],
    resume: bool = False,
    progress: Progress = SILENT,
) -> Path:
    """Pretrain an encoder on a cohort's scans and metadata.

    Everything is checked before the first scan is preprocessed, and nothing is written before that.

    Parameters
    ----------
    config : Config, mapping, path of a YAML file, or None
        What to train, and on what. None, with `resume`, is the run's own.
    out : path
        Run directory to write.
    resume : bool
        Continue the run in `out`, or begin it where there is none. On a CPU the weights are bit
        for bit those of a run that was never stopped.
    progress : Progress
        Told how far the work is.

    Returns
    -------
    Path
        The run directory: ``config.yaml``, ``provenance.json``, ``metrics.csv``, ``checkpoints/``,
        ``tensorboard/``, ``encoder.safetensors`` and ``encoder.json``.

    Examples
    --------
    >>> import neurocontrast
    >>> run = neurocontrast.pretrain("configs/brain/yaware.yaml", out="runs/first")  # doctest: +SKIP
    """
    folder = Path(out)
    is_new = check_new(folder, resume=resume)
    settings = _resolve(config, folder, is_new=is_new)
    if not is_new and is_finished(folder):
        check_can_continue(folder, settings, _read_cohort_without_images(settings))
        progress.message(f"{folder}: this run is finished; there is nothing to continue.")
        return folder
    cohort = _read_cohort(settings, progress)
    if not is_new:
        check_can_continue(folder, settings, cohort)
    _run(settings, cohort, folder, is_new=is_new, progress=progress)
    progress.message(f"{folder}: finished.")
    return folder


def _run(settings: Config, cohort: Cohort, folder: Path, *, is_new: bool, progress: Progress) -> None:
    model, objective, data, categories = _prepare(settings, cohort)
    paths = [str(path) for path in cohort.table["path"]]
    assert isinstance(data.images, VolumeDataset)
    data.images.cache.prepare(paths, n_workers=settings.data.n_workers, progress=progress)
    if is_new:
        n_scans = {"n_training_scans": len(data.training_rows), "n_validation_scans": len(data.validation_rows)}
        start_run(folder, settings, cohort, {**n_scans, "categories": categories})
    _remove_leftovers(folder)
    views = TwoViews(settings.augment, seed=settings.seed)
    result = fit(
        model,
        objective,
        views,
        data,
        settings=settings.training,
        seed=settings.seed,
        folder=folder,
        resume=not is_new,
        facts=_facts(settings),
        progress=progress,
    )
    save_encoder(folder, model.encoder, _contract(settings, cohort, result, folder))


def _resolve(
    config: Config | Mapping[str, Any] | str | os.PathLike[str] | None, folder: Path, *, is_new: bool
) -> Config:
    if config is None:
        if is_new:
            raise ConfigError(
                f"config: there is no run in '{folder}' to continue, and only such a run has its own configuration. "
                "Give one (--config, --participants), or the directory of a run."
            )
        config = folder / "config.yaml"
    settings = as_config(config)
    if settings.data.participants is None:
        raise ConfigError(
            "data.participants: missing. Give the table of scans, for instance with "
            "--set data.participants=participants.tsv."
        )
    accelerator_of(settings.training)
    check_loggers(settings.training.loggers)
    return settings


def _read_cohort(settings: Config, progress: Progress) -> Cohort:
    data = settings.data
    assert data.participants is not None
    cohort = read_cohort(data.participants, images_root=data.images_root, images_pattern=data.images_pattern)
    if data.where:
        cohort = cohort.select(data.where)
    for warning in cohort.warnings:
        progress.warning(warning)
    return cohort


def _read_cohort_without_images(settings: Config) -> Cohort | None:
    """Return the cohort if its table is still there: a finished run does not need its scans any more."""
    data = settings.data
    if data.participants is None or not data.participants.is_file():
        return None
    cohort = read_cohort(
        data.participants, images_root=data.images_root, images_pattern=data.images_pattern, check_images=False
    )
    return cohort.select(data.where) if data.where else cohort


def _prepare(
    settings: Config, cohort: Cohort
) -> tuple[ContrastiveModel, AnyObjective, TrainingData, dict[str, list[str]]]:
    """Build everything from the configuration and the table; no image is read."""
    objective = build_objective(settings.objective)
    metadata, categories = encode_metadata(cohort.table, objective.columns)
    objective.check(metadata, names=cohort.names())
    training_rows, validation_rows = split_by_subject(cohort, settings.data.val_fraction, settings.seed)
    check_split(training_rows.tolist(), validation_rows.tolist())
    if objective.kernel is not None:  # fitted again in training; here, so that a rule that cannot be used is told first
        objective.kernel.fit({name: column[training_rows] for name, column in metadata.items()})
    model = build_model(settings.encoder, seed=settings.seed)
    check_shape(model.encoder, settings.data.shape)
    cache = VolumeCache(settings.data.cache_dir, settings.data.preprocessing, dtype=settings.data.cache_dtype)
    data = TrainingData(
        images=VolumeDataset(cohort, cache),
        names=cohort.names(),
        metadata=metadata,
        training_rows=training_rows.tolist(),
        validation_rows=validation_rows.tolist(),
        targets=_targets(settings, cohort),
        n_readers=settings.data.n_workers,
    )
    return model, objective, data, categories


def _targets(settings: Config, cohort: Cohort) -> dict[str, np.ndarray]:
    """Return what the linear probe predicts: numbers, or text with None where it is missing."""
    if settings.training.probe_every == 0:
        return {}
    targets = {}
    for name in settings.training.probe_columns:
        columns = [str(column) for column in cohort.table.columns if column != "path"]
        if name not in columns:
            raise DataError(
                f"training.probe_columns: {cohort.source.name} has no column '{name}'."
                f"{suggestion(name, columns)} It has: {one_of(columns)}."
            )
        values = cohort.table[name]
        if values.dtype.kind == "f":
            targets[name] = values.to_numpy(dtype=float)
        else:
            text = [None if pd.isna(value) or value == "" else str(value) for value in values]
            targets[name] = np.array(text, dtype=object)
    return targets


def _contract(settings: Config, cohort: Cohort, result: FitResult, folder: Path) -> dict[str, Any]:
    """Return what must travel with the weights."""
    return {
        "preprocessing": settings.data.preprocessing.contract(),
        "cache_dtype": settings.data.cache_dtype,
        "batchnorm": result.batchnorm,
        "objective": settings.objective.model_dump(mode="json"),
        "seed": settings.seed,
        "epochs": settings.training.epochs,
        "n_training_scans": result.n_training_scans,
        "simulated": cohort.simulated,
        "provenance": digest_of_file(folder / "provenance.json"),
    }


def _facts(settings: Config) -> dict[str, Any]:
    """Return what loggers note of a run: what was chosen, and no path of the user's."""
    chosen = settings.model_dump(mode="json", include={"seed", "augment", "encoder", "objective", "training"})
    preprocessing = settings.data.preprocessing.model_dump(mode="json")
    return {**chosen, "data": {**preprocessing, "val_fraction": settings.data.val_fraction}}


def _remove_leftovers(folder: Path) -> None:
    """Remove what a killed process left half-written."""
    for path in [*folder.glob(".tmp-*"), *folder.glob("checkpoints/.tmp-*")]:
        path.unlink(missing_ok=True)
