"""Pretrain an encoder: from a configuration to a run directory."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from lightning_fabric import Fabric
from monai.transforms import Compose, Transform

from neurocontrast.collectives import Processes
from neurocontrast.config import Config, as_config
from neurocontrast.data import Cohort
from neurocontrast.encoders import save_encoder
from neurocontrast.exceptions import ConfigError
from neurocontrast.files import digest_of_file
from neurocontrast.losses.registry import describe_objective
from neurocontrast.progress import SILENT, Progress
from neurocontrast.stages.image_source import ImageSource
from neurocontrast.stages.preparation import Parts, prepare
from neurocontrast.stages.processes import after_first, is_run_elsewhere, speaking_once
from neurocontrast.stages.run_folder import (
    check_can_continue,
    check_new,
    continue_run,
    is_finished,
    read_preprocessing,
    read_provenance,
    start_run,
)
from neurocontrast.stages.run_lock import hold
from neurocontrast.stages.sources import source_of
from neurocontrast.training import accelerator_of, check_loggers, fit, launch
from neurocontrast.training.distributed import leave
from neurocontrast.training.interruption import suspending
from neurocontrast.training.launched import launched
from neurocontrast.training.positives import cross_site_sentence

__all__ = ["pretrain"]

_OF_THE_MACHINE = {"participants", "images_root", "images_pattern", "where", "vectors", "cache_dir", "n_workers"}


def pretrain(
    config: Config | Mapping[str, Any] | str | os.PathLike[str] | None = None,
    *,
    out: str | os.PathLike[str],
    resume: bool = False,
    transforms: Compose | Sequence[Transform] | None = None,
    augment: Callable[[dict[str, Any]], Mapping[str, Any]] | None = None,
    progress: Progress = SILENT,
) -> Path:
    """Pretrain an encoder on a cohort's scans, or images, and metadata.

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
    transforms : Compose or sequence of Transform, optional
        Lead from ``{"image": path of a scan}`` to ``{"image": MetaTensor (1, D, H, W)}``, in place of the settings of
        preprocessing in `config`; none of them random. `embed` needs the same ones. A description in
        ``data.transforms`` travels with the weights instead.
    augment : Compose or Transform, optional
        Random transforms of ``{"image": Tensor (C, D, H, W)}`` that make the views, in place of the operations in
        `config`. See `neurocontrast.transforms.TwoViews`.
    progress : Progress
        Told how far the work is.

    Returns
    -------
    Path
        The run directory: ``config.yaml``, ``provenance.json``, ``metrics.csv``, ``encoder.safetensors`` ….

    Examples
    --------
    >>> import neurocontrast
    >>> run = neurocontrast.pretrain("configs/brain/yaware.yaml", out="runs/first")  # doctest: +SKIP
    """
    folder, place = Path(out), launched()
    if place.by is None:
        is_new = check_new(folder, resume=resume)
        settings, source = _resolve(config, folder, transforms, augment, is_new=is_new)
        n_processes = settings.training.devices if settings.training.num_nodes == 1 else 1
        arguments = {"config": settings.model_dump(mode="json"), "out": str(folder), "resume": resume}
        if n_processes > 1 and (transforms is not None or augment is not None):
            raise ConfigError(
                f"training.devices: {n_processes} processes cannot be handed transforms from Python. Start this script "
                "with torchrun, or describe them in data.transforms and augment.transforms."
            )
        with suspending():
            if is_run_elsewhere("pretrain", arguments, n_processes=n_processes, progress=progress):
                return folder
    else:
        is_new = not (folder / "config.yaml").is_file()
        settings, source = _resolve(config, folder, transforms, augment, is_new=is_new)
    with suspending():
        joined = launch(settings.training)
        with speaking_once(joined[1]):
            _run(settings, source, folder, joined, resume=resume, progress=progress)
            leave(joined[1])
    return folder


def _run(
    settings: Config,
    source: ImageSource,
    folder: Path,
    joined: tuple[Fabric, Processes],
    *,
    resume: bool,
    progress: Progress,
) -> None:
    processes = joined[1]
    with ExitStack() as stack:
        progress = progress if processes.is_first else SILENT
        is_new, parts = after_first(
            processes,
            lambda: _open(settings, source, folder, stack, resume=resume, progress=progress),
            lambda told: _follow(settings, source, told),
        )
        if parts is None:
            progress.message(f"{folder}: this run is finished; there is nothing to continue.")
            return
        contract = _contract(settings, parts, folder)
        result = fit(
            parts.model,
            parts.objective,
            source.views(settings),
            parts.data,
            settings=settings.training,
            seed=settings.seed,
            folder=folder,
            resume=not is_new,
            facts=_facts(settings),
            progress=progress,
            contract=contract,
            joined=joined,
        )
        if processes.is_first:
            facts = {**contract, "batchnorm": result.batchnorm}
            save_encoder(folder, parts.model.encoder, facts, head=parts.model.head)
            progress.message(f"{folder}: finished.")


def _open(
    settings: Config, source: ImageSource, folder: Path, stack: ExitStack, *, resume: bool, progress: Progress
) -> tuple[tuple[bool, Parts | None], dict[str, Any]]:
    """Check everything, prepare the scans, and write what begins a run.

    Returns
    -------
    is_new, parts : bool, Parts or None
        Whether the run begins, and its parts, None where it is finished.
    known : dict
        What the other processes must know to make the same.
    """
    is_new, parts = check_new(folder, resume=resume), None
    if not is_new and is_finished(folder, settings):
        check_can_continue(folder, settings, _read_cohort_without_images(settings, source))
    else:
        parts = _open_unfinished(settings, source, folder, stack, is_new=is_new, progress=progress)
    return (is_new, parts), {"is_new": is_new, "contract": None if parts is None else parts.source.contract()}


def _open_unfinished(
    settings: Config, source: ImageSource, folder: Path, stack: ExitStack, *, is_new: bool, progress: Progress
) -> Parts:
    cohort = _read_cohort(settings, source, progress)
    if not is_new:
        check_can_continue(folder, settings, cohort)
    parts = prepare(settings, cohort, source)
    stack.enter_context(hold(folder, progress))
    if check_new(folder, resume=not is_new) != is_new:
        raise ConfigError(f"out: '{folder}' has changed while this command began. Start it again.")
    if not is_new:
        source.check_unchanged(cohort, read_provenance(folder), folder)
    earlier = None if is_new else read_preprocessing(folder, parts.source)
    parts = parts.fitted(progress) if earlier is None else parts.with_source(earlier)
    parts.source.make_ready(cohort, progress)
    if settings.training.probe_every and not len(parts.data.validation_rows):
        progress.warning(
            "training.probe_every: no probe is fitted: with data.val_fraction 0 there are no scans to score it on."
        )
    if is_new:
        n_training, n_validation = len(parts.data.training_rows), len(parts.data.validation_rows)
        facts = {
            "n_training_scans": n_training,
            "n_validation_scans": n_validation,
            "categories": parts.categories,
            "cross_site_positives": _count_positives(settings, parts, progress),
            "preprocessing": parts.source.contract()["preprocessing"],
            **source.record(cohort),
        }
        start_run(folder, settings, cohort, facts)
    else:
        continue_run(folder, settings, progress)
    _remove_leftovers(folder)
    return parts


def _count_positives(settings: Config, parts: Parts, progress: Progress) -> dict[str, Any] | None:
    """Return how many scans have a similar one of another site in their batch; report it where sites play a part."""
    found = parts.cross_site_positives(settings)
    if found is not None and (settings.training.sampling != "shuffle" or "site" in parts.objective.columns):
        progress.message(f"training.sampling: {settings.training.sampling}: {cross_site_sentence(found)}")
    return found


def _follow(settings: Config, source: ImageSource, told: Mapping[str, Any]) -> tuple[bool, Parts | None]:
    """As `_open`, for a process that is not the first: make what the first has made."""
    if told["contract"] is None:
        return told["is_new"], None
    parts = prepare(settings, _read_cohort(settings, source, SILENT), source)
    return told["is_new"], parts.with_source(parts.source.as_in_run(told["contract"]))


def _resolve(
    config: Config | Mapping[str, Any] | str | os.PathLike[str] | None,
    folder: Path,
    transforms: Compose | Sequence[Transform] | None,
    augment: Any,
    *,
    is_new: bool,
) -> tuple[Config, ImageSource]:
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
    whole = None if transforms is None else Compose(transforms)
    source = source_of(settings.data, transforms=whole, augment=augment)
    given = {"data": transforms, "augment": augment}
    taken = {name: getattr(settings, name).with_given() for name, each in given.items() if each is not None}
    settings = settings.model_copy(update=taken)
    source.views(settings)  # refuses transforms, and needs a package for some images: before anything is written
    return settings, source_of(settings.data, transforms=whole, augment=augment)


def _read_cohort(settings: Config, source: ImageSource, progress: Progress) -> Cohort:
    data = settings.data
    assert data.participants is not None
    cohort = source.read_cohort(data.participants)
    if data.where:
        cohort = cohort.select(data.where)
    for warning in cohort.warnings:
        progress.warning(warning)
    return cohort


def _read_cohort_without_images(settings: Config, source: ImageSource) -> Cohort | None:
    """Return the cohort if its table is still there: a finished run does not need its scans any more."""
    data = settings.data
    if data.participants is None or not data.participants.is_file():
        return None
    cohort = source.read_cohort(data.participants, check_images=False)
    return cohort.select(data.where) if data.where else cohort


def _contract(settings: Config, parts: Parts, folder: Path) -> dict[str, Any]:
    """Return what must travel with the weights, but for how their BatchNorm statistics came about."""
    return {
        **parts.source.contract(),
        "augment": settings.augment.model_dump(mode="json"),
        "objective": describe_objective(settings.objective),
        "seed": settings.seed,
        "epochs": settings.training.epochs,
        "n_training_scans": len(parts.data.training_rows),
        "simulated": parts.cohort.simulated,
        "provenance": digest_of_file(folder / "provenance.json"),
    }


def _facts(settings: Config) -> dict[str, Any]:
    """Return what loggers note of a run: what was chosen, and no path of the user's."""
    chosen = settings.model_dump(mode="json", include={"seed", "augment", "encoder", "objective", "training"})
    return {**chosen, "data": settings.data.model_dump(mode="json", exclude=_OF_THE_MACHINE)}


def _remove_leftovers(folder: Path) -> None:
    """Remove what a killed process left half-written."""
    for path in [*folder.glob(".tmp-*"), *folder.glob("checkpoints/.tmp-*"), *folder.glob("checkpoints/*/.tmp-*")]:
        path.unlink(missing_ok=True)
