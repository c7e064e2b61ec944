"""What this machine has, and what a configuration would cost on it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from neurocontrast.config import Config, as_config, build_objective
from neurocontrast.data import Cohort
from neurocontrast.encoders import build_model, check_shape
from neurocontrast.exceptions import ConfigError, MissingDependencyError
from neurocontrast.machine import (
    as_size,
    available_memory,
    describe_disk,
    describe_gpus,
    describe_processor,
    describe_threads,
    resident_memory,
    total_memory,
)
from neurocontrast.optional import is_installed
from neurocontrast.progress import SILENT, Progress
from neurocontrast.provenance import describe_environment
from neurocontrast.stages.kinds import kind_of
from neurocontrast.stages.preparation import prepare
from neurocontrast.training import TrainingSettings, accelerator_of, check_loggers, check_split
from neurocontrast.training.estimate import Throughput, Work, measure_throughput
from neurocontrast.training.validation import MOST_SCANS_OF_STATISTICS

__all__ = ["Diagnosis", "doctor"]

_EXTRAS = {
    "images": "kornia",
    "umap": "umap",
    "mlflow": "mlflow",
    "wandb": "wandb",
    "workflow": "snakemake",
    "slurm": "snakemake_executor_plugin_slurm",
}


@dataclass(frozen=True)
class Diagnosis:
    """What `doctor` found; all but the lists of text are JSON-ready mappings.

    Parameters
    ----------
    machine : dict
        Versions, processor, threads, GPUs, memory, disks, optional packages.
    run : dict or None
        Time, memory and disk of the configured run; None where no time was given to measure it.
    problems : list of str
        Why `pretrain` would refuse this configuration here.
    warnings : list of str
        What will be slow, or may not fit.
    """

    machine: dict[str, Any]
    run: dict[str, Any] | None
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return everything as one JSON-ready mapping."""
        return asdict(self)


@dataclass(frozen=True)
class _Scans:
    """How many scans the run has on each side of the split, and how many must be preprocessed first."""

    n_training: int
    n_validation: int
    n_missing: int
    preprocessing_seconds: float | None = None
    cache_bytes: int = 0

    @property
    def n_all(self) -> int:
        return self.n_training + self.n_validation


def doctor(
    config: Config | Mapping[str, Any] | str | os.PathLike[str] | None = None,
    *,
    out: str | os.PathLike[str] = ".",
    n_scans: int | None = None,
    seconds: float = 10.0,
    clock: Callable[[], float] = time.perf_counter,
    progress: Progress = SILENT,
) -> Diagnosis:
    """Say what this machine has, and estimate time, memory and disk of a configured run.

    Real training steps of the configured network are timed on synthetic volumes. Nothing is written.

    Parameters
    ----------
    config : Config, mapping, path of a YAML file, or None
        What `pretrain` would be given. With ``data.participants`` the table is read, and one of its
        scans where some are not preprocessed yet.
    out : path
        Where the run directory would be.
    n_scans : int, optional
        Scans of the cohort, where there is no table yet.
    seconds : float
        About how long the measurement may take; 0 for none.
    clock : callable
        Tells the time in seconds.
    progress : Progress
        Told how far the work is.

    Raises
    ------
    ConfigError, DataError
        As `pretrain`, for a configuration or table that is wrong on any machine.
    """
    settings = as_config({} if config is None else config)
    _check(seconds, n_scans)
    machine = _describe_machine(kind_of(settings.data).cache_folder(), Path(out))
    problems, training = _refusals(settings.training)
    if seconds == 0:
        return Diagnosis(machine, None, problems, _doubt_threads(machine, settings))
    cohort = _read_cohort(settings)
    scans = _count_scans(settings, cohort, n_scans, clock)
    shape = kind_of(settings.data).intake().shape(cohort)
    measured = _measure(settings, training, shape, seconds, clock, progress)
    run = _estimate(settings, shape, scans, measured, machine)
    room = _doubt_room(run, machine, kind_of(settings.data).how_to_be_smaller)
    warnings = [*_doubt_threads(machine, settings), *room, *_doubt_device(run, settings)]
    return Diagnosis(machine, run, problems, warnings)


def _check(seconds: float, n_scans: int | None) -> None:
    if not 0 <= seconds < float("inf"):
        raise ConfigError(f"seconds: must be 0 (no measurement) or more, got {seconds:g}.")
    if n_scans is not None and n_scans < 2:
        raise ConfigError(f"n_scans: must be at least 2, got {n_scans}.")


def _describe_machine(cache: Path, out: Path) -> dict[str, Any]:
    software = describe_environment()
    return {
        "software": {name: software[name] for name in ("neurocontrast", "git", "python", "packages", "platform")},
        "processor": describe_processor(),
        "threads": describe_threads(),
        "gpus": describe_gpus(),
        "memory": {"total_bytes": total_memory(), "available_bytes": available_memory()},
        "cache": describe_disk(cache),
        "out": describe_disk(out),
        "extras": {extra: is_installed(module) for extra, module in _EXTRAS.items()},
    }


def _refusals(settings: TrainingSettings) -> tuple[list[str], TrainingSettings]:
    """Return why `pretrain` would refuse these settings here, and settings that can be measured instead."""
    problems = []
    try:
        check_loggers(settings.loggers)
    except MissingDependencyError as error:
        problems.append(str(error))
    try:
        accelerator_of(settings)
    except ConfigError as error:
        problems.append(str(error))
        settings = settings.model_copy(update={"accelerator": "auto", "precision": "32-true", "devices": 1})
    return problems, settings


def _read_cohort(settings: Config) -> Cohort | None:
    data = settings.data
    if data.participants is None:
        return None
    cohort = kind_of(data).read_cohort(data.participants)
    return cohort.select(data.where) if data.where else cohort


def _count_scans(
    settings: Config, cohort: Cohort | None, n_scans: int | None, clock: Callable[[], float]
) -> _Scans | None:
    data, kind = settings.data, kind_of(settings.data)
    if cohort is None:
        if n_scans is None:
            return None
        n_validation = round(n_scans * data.val_fraction)
        check_split(range(n_scans - n_validation), range(n_validation), settings.training)
        n_bytes = n_scans * kind.bytes_of_image()
        return _Scans(n_scans - n_validation, n_validation, n_missing=n_scans, cache_bytes=n_bytes)
    split = prepare(settings, cohort).data  # refuses what pretrain refuses
    n_training, n_validation = len(split.training_rows), len(split.validation_rows)
    return _Scans(n_training, n_validation, *kind.pending(cohort, clock))


def _measure(
    settings: Config,
    training: TrainingSettings,
    shape: tuple[int, ...],
    seconds: float,
    clock: Callable[[], float],
    progress: Progress,
) -> Throughput:
    encoder = build_model(settings.encoder, seed=settings.seed).encoder
    check_shape(encoder, shape)
    gpus = describe_gpus() if accelerator_of(training) == "cuda" else []
    free = gpus[0]["available_bytes"] if gpus else available_memory()
    work = Work(
        build=lambda: build_model(settings.encoder, seed=settings.seed),
        objective=build_objective(settings.objective),
        views=kind_of(settings.data).views(settings),
        settings=training,
        shape=shape,
        smallest_shape=encoder.smallest_shape,
        seed=settings.seed,
    )
    return measure_throughput(work, seconds=seconds, memory_limit=free, clock=clock, progress=progress)


def _estimate(
    settings: Config,
    shape: tuple[int, ...],
    scans: _Scans | None,
    measured: Throughput,
    machine: Mapping[str, Any],
) -> dict[str, Any]:
    training = settings.training
    on_gpu = measured.device == "cuda"
    # Processes on one CPU share its cores and its memory.
    n_devices, n_here = (training.devices if on_gpu else 1) * training.num_nodes, 1 if on_gpu else training.devices
    # The process's own part of the memory is not among what is available.
    available = machine["gpus"][0]["available_bytes"] if on_gpu else machine["memory"]["available_bytes"]
    own = 0 if on_gpu else resident_memory() or 0
    run: dict[str, Any] = {
        "kind": settings.data.kind,
        "epochs": training.epochs,
        "shape": list(shape),
        "batch_size": training.batch_size,
        "micro_batch_size": training.micro_batch_size,
        "n_devices": n_devices,
        "device": measured.device,
        "samples_per_second": n_devices / measured.training_seconds,
        "memory_bytes": measured.memory_bytes * n_here,
        "memory_available_bytes": None if available is None else available + own,
        # While a checkpoint is written the one that it replaces is still there.
        "run_bytes": (training.keep_checkpoints + 1) * measured.checkpoint_bytes,
        "volume_bytes": kind_of(settings.data).bytes_of_image(),
        "timed": {
            "shape": list(measured.shape),
            "n_scans": measured.n_scans,
            "as_configured": measured.is_as_configured,
        },
    }
    if scans is None:
        return {**run, "n_scans": None}
    return {
        **run,
        "n_scans": scans.n_all,
        "n_training_scans": scans.n_training,
        "n_validation_scans": scans.n_validation,
        "seconds": _seconds(training, scans, measured) / n_devices,
        "n_scans_to_preprocess": scans.n_missing,
        "preprocessing_seconds": scans.preprocessing_seconds,
        "cache_bytes": scans.cache_bytes,
    }


def _seconds(training: TrainingSettings, scans: _Scans, measured: Throughput) -> float:
    """Return the time of a whole run on one device, with what it measures on the way."""
    n_measured = scans.n_validation or min(training.batch_size, scans.n_training)
    epoch = scans.n_training * measured.training_seconds + n_measured * measured.encoding_seconds
    one_view = measured.encoding_seconds / 2
    statistics = min(scans.n_training, MOST_SCANS_OF_STATISTICS) * one_view
    probed = training.epochs // training.probe_every if training.probe_every and scans.n_validation else 0
    return training.epochs * epoch + probed * (statistics + scans.n_all * one_view) + statistics


def _doubt_threads(machine: Mapping[str, Any], settings: Config) -> list[str]:
    n_torch, n_usable = machine["threads"]["n_torch"], machine["processor"]["n_usable"]
    named = ", ".join(f"{name}={value}" for name, value in machine["threads"]["environment"].items())
    found = []
    if n_torch > n_usable:
        found.append(
            f"PyTorch computes with {n_torch} threads on {n_usable} usable cores ({named or 'its own choice'}): they "
            f"wait for one another. Set OMP_NUM_THREADS={n_usable}."
        )
    elif 2 * n_torch <= n_usable and not machine["gpus"]:
        found.append(
            f"PyTorch computes with {n_torch} of {n_usable} usable cores ({named or 'its own choice'}); "
            f"OMP_NUM_THREADS={n_usable} would use them all."
        )
    if settings.data.n_workers > n_usable:
        found.append(f"data.n_workers is {settings.data.n_workers}, on {n_usable} usable cores; use at most as many.")
    return found


def _doubt_room(run: Mapping[str, Any], machine: Mapping[str, Any], how_to_be_smaller: str) -> list[str]:
    found = []
    needed, there = run["memory_bytes"], run["memory_available_bytes"]
    if there is not None and needed > there:
        advice = how_to_be_smaller
        if (run["micro_batch_size"] or run["batch_size"]) > 1:
            advice = "Set training.micro_batch_size lower: the loss stays that of the whole batch."
        where = "GPU" if run["device"] == "cuda" else "machine"
        found.append(
            f"about {as_size(needed)} of memory are needed, and this {where} has {as_size(there)} free. {advice}"
        )
    cache, out, cached = machine["cache"], machine["out"], run.get("cache_bytes", 0)
    shared = cache["device"] == out["device"]
    if cached + (run["run_bytes"] if shared else 0) > cache["free_bytes"]:
        both = f" and the run {as_size(run['run_bytes'])} on the same disk" if shared else ""
        found.append(
            f"the cache needs {as_size(cached)}{both}, and {cache['folder']} has {as_size(cache['free_bytes'])} free. "
            "Set data.cache_dir to a larger disk."
        )
    elif not shared and run["run_bytes"] > out["free_bytes"]:
        found.append(
            f"the run needs {as_size(run['run_bytes'])}, and {out['folder']} has {as_size(out['free_bytes'])} free. "
            "Give another --out, or lower training.keep_checkpoints."
        )
    return found


def _doubt_device(run: Mapping[str, Any], settings: Config) -> list[str]:
    found = []
    if settings.training.accelerator == "cpu" and describe_gpus():
        found.append("training.accelerator is cpu, and there is a GPU here; 'auto' would take it.")
    n_training = run.get("n_training_scans")
    if n_training is not None and n_training < settings.training.batch_size:
        found.append(
            f"training.batch_size is {settings.training.batch_size}, and there are {n_training} training scans: an "
            "epoch is a single step."
        )
    if run["n_devices"] > 1:
        found.append(
            f"one device was measured and {run['n_devices']} are taken to be as fast each; what they tell one another "
            "takes time too."
        )
    return found
