"""The parts of a run, built from its configuration and its table; how a run is opened, which writes its start.

Scans that cannot be used are left out where a run is told so: they are named on the screen and in
``skipped.tsv``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from neurocontrast.config import Config, build_objective
from neurocontrast.data.cohort import Cohort, split_by_subject
from neurocontrast.data.columns import no_column
from neurocontrast.data.listing import read_table
from neurocontrast.data.metadata import check_vectors, encode_metadata, read_vectors
from neurocontrast.data.sources import AnySource, BrainVolumes, source_of
from neurocontrast.documents.encoder import Samples
from neurocontrast.encoders import ContrastiveModel, TwoEncoders, build_model, check_shape
from neurocontrast.exceptions import CheckpointError, ConfigError, DataError
from neurocontrast.files import hold, write_table
from neurocontrast.losses.supervised import Supervised
from neurocontrast.progress import Progress
from neurocontrast.runs.folder import (
    check_can_continue,
    check_new,
    continue_run,
    is_finished,
    read_preprocessing,
    read_provenance,
    start_run,
)
from neurocontrast.runs.initial import InitialWeights, start_from
from neurocontrast.runs.views import views_revision, warn_of_other_views
from neurocontrast.seeds import derive_seed
from neurocontrast.training.components import check_components
from neurocontrast.training.data import AnyObjective, TrainingData, check_split

SKIPPED = "skipped.tsv"
"""Table of a run with the scans that were left out, where there are any: ``scan`` and ``reason``."""
NONE = pd.DataFrame({"scan": [], "reason": []}, dtype=object)
"""The table where no scan is left out."""
_N_SHOWN = 10


def read_cohort_of(
    settings: Config, source: AnySource, *, check_images: bool = True, skipped: Collection[str] = ()
) -> Cohort:
    """Return the rows of the table of samples that a configuration keeps, without those that a run has skipped."""
    assert source.table is not None
    cohort = source.read_cohort(source.table, check_images=check_images).select(settings.data.where)
    return without(cohort, skipped) if skipped else cohort


@dataclass(frozen=True)
class Parts:
    """The parts of a run: data, network and loss."""

    cohort: Cohort
    model: ContrastiveModel
    objective: AnyObjective | None  # none where the encoder is linear
    data: TrainingData
    categories: dict[str, list[str]]
    source: AnySource
    vectors: dict[str, list[str]]  # columns of each vector that kernels may compare
    target: dict[str, Any] | None  # what the head predicts, where the loss predicts
    start: InitialWeights | None = (
        None  # what the model's weights are of, where they are not random
    )

    def with_source(self, source: AnySource) -> Parts:
        """Return the same parts with images of another preprocessing."""
        for half, own in zip(self.model.halves, source.halves, strict=True):
            own.set_up(half.encoder)
        return replace(
            self, data=replace(self.data, images=source.images(self.cohort)), source=source
        )


def build_parts(
    settings: Config, cohort: Cohort, source: AnySource | None = None, *, is_new: bool = True
) -> Parts:
    """Build everything from the configuration and the table; only a user's own transforms read an image.

    `source` is that of the configuration where transforms came from Python. A run that `is_new`
    reads the weights that it is to start from; later it has its own.
    """
    source = source or source_of(settings.data, second=settings.second)
    objective = None if settings.encoder.is_linear else build_objective(settings.objective)
    vectors = read_vectors(settings.data.vectors, cohort)
    columns = {} if objective is None else objective.columns
    metadata, categories = encode_metadata(
        cohort.table, columns, vectors=vectors, place=cohort.source.name
    )
    training_rows, validation_rows = split_by_subject(
        cohort, settings.data.val_fraction, settings.seed
    )
    target = n_outputs = None
    if objective is not None:
        check_vectors(vectors, objective, cohort, training_rows.tolist())
        objective.check(metadata, names=cohort.names())
        check_split(training_rows.tolist(), validation_rows.tolist())
        # Fitted again in training; here, so that a rule that cannot be used is an error first.
        in_training = {name: column[training_rows] for name, column in metadata.items()}
        objective.fit(in_training)
        if settings.encoder_2 is not None and not objective.contrasts:
            raise ConfigError(
                "objective.loss: this one predicts, and two encoders need one that contrasts views."
            )
        if isinstance(objective, Supervised):
            target = objective.target(in_training, categories)
            n_outputs = objective.n_outputs(categories)
    source = source.prepared(cohort, training_rows.tolist())
    models = []
    seeds = (settings.seed, derive_seed("encoder_2", settings.seed))
    for encoder, own, seed in zip(settings.encoders, source.halves, seeds, strict=False):
        models.append(
            build_model(encoder, n_channels=own.n_channels, n_outputs=n_outputs, seed=seed)
        )
        check_shape(models[-1].encoder, own.shape(cohort))
    model = models[0] if len(models) == 1 else TwoEncoders(*models)
    init = settings.training.init if is_new else None
    start = None if init is None else start_from(model.halves[0], init, measures=source.measures)
    if objective is None:
        check_components(model.encoder, subjects_of(cohort, training_rows.tolist()))
    probed = (
        settings.training.probe_columns
        if settings.training.probe_every and objective is not None
        else ()
    )
    data = TrainingData(
        images=source.images(cohort),
        names=cohort.names(),
        metadata=metadata,
        training_rows=training_rows.tolist(),
        validation_rows=validation_rows.tolist(),
        targets={name: _column(cohort, name, "training.probe_columns") for name in probed},
        traits={} if objective is None else _traits(settings, cohort),
        n_readers=settings.data.n_workers,
    )
    if objective is not None:
        # Refused here, before an image is read.
        _ = data.sampler(settings.training, settings.seed, n_encoders=len(settings.encoders))
    columns_of = {name: list(map(str, values.columns)) for name, values in vectors.items()}
    return Parts(cohort, model, objective, data, categories, source, columns_of, target, start)


def subjects_of(cohort: Cohort, rows: Sequence[int]) -> list[str]:
    """Return the subject of each of some rows."""
    return cohort.table["subject_id"].iloc[list(rows)].astype(str).tolist()


def _traits(settings: Config, cohort: Cohort) -> dict[str, np.ndarray]:
    """Return the columns that batches are balanced by."""
    training = settings.training
    sampling = f"training.sampling: {settings.training.sampling}"
    names = (
        training.columns_of_strata
        if training.sampling in ("metadata-balanced", "one-group")
        else ()
    )
    key = sampling if training.sampling_columns is None else "training.sampling_columns"
    traits = {name: _column(cohort, name, key) for name in names}
    if training.sampling in ("site-balanced", "metadata-balanced"):
        traits["site"] = _column(cohort, "site", sampling)
    return traits


def _column(cohort: Cohort, name: str, key: str) -> np.ndarray:
    """Return a column: numbers, or text with None for a missing cell."""
    if name not in cohort.table or name == "path":
        raise DataError(no_column(f"{key}: {cohort.source.name}", name, cohort.table.columns))
    values = cohort.table[name]
    if values.dtype.kind == "f":
        return values.to_numpy(dtype=float)
    text = [None if pd.isna(value) or value == "" else str(value) for value in values]
    return np.array(text, dtype=object)


def _warn_of_scans(
    settings: Config, parts: Parts, cohort: Cohort, progress: Progress, *, is_new: bool
) -> None:
    """Warn of scans that look raw where a run begins, and of a probe that has no scans."""
    if is_new:
        for doubt in parts.source.doubts(cohort):
            progress.warning(doubt)
    if settings.training.probe_every and not len(parts.data.validation_rows):
        progress.warning(
            "training.probe_every: no probe is fitted: with data.val_fraction 0 there are no scans "
            "to score it on."
        )


def open_run(
    settings: Config,
    source: AnySource,
    folder: Path,
    stack: ExitStack,
    *,
    resume: bool,
    progress: Progress,
) -> tuple[tuple[bool, Parts | None], dict[str, Any]]:
    """Check everything, prepare the scans, and write what begins a run.

    Returns whether the run begins, its parts (None if it is finished), and what the other processes
    must know.
    """
    is_new = check_new(folder, resume=resume)
    if not is_new and is_finished(folder, settings):
        # A finished run does not need its scans any more, nor their table.
        there = isinstance(source.table, pd.DataFrame) or (
            source.table is not None and Path(source.table).is_file()
        )
        listed = (
            read_cohort_of(settings, source, check_images=False, skipped=read_skipped(folder))
            if there
            else None
        )
        check_can_continue(folder, settings, listed)
        return (False, None), {"is_new": False, "contract": None}
    recorded = [] if is_new else read_skipped(folder)
    cohort = read_cohort_of(settings, source, skipped=recorded)
    for warning in cohort.warnings:
        progress.warning(warning)
    if not is_new:
        check_can_continue(folder, settings, cohort)
    cohort, unlearnable = leave_out_unlearnable(settings, source, cohort, progress, is_new=is_new)
    parts = build_parts(settings, cohort, source, is_new=is_new)
    for warning in _of_no_effect(parts):
        progress.warning(warning)
    stack.enter_context(hold(folder, progress))
    if check_new(folder, resume=not is_new) != is_new:
        raise ConfigError(f"out: '{folder}' has changed while this command began. Start it again.")
    skipped = NONE
    if not is_new:
        source.check_unchanged(cohort, read_provenance(folder), folder)
    elif source.skips:
        cohort, skipped = leave_out(parts.source, cohort, progress)
        parts = build_parts(settings, cohort, source) if len(skipped) else parts
        skipped = pd.concat([unlearnable, skipped], ignore_index=True)
    earlier = None if is_new else read_preprocessing(folder, parts.source)
    parts = parts.with_source(
        earlier or parts.source.fitted(cohort, parts.data.training_rows, progress)
    )
    make_ready(parts.source, cohort, progress)
    _warn_of_scans(settings, parts, cohort, progress, is_new=is_new)
    if not is_new and parts.objective is not None:
        warn_of_other_views(parts.source, folder, progress)
    if is_new:
        facts = _facts(parts) | source.record(cohort) | {"n_skipped": len(skipped)}
        people = None
        contents = parts.source.contents(cohort, progress)
        write_skipped(folder / SKIPPED, skipped)
        if parts.start is not None:
            parts.start.keep(
                parts.model.halves[0], folder, parts.source.halves[0].contract(), progress
            )
            facts["init"] = parts.start.start
            people = parts.start.people
        start_run(folder, settings, cohort, facts, contents=contents, earlier=people)
    else:
        continue_run(folder, settings, progress)
    # What a killed process left half-written.
    for path in list(folder.rglob(".tmp-*")):
        path.unlink(missing_ok=True)
    told = {
        "is_new": is_new,
        "contract": parts.source.contract().content(),
        "skipped": [*recorded, *skipped["scan"]],
    }
    return (is_new, parts), told


def _of_no_effect(parts: Parts) -> Iterator[str]:
    """Yield a warning of each column of the loss that tells no scans of training apart."""
    for name, kind in ({} if parts.objective is None else parts.objective.columns).items():
        values = parts.data.metadata[name][parts.data.training_rows].numpy()
        known = values[values >= 0] if kind == "categorical" else values[~np.isnan(values)]
        if values.ndim == 1 and len(np.unique(known)) < 2:
            yield f"objective: column '{name}' has one value or none in training and shapes nothing."


def _facts(parts: Parts) -> dict[str, Any]:
    """Return what ``provenance.json`` says of a run's data."""
    return {
        "n_training_scans": len(parts.data.training_rows),
        "n_validation_scans": len(parts.data.validation_rows),
        "categories": parts.categories,
        "views_revision": views_revision(parts.source),
        **{
            name: made
            for name, made in parts.source.contract().content().items()
            if name.startswith("preprocessing")
        },
    }


def follow_run(
    settings: Config, source: AnySource, known: Mapping[str, Any]
) -> tuple[bool, Parts | None]:
    """Return what `open_run` does, in a process that is not the first."""
    if known["contract"] is None:
        return known["is_new"], None
    parts = build_parts(
        settings, read_cohort_of(settings, source, skipped=known["skipped"]), source, is_new=False
    )
    return known["is_new"], parts.with_source(
        parts.source.as_in_run(Samples.model_validate(known["contract"]))
    )


def without(cohort: Cohort, names: Collection[str]) -> Cohort:
    """Return the cohort without the scans that have one of these names."""
    return cohort.subset([row for row, name in enumerate(cohort.names()) if name not in names])


def make_ready(source: AnySource, cohort: Cohort, progress: Progress) -> None:
    """Prepare the scans of a cohort; where some cannot be used, the error says how to leave them out."""
    try:
        source.make_ready(cohort, progress)
    except DataError as error:
        if not isinstance(source, BrainVolumes) or type(error) is not DataError or len(cohort) == 1:
            raise
        raise DataError(
            f"{error}\nTo leave such scans out, set data.skip_unreadable=true (--skip)."
        ) from error


def leave_out(source: AnySource, cohort: Cohort, progress: Progress) -> tuple[Cohort, pd.DataFrame]:
    """Prepare the scans of a cohort; return those that can be used, and a table of the others, to be written.

    Without ``data.skip_unreadable`` scans that cannot be used are one `DataError`, and the table is
    empty.
    """
    if not source.skips:
        make_ready(source, cohort, progress)
        return cohort, NONE
    return _without_failures(cohort, source.failures(cohort, progress), progress)


def leave_out_unlearnable(
    settings: Config,
    source: AnySource,
    cohort: Cohort,
    progress: Progress,
    *,
    is_new: bool = True,
) -> tuple[Cohort, pd.DataFrame]:
    """Leave out the rows whose tables show that a new run cannot use them, if `source` skips.

    A run that continues is without the rows that it left out when it began.
    """
    if not (source.skips and is_new):
        return cohort, NONE
    return _without_failures(cohort, source.unlearnable(cohort, settings.seed), progress)


def _without_failures(
    cohort: Cohort, failures: Mapping[int, str], progress: Progress
) -> tuple[Cohort, pd.DataFrame]:
    """Return the rows without a failure, and the table of the others, of which a warning tells."""
    names = cohort.names()
    rows = [(names[row], " ".join(reason.split())) for row, reason in failures.items()]
    skipped = pd.DataFrame(rows, columns=["scan", "reason"], dtype=object)
    if len(skipped) == len(cohort):
        raise DataError(
            f"{cohort.source.name}: none of {len(cohort)} scans can be used, for instance: "
            f"{skipped['reason'].iloc[0]}"
        )
    if len(skipped):
        lines = [f"  {scan}: {reason}" for scan, reason in rows[:_N_SHOWN]]
        if len(rows) > _N_SHOWN:
            lines.append(f"  … and {len(rows) - _N_SHOWN} more")
        n_people = cohort.table["subject_id"].iloc[list(failures)].nunique()
        people = f", of {n_people} people," * (n_people < len(rows))
        listed = "\n".join(lines)
        progress.warning(
            f"{len(rows)} of {len(cohort)} scans{people} cannot be used and are left out:\n{listed}"
        )
    return without(cohort, set(skipped["scan"])), skipped


def write_skipped(path: Path, skipped: pd.DataFrame) -> None:
    """Write the table of scans that were left out; where there are none, an earlier one is removed."""
    write_table(path, skipped) if len(skipped) else path.unlink(missing_ok=True)


def read_skipped(folder: Path) -> list[str]:
    """Return the names of the scans that a run has left out."""
    path = folder / SKIPPED
    if not path.is_file():
        return []
    known = read_table(
        path, needed=["scan"], error=CheckpointError, remedy="Copy the run again.", dtype=str
    )
    return known["scan"].tolist()
