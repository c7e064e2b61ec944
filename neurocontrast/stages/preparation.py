"""Build a run from a configuration and a table, before an image is read."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from neurocontrast.config import Config, build_objective
from neurocontrast.data.cohort import Cohort, split_by_subject
from neurocontrast.data.metadata import encode_metadata, read_vectors
from neurocontrast.encoders import ContrastiveModel, build_model, check_shape
from neurocontrast.exceptions import DataError, one_of, suggestion
from neurocontrast.stages.image_source import ImageSource
from neurocontrast.stages.sources import source_of
from neurocontrast.training.session import AnyObjective, TrainingData, check_split

__all__ = ["Parts", "prepare"]


@dataclass(frozen=True)
class Parts:
    """The parts of a run: data, network and loss."""

    cohort: Cohort
    model: ContrastiveModel
    objective: AnyObjective
    data: TrainingData
    categories: dict[str, list[str]]
    source: ImageSource

    def with_source(self, source: ImageSource) -> Parts:
        """Return the same parts with images of another preprocessing."""
        source.set_up(self.model.encoder)
        return replace(self, data=replace(self.data, images=source.images(self.cohort)), source=source)


def prepare(settings: Config, cohort: Cohort, source: ImageSource | None = None) -> Parts:
    """Build everything from the configuration and the table; only a user's own transforms read an image.

    `source` is that of the configuration where transforms came from Python.
    """
    source, objective = source or source_of(settings.data), build_objective(settings.objective)
    vectors = read_vectors(getattr(settings.data, "vectors", {}), cohort)
    metadata, categories = encode_metadata(cohort.table, objective.columns, vectors=vectors)
    objective.check(metadata, names=cohort.names())
    training_rows, validation_rows = split_by_subject(cohort, settings.data.val_fraction, settings.seed)
    check_split(training_rows.tolist(), validation_rows.tolist(), settings.training)
    # Fitted again in training; here, so that a rule that cannot be used is an error first.
    objective.fit({name: column[training_rows] for name, column in metadata.items()})
    source = source.prepared(cohort)
    model = build_model(settings.encoder, n_channels=source.n_channels, seed=settings.seed)
    check_shape(model.encoder, source.shape(cohort))
    probed = settings.training.probe_columns if settings.training.probe_every else ()
    data = TrainingData(
        images=source.images(cohort),
        names=cohort.names(),
        metadata=metadata,
        training_rows=training_rows.tolist(),
        validation_rows=validation_rows.tolist(),
        targets={name: _column(cohort, name, "training.probe_columns") for name in probed},
        traits=_traits(settings, cohort),
        n_readers=settings.data.n_workers,
    )
    _ = data.sampler(settings.training, settings.seed)  # refused here, before an image is read
    return Parts(cohort, model, objective, data, categories, source)


def _traits(settings: Config, cohort: Cohort) -> dict[str, np.ndarray]:
    """Return the columns that batches are balanced by, and the site where it is known."""
    training = settings.training
    names = training.columns_of_strata if training.sampling == "metadata-balanced" else ()
    key = (
        f"training.sampling: {training.sampling}" if training.sampling_columns is None else "training.sampling_columns"
    )
    traits = {name: _column(cohort, name, key) for name in names}
    if training.sampling != "shuffle" or "site" in cohort.table:
        traits["site"] = _column(cohort, "site", f"training.sampling: {training.sampling}")
    return traits


def _column(cohort: Cohort, name: str, key: str) -> np.ndarray:
    """Return a column: numbers, or text with None where it is missing."""
    columns = [str(column) for column in cohort.table.columns if column != "path"]
    if name not in columns:
        raise DataError(
            f"{key}: {cohort.source.name} has no column '{name}'.{suggestion(name, columns)} It has: {one_of(columns)}."
        )
    values = cohort.table[name]
    if values.dtype.kind == "f":
        return values.to_numpy(dtype=float)
    text = [None if pd.isna(value) or value == "" else str(value) for value in values]
    return np.array(text, dtype=object)
