"""What a run is made of, built from a configuration and a table before an image is read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from neurocontrast.config import Config, build_objective
from neurocontrast.data import Cohort, VolumeCache, VolumeDataset, encode_metadata, split_by_subject
from neurocontrast.encoders import ContrastiveModel, build_model, check_shape
from neurocontrast.exceptions import DataError, one_of, suggestion
from neurocontrast.training import AnyObjective, TrainingData, check_split

__all__ = ["Parts", "prepare"]


@dataclass(frozen=True)
class Parts:
    """What a run is made of, before it has read an image."""

    cohort: Cohort
    model: ContrastiveModel
    objective: AnyObjective
    data: TrainingData
    categories: dict[str, list[str]]


def prepare(settings: Config, cohort: Cohort) -> Parts:
    """Build everything from the configuration and the table; no image is read.

    Raises
    ------
    ConfigError, DataError
        Where the two do not fit one another.
    """
    objective = build_objective(settings.objective)
    metadata, categories = encode_metadata(cohort.table, objective.columns)
    objective.check(metadata, names=cohort.names())
    training_rows, validation_rows = split_by_subject(cohort, settings.data.val_fraction, settings.seed)
    check_split(training_rows.tolist(), validation_rows.tolist(), settings.training)
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
    return Parts(cohort, model, objective, data, categories)


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
