"""Open a run: check everything, prepare its samples, and write what begins it; in the first process, then in others."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from neurocontrast.config import Config
from neurocontrast.data.sources import AnySource
from neurocontrast.exceptions import ConfigError
from neurocontrast.files import digest_of_file
from neurocontrast.losses.registry import describe_objective
from neurocontrast.progress import Progress
from neurocontrast.runs.folder import (
    check_can_continue,
    check_new,
    continue_run,
    hold,
    is_finished,
    read_preprocessing,
    read_provenance,
    start_run,
)
from neurocontrast.runs.parts import Parts, build_parts, read_cohort_of, subjects_of
from neurocontrast.training.components import LINEAR_OBJECTIVES, fit_centre, fit_components

__all__ = ["contract_of", "fit_in_one_pass", "follow_run", "open_run"]


def open_run(
    settings: Config, source: AnySource, folder: Path, stack: ExitStack, *, resume: bool, progress: Progress
) -> tuple[tuple[bool, Parts | None], dict[str, Any]]:
    """Check everything, prepare the scans, and write what begins a run.

    Returns whether the run begins, its parts (None where it is finished), and what the other processes must know.
    """
    is_new = check_new(folder, resume=resume)
    if not is_new and is_finished(folder, settings):
        # A finished run does not need its scans any more, nor their table.
        there = settings.data.participants is not None and settings.data.participants.is_file()
        check_can_continue(folder, settings, read_cohort_of(settings, source, check_images=False) if there else None)
        return (False, None), {"is_new": False, "contract": None}
    cohort = read_cohort_of(settings, source)
    for warning in cohort.warnings:
        progress.warning(warning)
    if not is_new:
        check_can_continue(folder, settings, cohort)
    parts = build_parts(settings, cohort, source, is_new=is_new)
    stack.enter_context(hold(folder, progress))
    if check_new(folder, resume=not is_new) != is_new:
        raise ConfigError(f"out: '{folder}' has changed while this command began. Start it again.")
    if not is_new:
        source.check_unchanged(cohort, read_provenance(folder), folder)
    earlier = None if is_new else read_preprocessing(folder, parts.source)
    parts = parts.with_source(earlier or parts.source.fitted(cohort, parts.data.training_rows, progress))
    parts.source.make_ready(cohort, progress)
    if settings.training.probe_every and not len(parts.data.validation_rows):
        progress.warning(
            "training.probe_every: no probe is fitted: with data.val_fraction 0 there are no scans to score it on."
        )
    if is_new:
        facts, earlier_subjects = _facts(parts) | source.record(cohort), []
        if parts.start is not None:
            parts.start.keep(parts.model, folder, parts.source.contract(), progress)
            facts["init"], earlier_subjects = parts.start.facts, parts.start.subjects
        start_run(folder, settings, cohort, facts, earlier_subjects=earlier_subjects)
    else:
        continue_run(folder, settings, progress)
    # What a killed process left half-written.
    for path in [*folder.glob(".tmp-*"), *folder.glob("checkpoints/.tmp-*"), *folder.glob("checkpoints/*/.tmp-*")]:
        path.unlink(missing_ok=True)
    return (is_new, parts), {"is_new": is_new, "contract": parts.source.contract()}


def _facts(parts: Parts) -> dict[str, Any]:
    """Return what ``provenance.json`` says of a run's data."""
    return {
        "n_training_scans": len(parts.data.training_rows),
        "n_validation_scans": len(parts.data.validation_rows),
        "categories": parts.categories,
        "preprocessing": parts.source.contract()["preprocessing"],
    }


def follow_run(settings: Config, source: AnySource, known: Mapping[str, Any]) -> tuple[bool, Parts | None]:
    """Return what `open_run` does, in a process that is not the first."""
    if known["contract"] is None:
        return known["is_new"], None
    parts = build_parts(settings, read_cohort_of(settings, source), source, is_new=False)
    return known["is_new"], parts.with_source(parts.source.as_in_run(known["contract"]))


def fit_in_one_pass(settings: Config, parts: Parts, progress: Progress) -> dict[str, Any]:
    """Fit what needs no loss, a linear encoder or the mean of a network's input, and return what the contract says."""
    data, encoder = parts.data, parts.model.encoder
    how: dict[str, Any] = {"n_readers": data.n_readers, "progress": progress}
    if parts.objective is None:
        subjects = subjects_of(parts.cohort, data.training_rows)
        return fit_components(encoder, data.images, data.training_rows, subjects, seed=settings.seed, **how)
    if settings.encoder.centre_input:
        return {"centre": fit_centre(encoder, data.images, data.training_rows, **how)}
    return {}


def contract_of(settings: Config, parts: Parts, folder: Path) -> dict[str, Any]:
    """Return what ``encoder.json`` says of a run, before it is trained."""
    start = {} if settings.training.init is None else {"init": read_provenance(folder).get("init")}
    return {
        **start,
        **parts.source.contract(),
        "augment": None if parts.objective is None else settings.augment.model_dump(mode="json"),
        "objective": LINEAR_OBJECTIVES[settings.encoder.name]
        if parts.objective is None
        else describe_objective(settings.objective, parts.vectors) | ({"target": parts.target} if parts.target else {}),
        "seed": settings.seed,
        "epochs": settings.training.epochs,
        "n_training_scans": len(parts.data.training_rows),
        "simulated": parts.cohort.simulated,
        "provenance": digest_of_file(folder / "provenance.json"),
    }
