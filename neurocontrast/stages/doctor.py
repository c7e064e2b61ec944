"""Describe the machine, and estimate the cost of a configured run."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from neurocontrast.config import Config, as_config, build_objective
from neurocontrast.data import Cohort
from neurocontrast.data.cache import default_cache_folder
from neurocontrast.encoders import build_model
from neurocontrast.exceptions import ConfigError
from neurocontrast.lazy import is_installed
from neurocontrast.machine import (
    as_duration,
    as_size,
    describe_disk,
    describe_gpus,
    describe_memory,
    describe_processor,
)
from neurocontrast.progress import SILENT, Progress
from neurocontrast.provenance import describe_environment
from neurocontrast.stages.pretrain import build_parts
from neurocontrast.stages.sources import source_of
from neurocontrast.training import TrainingSettings
from neurocontrast.training.distributed import accelerator_of
from neurocontrast.training.estimate import MeasuredStep, measure_step
from neurocontrast.training.session import check_split
from neurocontrast.training.validation import MOST_SCANS_OF_STATISTICS

__all__ = ["Diagnosis", "doctor"]

_EXTRAS = {"images": "kornia", "umap": "umap", "workflow": "snakemake"}


@dataclass(frozen=True)
class Diagnosis:
    """What `doctor` found, JSON-ready."""

    machine: dict[str, Any]
    run: dict[str, Any] | None  # time and memory of the configured run; None where nothing was measured
    problems: list[str] = field(default_factory=list)  # why `pretrain` would refuse this configuration here
    warnings: list[str] = field(default_factory=list)  # what will be slow, or may not fit

    def to_text(self) -> str:
        """Return lines for people."""
        machine, software = self.machine, self.machine["software"]
        git, processor = software["git"], machine["processor"]
        revision = "" if git is None else f" (commit {git['commit'][:8]}{', modified' if git['modified'] else ''})"
        gpus = "; ".join(f"{each['name']}, {_free(each, 'available_bytes')}" for each in machine["gpus"])
        facts = {
            "neurocontrast": f"{software['neurocontrast']}{revision}, Python {software['python']}, "
            + software["platform"],
            "packages": ", ".join(f"{name} {version}" for name, version in software["packages"].items() if version),
            "optional": ", ".join(f"{name} {'yes' if there else 'no'}" for name, there in machine["extras"].items()),
            "processor": f"{processor['name']}, {processor['n_usable']} of {processor['n_cores']} cores usable",
            "threads": f"PyTorch computes with {machine['threads']}",
            "GPU": gpus or "none that PyTorch sees",
            "memory": _free(machine["memory"], "available_bytes"),
            **{f"{name} disk": f"{_free(machine[name], 'free_bytes')} at {machine[name]['folder']}"
               for name in ("cache", "out")},
        }  # fmt: skip
        lines = [f"{name:<15}{text}" for name, text in facts.items()]
        lines += [] if self.run is None else ["", *_run_lines(self.run)]
        lines += [""] if self.problems or self.warnings else []
        lines += [f"problem: {text}" for text in self.problems] + [f"warning: {text}" for text in self.warnings]
        return "\n".join(lines)


def doctor(
    config: Config | Mapping[str, Any] | str | os.PathLike[str] | None = None,
    *,
    out: str | os.PathLike[str] = ".",
    n_scans: int | None = None,
    seconds: float = 10.0,
    clock: Callable[[], float] = time.perf_counter,
    progress: Progress = SILENT,
) -> Diagnosis:
    """Describe this machine, and estimate time and memory of a configured run; write nothing.

    Training steps of the configured network are timed on synthetic images.

    Parameters
    ----------
    config : Config, mapping, path of a YAML file, or None
        Configuration of `pretrain`; the table of ``data.participants`` is read where it is given.
    out : path
        Folder of the run.
    n_scans : int, optional
        Scans of the cohort, where there is no table yet.
    seconds : float
        About how long the measurement may take; 0 measures nothing.
    clock : callable
        Returns the time in seconds.
    progress : Progress
        Receives progress messages.
    """
    settings = as_config({} if config is None else config)
    if not 0 <= seconds < float("inf"):
        raise ConfigError(f"seconds: must be 0 (no measurement) or more, got {seconds:g}.")
    if n_scans is not None and n_scans < 2:
        raise ConfigError(f"n_scans: must be at least 2, got {n_scans}.")
    data, source = settings.data, source_of(settings.data)
    machine = _describe_machine(getattr(data, "cache_dir", None) or default_cache_folder(), Path(out))
    problems = []
    try:
        accelerator = accelerator_of(settings.training)
    except ConfigError as error:
        problems = [str(error)]
    if problems or not seconds or settings.encoder.is_linear:  # which is fitted in one pass: there is no step to time
        return Diagnosis(machine, None, problems, list(_doubts(machine, None)))
    cohort = None if data.participants is None else source.read_cohort(data.participants)
    cohort = cohort.select(data.where) if cohort is not None and data.where else cohort
    counts = _count_scans(settings, cohort, n_scans)
    prepared = source.prepared(cohort)
    shape = prepared.shape(cohort)
    memory = machine["gpus"][0] if accelerator == "cuda" else machine["memory"]
    with progress.task("Timing training steps", None, "steps"):
        step = measure_step(
            lambda: build_model(settings.encoder, n_channels=prepared.n_channels, seed=settings.seed),
            build_objective(settings.objective),
            views=source.views(settings),
            settings=settings.training,
            shape=shape,
            seconds=seconds,
            memory_limit=memory["available_bytes"],
            clock=clock,
        )
    run = {"kind": data.kind, "shape": list(shape), **_estimate(settings.training, counts, step, memory), **counts}
    return Diagnosis(machine, run, problems, list(_doubts(machine, run)))


def _describe_machine(cache: Path, out: Path) -> dict[str, Any]:
    import torch

    software = describe_environment()
    return {
        "software": {name: software[name] for name in ("neurocontrast", "git", "python", "packages", "platform")},
        "extras": {extra: is_installed(module) for extra, module in _EXTRAS.items()},
        "processor": describe_processor(),
        "threads": torch.get_num_threads(),
        "gpus": describe_gpus(),
        "memory": describe_memory(),
        "cache": describe_disk(cache),
        "out": describe_disk(out),
    }


def _count_scans(settings: Config, cohort: Cohort | None, n_scans: int | None) -> dict[str, Any]:
    """Return the scans of both sides of the split; only ``n_scans`` where unknown."""
    if cohort is not None:
        split = build_parts(settings, cohort).data  # refuses what pretrain refuses
        n_training, n_validation = len(split.training_rows), len(split.validation_rows)
    elif n_scans is not None:
        n_validation = round(n_scans * settings.data.val_fraction)
        n_training = n_scans - n_validation
        check_split(range(n_training), range(n_validation), settings.training)
    else:
        return {"n_scans": None}
    counts = {"n_training_scans": n_training, "n_validation_scans": n_validation}
    return {"n_scans": n_training + n_validation, **counts}


def _estimate(
    training: TrainingSettings, counts: Mapping[str, Any], step: MeasuredStep, memory: Mapping[str, int]
) -> dict[str, Any]:
    # Processes on one CPU share its cores and its memory; this process's memory is not among what is available.
    on_gpu = step.device == "cuda"
    n_devices, n_here = (training.devices if on_gpu else 1) * training.num_nodes, 1 if on_gpu else training.devices
    seconds = None
    if counts["n_scans"] is not None:
        n_training, n_validation = counts["n_training_scans"], counts["n_validation_scans"]
        n_measured = n_validation or min(training.batch_size, n_training)
        epoch = n_training * step.training_seconds + n_measured * step.encoding_seconds
        statistics = min(n_training, MOST_SCANS_OF_STATISTICS) * step.encoding_seconds / 2
        n_probes = training.epochs // training.probe_every if training.probe_every and n_validation else 0
        probe = statistics + counts["n_scans"] * step.encoding_seconds / 2
        seconds = (training.epochs * epoch + n_probes * probe + statistics) / n_devices
    return {
        "epochs": training.epochs,
        "batch_size": training.batch_size,
        "micro_batch_size": training.micro_batch_size,
        "n_devices": n_devices,
        "device": step.device,
        "seconds": seconds,
        "samples_per_second": n_devices / step.training_seconds,
        "memory_bytes": step.memory_bytes * n_here,
        "memory_available_bytes": memory["available_bytes"] + memory.get("own_bytes", 0),
        "timed": {"shape": list(step.shape), "n_scans": step.n_samples, "as_configured": step.is_as_configured},
    }


def _doubts(machine: Mapping[str, Any], run: Mapping[str, Any] | None) -> Iterator[str]:
    """Yield what will be slow, or may not fit."""
    n_threads, n_usable = machine["threads"], machine["processor"]["n_usable"]
    if n_threads > n_usable:
        yield f"PyTorch computes with {n_threads} threads on {n_usable} usable cores. Set OMP_NUM_THREADS={n_usable}."
    if run is None:
        return
    needed, there = run["memory_bytes"], run["memory_available_bytes"]
    if needed > there:
        advice = "Set training.micro_batch_size lower: the loss stays that of the whole batch."
        if (run["micro_batch_size"] or run["batch_size"]) == 1:
            advice = "Make the images smaller (data.shape with a larger data.spacing_mm, or images.size)."
        where = "GPU" if run["device"] == "cuda" else "machine"
        yield f"about {as_size(needed)} of memory are needed, and this {where} has {as_size(there)} free. {advice}"
    n_training = run.get("n_training_scans")
    if n_training is not None and n_training < run["batch_size"]:
        n_batch, one = run["batch_size"], "an epoch is a single step"
        yield f"training.batch_size is {n_batch}, and there are {n_training} training scans: {one}."


def _free(place: dict[str, Any], key: str) -> str:
    return f"{as_size(place[key])} of {as_size(place['total_bytes'])} free"


def _run_lines(run: dict[str, Any]) -> Iterator[str]:
    samples, unit = ("images", "pixels") if run["kind"] == "images" else ("scans", "voxels")
    speed = f"{run['samples_per_second']:.3g} samples/s; {as_size(run['memory_bytes'])} of memory"
    if run["n_scans"] is None:
        yield f"This configuration: {speed}. For the time of a run give --participants PARTICIPANTS.tsv, or --scans N."
    else:
        yield f"This run: {run['epochs']} epochs ≈ {as_duration(run['seconds'])} on this machine; {speed}"
        yield f"  {run['n_training_scans']} {samples} to learn from, {run['n_validation_scans']} to measure on"
    shape, timed = "×".join(map(str, run["shape"])), run["timed"]
    yield f"  {run['batch_size']} {samples} of {shape} {unit} a step"
    if not timed["as_configured"]:
        shape = "×".join(map(str, timed["shape"]))
        yield f"  Extrapolated from steps of {timed['n_scans']} {samples} of {shape} {unit}: give more --seconds."
