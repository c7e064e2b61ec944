"""Describe the machine, and say what of a configuration `pretrain` would refuse here."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from neurocontrast.config import Config, DataSettings, as_config
from neurocontrast.data.cache import default_cache_folder
from neurocontrast.data.sources import source_of
from neurocontrast.encoders import build_model, check_shape
from neurocontrast.exceptions import ConfigError
from neurocontrast.parallel.devices import describe_gpus, describe_processor, usable_accelerator
from neurocontrast.provenance import describe_environment
from neurocontrast.resources import as_size, describe_memory
from neurocontrast.runs.parts import build_parts

__all__ = ["Diagnosis", "doctor"]

_MANY_SCANS = 1000


@dataclass(frozen=True)
class Diagnosis:
    """What `doctor` found, JSON-ready."""

    machine: dict[str, Any]
    run: dict[str, Any] | None  # encoder, shape and scans of the configured run; None where it is refused here
    problems: list[str] = field(default_factory=list)  # why `pretrain` would refuse this configuration here

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
        return "\n".join([*lines, *(f"problem: {text}" for text in self.problems)])


def doctor(config: Config | Mapping[str, Any] | str | os.PathLike[str] | None = None) -> Diagnosis:
    """Describe this machine, and check a configuration and its table as `pretrain` would; write nothing.

    Parameters
    ----------
    config : Config, mapping, path of a YAML file, or None
        Configuration of `pretrain`; the table of ``data.participants`` is read where it is given.
    """
    settings = as_config({} if config is None else config)
    data, source = settings.data, source_of(settings.data)
    machine = _describe_machine()
    machine["cache"] = _describe_cache(data) if isinstance(data, DataSettings) else None
    try:
        training = settings.training
        accelerator = usable_accelerator(
            training.accelerator, training.devices, section="training", training=training.precision
        )
    except ConfigError as error:
        return Diagnosis(machine, None, [str(error)])
    run = {"kind": data.kind, "encoder": settings.encoder.name}
    run["device"] = "cpu" if settings.encoder.is_linear else accelerator
    cohort = None if data.participants is None else source.read_cohort(data.participants)
    if cohort is None:
        prepared = source.prepared(None)
        check_shape(build_model(settings.encoder, n_channels=prepared.n_channels).encoder, prepared.shape(None))
        return Diagnosis(machine, run | {"shape": list(prepared.shape(None))})
    cohort = cohort.select(data.where) if data.where else cohort
    parts = build_parts(settings, cohort)
    counts = {"n_training_scans": len(parts.data.training_rows), "n_validation_scans": len(parts.data.validation_rows)}
    shape = [len(parts.source.measures)] if parts.source.measures else list(parts.source.shape(cohort))
    return Diagnosis(machine, run | {"shape": shape} | counts)


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
    sizes = [path.stat().st_size for path in folder.glob("*-float*/[0-9a-f]*.safetensors")]
    return {"folder": str(folder), "n_entries": len(sizes), "n_bytes": sum(sizes)}


def _free(memory: dict[str, int]) -> str:
    return f"{as_size(memory['available_bytes'])} of {as_size(memory['total_bytes'])} free"


def _run_lines(run: dict[str, Any]) -> Iterator[str]:
    samples = "images" if run["kind"] == "images" else "scans"
    unit = {"images": "pixels", "measures": "measures"}.get(run["kind"], "voxels")
    yield f"This run: {run['encoder']} on {run['device']}, {samples} of {'×'.join(map(str, run['shape']))} {unit}"
    n_training = run.get("n_training_scans")
    if n_training is None:
        return
    yield f"  {n_training:,} {samples} to learn from, {run['n_validation_scans']:,} to measure on"
    if run["kind"] == "volumes":
        suits = n_training >= _MANY_SCANS
        advice = "densenet121 suits" if suits else "begin with encoder.name: lda, pca or densenet_small"
        yield f"  With {n_training:,} scans to learn from, {advice} (see benchmarks/README.md)."
