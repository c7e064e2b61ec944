"""Describe the machine, and estimate time and memory of a configured run from a timed training step."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import torch

from neurocontrast.config import Config, DataSettings, as_config, build_objective
from neurocontrast.data import Cohort
from neurocontrast.data.cache import default_cache_folder
from neurocontrast.encoders import build_model, check_shape
from neurocontrast.exceptions import ConfigError
from neurocontrast.machine import describe_gpus, describe_processor, keeping_freed_memory
from neurocontrast.progress import SILENT, Progress
from neurocontrast.provenance import describe_environment
from neurocontrast.resources import as_duration, as_size, describe_memory
from neurocontrast.stages.pretrain import build_parts
from neurocontrast.stages.sources import source_of
from neurocontrast.training import TrainingSettings
from neurocontrast.training.distributed import accelerator_of
from neurocontrast.training.session import Position, Session, TrainingData, Views, check_split, deterministic
from neurocontrast.training.steps import train_batches

__all__ = ["Diagnosis", "doctor"]

_BESIDE_GRAPH = 1.3
"""Peak memory over the memory of the graph: gradients of activations, and workspaces of convolutions."""
_READ_AHEAD = 3
"""Batches of images in memory beside the batch under way, at most."""
_MANY_SCANS = 1000


@dataclass(frozen=True)
class Diagnosis:
    """What `doctor` found, JSON-ready."""

    machine: dict[str, Any]
    run: dict[str, Any] | None  # time and memory of the configured run; None where nothing was measured
    problems: list[str] = field(default_factory=list)  # why `pretrain` would refuse this configuration here
    warnings: list[str] = field(default_factory=list)  # what may not fit

    def to_text(self) -> str:
        """Return lines for people."""
        machine, software = self.machine, self.machine["software"]
        processor, gpus = machine["processor"], [f"{each['name']}, {_free(each)}" for each in machine["gpus"]]
        facts = {
            "neurocontrast": f"{software['neurocontrast']}, Python {software['python']}, {software['platform']}",
            "packages": ", ".join(f"{name} {version}" for name, version in software["packages"].items() if version),
            "processor": f"{processor['name']}, {processor['n_usable']} of {processor['n_cores']} cores usable",
            "threads": f"PyTorch computes with {machine['threads']}",
            "GPU": "; ".join(gpus) or "none that PyTorch sees",
            "memory": _free(machine["memory"]),
        }
        if cache := machine.get("cache"):
            facts["cache"] = f"{as_size(cache['n_bytes'])} in {cache['n_entries']:,} entries: {cache['folder']}"
        lines = [f"{name:<15}{text}" for name, text in facts.items()]
        lines += [] if self.run is None else ["", *_run_lines(self.run)]
        lines += [""] if self.problems or self.warnings else []
        lines += [f"problem: {text}" for text in self.problems] + [f"warning: {text}" for text in self.warnings]
        return "\n".join(lines)


def doctor(
    config: Config | Mapping[str, Any] | str | os.PathLike[str] | None = None,
    *,
    n_scans: int | None = None,
    seconds: float = 10.0,
    progress: Progress = SILENT,
) -> Diagnosis:
    """Describe this machine, and estimate time and memory of a run from steps on synthetic images; write nothing.

    Parameters
    ----------
    config : Config, mapping, path of a YAML file, or None
        Configuration of `pretrain`; the table of ``data.participants`` is read where it is given.
    n_scans : int, optional
        Scans of the cohort, where there is no table yet.
    seconds : float
        About how long the measurement may take; 0 measures nothing.
    progress : Progress
        Receives progress messages.
    """
    settings = as_config({} if config is None else config)
    if not 0 <= seconds < float("inf"):
        raise ConfigError(f"seconds: must be 0 (no measurement) or more, got {seconds:g}.")
    if n_scans is not None and n_scans < 2:
        raise ConfigError(f"n_scans: must be at least 2, got {n_scans}.")
    data, source = settings.data, source_of(settings.data)
    machine = _describe_machine()
    machine["cache"] = _describe_cache(data) if isinstance(data, DataSettings) else None
    try:
        accelerator = accelerator_of(settings.training)
    except ConfigError as error:
        return Diagnosis(machine, None, [str(error)])
    if not seconds:
        return Diagnosis(machine, None)
    cohort = None if data.participants is None else source.read_cohort(data.participants)
    cohort = cohort.select(data.where) if cohort is not None and data.where else cohort
    run = {"kind": data.kind, "encoder": settings.encoder.name, "is_linear": settings.encoder.is_linear}
    run |= _count_scans(settings, cohort, n_scans)
    prepared = source.prepared(cohort)
    shape, n_channels = prepared.shape(cohort), prepared.n_channels
    run |= {"shape": list(shape), "device": "cpu" if run["is_linear"] else accelerator}
    memory = machine["gpus"][0] if run["device"] == "cuda" else machine["memory"]
    # This process's memory is not among what is available.
    run["memory_available_bytes"] = memory["available_bytes"] + memory.get("own_bytes", 0)
    if run["is_linear"]:  # all scans are in memory, and their varying voxels a second time
        n_values = run.get("n_training_scans", 0) * n_channels * math.prod(shape)
        run["memory_bytes"] = 2 * torch.float32.itemsize * n_values
    else:
        with progress.task("Timing training steps", None, "steps"):
            views, free = source.views(settings), memory["available_bytes"]
            measured = _measure(settings, views, n_channels, shape, seconds=seconds, free=free)
        run |= _estimate(settings.training, run, *measured)
    return Diagnosis(machine, run, warnings=_doubts(run))


def _describe_machine() -> dict[str, Any]:
    software = describe_environment()
    return {
        "software": {name: software[name] for name in ("neurocontrast", "git", "python", "packages", "platform")},
        "processor": describe_processor(),
        "threads": torch.get_num_threads(),
        "gpus": describe_gpus(),
        "memory": describe_memory(),
    }


def _describe_cache(data: DataSettings) -> dict[str, Any]:
    folder = default_cache_folder() if data.cache_dir is None else data.cache_dir.expanduser().absolute()
    sizes = [path.stat().st_size for path in folder.glob("*-float*/??/[0-9a-f]*.safetensors")]
    return {"folder": str(folder), "n_entries": len(sizes), "n_bytes": sum(sizes)}


def _count_scans(settings: Config, cohort: Cohort | None, n_scans: int | None) -> dict[str, Any]:
    """Return the scans of both sides of the split; only ``n_scans`` where unknown."""
    if cohort is not None:
        split = build_parts(settings, cohort).data  # refuses what pretrain refuses
        n_training, n_validation = len(split.training_rows), len(split.validation_rows)
    elif n_scans is not None:
        n_validation = round(n_scans * settings.data.val_fraction)
        n_training = n_scans - n_validation
        if not settings.encoder.is_linear:
            check_split(range(n_training), range(n_validation), settings.training)
    else:
        return {"n_scans": None}
    return {"n_scans": n_training + n_validation, "n_training_scans": n_training, "n_validation_scans": n_validation}


def _measure(
    settings: Config, views: Views, n_channels: int, shape: tuple[int, ...], *, seconds: float, free: int
) -> tuple[tuple[int, ...], float, int]:
    """Time a small training step on synthetic images, and the configured one where time and memory allow it.

    Returns samples and shape of the step, its seconds for a sample of the configured shape, and the memory that the
    configured step needs. Time and memory are taken to be in proportion to samples × voxels.
    """
    training, end = settings.training, perf_counter() + seconds
    encoder = build_model(settings.encoder, n_channels=n_channels).encoder
    check_shape(encoder, shape)
    n_samples = _samples_of_a_step(training)
    n_in_graph = min(training.micro_batch_size or n_samples, n_samples)
    small = tuple(min(n, max(encoder.smallest_shape, n // 4)) for n in shape)

    def rate_of(n: int, *size: int) -> float:
        session = _open(settings, views, n_channels, size, n)
        _train(session)  # warms up
        start = perf_counter()
        _train(session)
        return (perf_counter() - start) / (n * math.prod(size))

    with deterministic(), keeping_freed_memory():
        in_one_pass = settings.model_copy(update={"training": training.model_copy(update={"micro_batch_size": None})})
        fixed, per_voxel = _memory_of(_open(in_one_pass, views, n_channels, small, 2), 2 * math.prod(small))
        n_bytes = int(fixed + per_voxel * n_in_graph * math.prod(shape))
        timed = (2, *small)
        rate = rate_of(*timed)
        # Each step is taken twice, and 80 % of the free memory may be used.
        if perf_counter() + 2 * rate * n_samples * math.prod(shape) < end and n_bytes < 0.8 * free:
            timed = (n_samples, *shape)
            rate = rate_of(*timed)
    return timed, rate * math.prod(shape), n_bytes


def _samples_of_a_step(training: TrainingSettings) -> int:
    """Return the samples of a step that one of several devices has."""
    return max(2, math.ceil(training.batch_size / (training.devices * training.num_nodes)))


def _open(settings: Config, views: Views, n_channels: int, shape: tuple[int, ...], n_samples: int) -> Session:
    """Start a session of synthetic images, with as many passes over the network as in the run."""
    objective = build_objective(settings.objective)
    n_outputs = None if objective.contrasts else 2  # of two classes, as the synthetic columns have
    model = build_model(settings.encoder, n_channels=n_channels, n_outputs=n_outputs, seed=settings.seed)
    noise = torch.rand((model.encoder.n_channels, *shape), generator=torch.Generator().manual_seed(0))
    kinds = {"continuous": torch.linspace(20, 80, n_samples)}
    data = TrainingData(
        images=[{"image": noise, "index": row} for row in range(n_samples)],
        names=[f"synthetic {row}" for row in range(n_samples)],
        metadata={name: kinds.get(kind, torch.arange(n_samples) % 2) for name, kind in objective.columns.items()},
        training_rows=range(n_samples),
    )
    training, micro = settings.training, settings.training.micro_batch_size
    micro = min(micro, n_samples // 2) if micro is not None and micro < training.batch_size else None
    changes = {"devices": 1, "num_nodes": 1, "sampling": "shuffle", "micro_batch_size": micro}
    session = Session(model, objective, views, data, settings=training.model_copy(update=changes), seed=0)
    session.model.train()
    return session


def _memory_of(session: Session, n_voxels: int) -> tuple[int, float]:
    """Return the bytes held after a step, and the bytes of its graph and images for each voxel."""
    weights = {each.untyped_storage().data_ptr() for each in session.model.parameters()}
    graph: dict[int, int] = {}

    def note(tensor: torch.Tensor) -> torch.Tensor:
        graph[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        _train(session)
    n_bytes = _BESIDE_GRAPH * sum(size for place, size in graph.items() if place not in weights) / n_voxels
    if session.fabric.device.type == "cuda":
        return torch.cuda.memory_allocated(), n_bytes
    read_ahead = _READ_AHEAD * torch.float32.itemsize * session.model.encoder.n_channels
    return describe_memory()["own_bytes"], n_bytes + read_ahead


def _train(session: Session) -> None:
    for _ in train_batches(session, [session.data.training_rows], Position()):
        pass
    if session.fabric.device.type == "cuda":
        torch.cuda.synchronize()


def _estimate(
    training: TrainingSettings, run: Mapping[str, Any], timed: tuple[int, ...], seconds: float, n_bytes: int
) -> dict[str, Any]:
    """Return time and memory of a run from `seconds` of a sample in training; all devices are as fast as one."""
    # Processes on one CPU share its cores and its memory.
    on_gpu, n_samples = run["device"] == "cuda", _samples_of_a_step(training)
    n_devices, n_here = (training.devices if on_gpu else 1) * training.num_nodes, 1 if on_gpu else training.devices
    total = None
    if run["n_scans"] is not None:
        n_training = run["n_training_scans"]
        n_measured = run["n_validation_scans"] or min(training.batch_size, n_training)
        # A backward pass takes about as long as two forward passes; micro-batches pass forward once more.
        n_passes = 3 if (training.micro_batch_size or n_samples) >= n_samples else 4
        total = training.epochs * (n_training + n_measured / n_passes) * seconds / n_devices
    return {
        **{key: getattr(training, key) for key in ("epochs", "batch_size", "micro_batch_size")},
        "n_devices": n_devices,
        "seconds": total,
        "samples_per_second": n_devices / seconds,
        "memory_bytes": n_bytes * n_here,
        "timed": {"n_scans": timed[0], "shape": [*timed[1:]], "as_configured": timed == (n_samples, *run["shape"])},
    }


def _doubts(run: Mapping[str, Any]) -> list[str]:
    """Return a warning where the memory does not suffice."""
    needed, there = run["memory_bytes"], run["memory_available_bytes"]
    if needed <= there:
        return []
    advice = "Set training.micro_batch_size lower: the loss stays that of the whole batch."
    if run["is_linear"] or (run["micro_batch_size"] or run["batch_size"]) == 1:
        advice = "Make the images smaller (data.shape with a larger data.spacing_mm, or images.size)."
    where = "GPU" if run["device"] == "cuda" else "machine"
    return [f"about {as_size(needed)} of memory are needed, and this {where} has {as_size(there)} free. {advice}"]


def _free(memory: dict[str, int]) -> str:
    return f"{as_size(memory['available_bytes'])} of {as_size(memory['total_bytes'])} free"


def _run_lines(run: dict[str, Any]) -> Iterator[str]:
    samples, unit = ("images", "pixels") if run["kind"] == "images" else ("scans", "voxels")
    shape, n_training = "×".join(map(str, run["shape"])), run.get("n_training_scans")
    ask = "give --participants PARTICIPANTS.tsv, or --scans N."
    if run["is_linear"]:
        yield f"encoder.name: {run['encoder']}: nothing is trained; all {samples} are in memory, {shape} {unit} each"
        size = f"{n_training} {samples} take up to {as_size(run['memory_bytes'])}" if n_training else ""
        yield f"  {size or f'For their memory {ask}'}"
    else:
        speed = f"{run['samples_per_second']:.3g} samples/s; {as_size(run['memory_bytes'])} of memory"
        if n_training is None:
            yield f"This configuration: {speed}. For the time of a run {ask}"
        else:
            yield f"This run: {run['epochs']} epochs ≈ {as_duration(run['seconds'])} on this machine; {speed}"
            yield f"  {n_training} {samples} to learn from, {run['n_validation_scans']} to measure on"
        yield f"  {run['batch_size']} {samples} of {shape} {unit} a step"
        timed, shape = run["timed"], "×".join(map(str, run["timed"]["shape"]))
        if not timed["as_configured"]:
            yield f"  Extrapolated from steps of {timed['n_scans']} {samples} of {shape} {unit}: give more --seconds."
    if n_training and run["kind"] == "volumes":
        advice = (
            "densenet121 suits" if n_training >= _MANY_SCANS else "begin with encoder.name: lda, pca or densenet_small"
        )
        yield f"  With {n_training:,} scans to learn from, {advice} (see benchmarks/README.md)."
