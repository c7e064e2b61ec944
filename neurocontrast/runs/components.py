"""Data, network and loss of a run, built from its configuration and its table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from neurocontrast.config import Config, build_objective
from neurocontrast.data.cohort import Cohort, split_by_subject
from neurocontrast.data.columns import no_column
from neurocontrast.data.metadata import check_vectors, encode_metadata, read_vectors
from neurocontrast.data.sources import Source, source_of
from neurocontrast.documents.document import Json
from neurocontrast.encoders import ContrastiveModel, TwoEncoders, build_model, check_shape
from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.losses.supervised import Supervised
from neurocontrast.runs.initial import InitialWeights, start_from
from neurocontrast.runs.views import views_revision
from neurocontrast.seeds import derive_seed
from neurocontrast.training.components import check_components
from neurocontrast.training.data import AnyObjective, TrainingData, fit_objective, select_rows
from neurocontrast.training.sampling import Sampler


@dataclass(frozen=True)
class RunComponents:
    """Data, network and loss of a run, built and checked by `build_components` before training.

    The loss is fitted to the training scans.
    """

    cohort: Cohort
    source: Source
    """Object that reads and preprocesses the samples of the run.

    Before training, `with_source` replaces this source by one whose preprocessing is fitted to the
    training scans.
    """
    data: TrainingData
    model: ContrastiveModel
    objective: AnyObjective | None
    """Loss; None where the encoder is linear."""
    sampler: Sampler | None
    """Sampler of the batches of each epoch; None where the encoder is linear."""
    categories: dict[str, list[str]]
    """Categorical column → its categories, in the order of their codes."""
    vectors: dict[str, list[str]]
    """Name of each vector that a kernel compares → the vector's columns in the table of scans."""
    target: Json | None
    """Description of the target that a supervised loss predicts; None for any other loss."""
    start: InitialWeights | None = None
    """Weights of ``training.init`` for a new run; None for random weights or a continued run."""

    def with_source(self, source: Source) -> RunComponents:
        """Return a copy with another source of samples, such as one with fitted preprocessing.

        A source reads and preprocesses the samples of the run. Preprocessing that is done by the
        network, such as standardised colours, is put into the encoders.
        """
        for half, of_half in zip(self.model.halves, source.halves, strict=True):
            of_half.set_up(half.encoder)
        data = replace(self.data, images=source.images(self.cohort))
        return replace(self, data=data, source=source)

    @property
    def training_subjects(self) -> list[str]:
        """Subject identifier of each training scan, in the order of the training rows in `data`."""
        return _subjects_of(self.cohort, self.data.training_rows)

    def facts(self) -> Json:
        """Return entries of ``provenance.json``: numbers of scans, categories, and preprocessing.

        The result also has ``views_revision``, a number for the package's code that draws random
        views: versions of the package with unlike numbers draw unlike views from the same seed.
        """
        facts: Json = {
            "n_training_scans": len(self.data.training_rows),
            "n_validation_scans": len(self.data.validation_rows),
            "categories": self.categories,
            "views_revision": views_revision(self.source),
        }
        for name, value in self.source.contract().content().items():
            if name.startswith("preprocessing"):
                facts[name] = value
        return facts

    def columns_of_no_effect(self) -> Iterator[str]:
        """Yield a warning for each column of the loss with at most one value in the training scans.

        Missing values do not count. Such a column cannot shape the features. Nothing is yielded for
        a linear encoder, which has no loss.
        """
        if self.objective is None:
            return
        in_training = select_rows(self.data.metadata, self.data.training_rows)
        for name, kind in self.objective.columns.items():
            values = in_training[name].numpy()
            is_known = values >= 0 if kind == "categorical" else ~np.isnan(values)
            if values.ndim == 1 and len(np.unique(values[is_known])) < 2:
                yield (
                    f"objective: column '{name}' has one value or none in training and shapes "
                    "nothing."
                )


def build_components(
    settings: Config, cohort: Cohort, source: Source | None = None, *, is_new: bool = True
) -> RunComponents:
    """Build data, network and loss of a run from its configuration and its table.

    `source` is the object that reads and preprocesses the samples, with transforms that the user
    passed from Python; None builds one from the configuration. No image is read, unless such
    transforms read one. A run that `is_new` starts from the weights of ``training.init``; a
    continued run restores the weights in its folder later.
    """
    if source is None:
        source = source_of(settings.data, second=settings.second)
    objective = None if settings.encoder.is_linear else build_objective(settings.objective)
    vectors = read_vectors(settings.data.vectors, cohort)
    metadata, categories = encode_metadata(
        cohort.table,
        {} if objective is None else objective.columns,
        vectors=vectors,
        place=cohort.source.name,
    )
    sides = split_by_subject(cohort, settings.data.val_fraction, settings.seed)
    training_rows, validation_rows = (rows.tolist() for rows in sides)
    target = None
    n_outputs = None
    if objective is not None:
        check_vectors(vectors, objective, cohort, training_rows)
        fit_objective(
            objective,
            metadata,
            names=cohort.names(),
            training_rows=training_rows,
            validation_rows=validation_rows,
        )
        _check_contrast(settings, objective)
        if isinstance(objective, Supervised):
            target = objective.target(select_rows(metadata, training_rows), categories)
            n_outputs = objective.n_outputs(categories)
    source = source.prepared(cohort, training_rows)
    model = _build_model(settings, cohort, source, n_outputs=n_outputs)
    start = None
    if settings.training.init is not None and is_new:
        start = start_from(model.halves[0], settings.training.init, measures=source.measures)
    data = TrainingData(
        images=source.images(cohort),
        names=cohort.names(),
        metadata=metadata,
        training_rows=training_rows,
        validation_rows=validation_rows,
        n_readers=settings.data.n_workers,
    )
    sampler = None
    if objective is None:
        check_components(model.encoder, _subjects_of(cohort, training_rows))
    else:
        data = replace(data, targets=_targets(settings, cohort), traits=_traits(settings, cohort))
        sampler = data.sampler(settings.training, settings.seed, n_encoders=len(settings.encoders))
    return RunComponents(
        cohort=cohort,
        source=source,
        data=data,
        model=model,
        objective=objective,
        sampler=sampler,
        categories=categories,
        vectors={name: list(map(str, values.columns)) for name, values in vectors.items()},
        target=target,
        start=start,
    )


def _check_contrast(settings: Config, objective: AnyObjective) -> None:
    """Refuse a supervised loss for two encoders, which need a loss that compares views."""
    if settings.encoder_2 is not None and not objective.contrasts:
        raise ConfigError(
            "objective.loss: this one predicts, and two encoders need one that contrasts views."
        )


def _build_model(
    settings: Config, cohort: Cohort, source: Source, *, n_outputs: int | None
) -> ContrastiveModel:
    """Build the network to train, with random weights: of one encoder, or of two trained together.

    The weights follow from the setting ``seed``. Two encoders are joined in one `TwoEncoders`.
    `n_outputs` is the number of outputs that a supervised loss needs; None for any other loss. An
    encoder that cannot read samples of the shape in `source` is refused.
    """
    models = []
    seeds = (settings.seed, derive_seed("encoder_2", settings.seed))
    for encoder, half, seed in zip(settings.encoders, source.halves, seeds, strict=False):
        model = build_model(encoder, n_channels=half.n_channels, n_outputs=n_outputs, seed=seed)
        check_shape(model.encoder, half.shape(cohort))
        models.append(model)
    if len(models) == 1:
        return models[0]
    return TwoEncoders(*models)


def _subjects_of(cohort: Cohort, rows: Sequence[int]) -> list[str]:
    """Return the subject identifiers of selected rows of a cohort."""
    return cohort.table["subject_id"].iloc[list(rows)].astype(str).tolist()


def _targets(settings: Config, cohort: Cohort) -> dict[str, np.ndarray]:
    """Return column name → values of all scans of `cohort`, for columns that linear probes predict.

    The probes are fitted during training; the result is empty if none is
    (``training.probe_every``).
    """
    targets = {}
    if settings.training.probe_every:
        for name in settings.training.probe_columns:
            targets[name] = _column(cohort, name, "training.probe_columns")
    return targets


def _traits(settings: Config, cohort: Cohort) -> dict[str, np.ndarray]:
    """Return column name → values of all scans, for columns that ``training.sampling`` balances.

    Empty if batches are not sampled by columns.
    """
    training = settings.training
    sampling = f"training.sampling: {training.sampling}"
    traits = {}
    if training.sampling in ("metadata-balanced", "one-group"):
        key = sampling if training.sampling_columns is None else "training.sampling_columns"
        for name in training.columns_of_strata:
            traits[name] = _column(cohort, name, key)
    if training.sampling in ("site-balanced", "metadata-balanced"):
        traits["site"] = _column(cohort, "site", sampling)
    return traits


def _column(cohort: Cohort, name: str, key: str) -> np.ndarray:
    """Return column `name` of the table of scans: numbers, or text with None for missing cells.

    A table without the column is refused; the message begins with `key`, the setting that names the
    column.
    """
    if name not in cohort.table or name == "path":
        raise DataError(no_column(f"{key}: {cohort.source.name}", name, cohort.table.columns))
    values = cohort.table[name]
    if values.dtype.kind == "f":
        return values.to_numpy(dtype=float)
    words = [None if pd.isna(value) or value == "" else str(value) for value in values]
    return np.array(words, dtype=object)
