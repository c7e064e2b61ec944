"""Describe the machine, and say what of a configuration `pretrain` would refuse here."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from neurocontrast.config import Config, as_config
from neurocontrast.data.sources import source_of
from neurocontrast.encoders import build_model, check_shape
from neurocontrast.exceptions import ConfigError
from neurocontrast.parallel.devices import describe_processor, usable_accelerator
from neurocontrast.provenance import describe_environment
from neurocontrast.runs.parts import build_parts

__all__ = ["Diagnosis", "doctor"]

_MANY_SCANS = 1000


@dataclass(frozen=True)
class Diagnosis:
    """What `doctor` found, JSON-ready."""

    machine: dict[str, Any]
    run: dict[str, Any] | None
    """Encoder, device, shape and numbers of scans of the configured run; None where it is refused here."""
    problems: list[str] = field(default_factory=list)
    """Why `pretrain` would refuse this configuration on this machine."""

    def to_text(self) -> str:
        """Return lines for people."""
        machine, run = self.machine, self.run
        processor, packages = machine["processor"], machine["packages"].items()
        lines = [
            f"neurocontrast  {machine['neurocontrast']}, Python {machine['python']}, {machine['platform']}",
            f"packages       {', '.join(f'{name} {version}' for name, version in packages if version)}",
            f"processor      {processor['name']}, {processor['n_usable']} of {processor['n_cores']} cores usable",
            f"threads        PyTorch computes with {machine['threads']}",
            f"GPU            {', '.join(machine['gpus']) or 'none that PyTorch sees'}",
        ]
        if run is not None:
            shape = run["shape"]
            sample = f"{shape[0]} measures a person" if len(shape) == 1 else f"{'×'.join(map(str, shape))} a sample"
            lines += ["", f"This run: {run['encoder']} on {run['device']}, {sample}"]
        if run is not None and "n_training_scans" in run:
            lines += [f"  {run['n_training_scans']:,} to learn from, {run['n_validation_scans']:,} to measure on"]
            if run["kind"] == "volumes":
                suited = "densenet121" if run["n_training_scans"] >= _MANY_SCANS else "lda, pca or densenet_small"
                lines += [f"  Suited to this number of scans: {suited}."]
        return "\n".join([*lines, *(f"problem: {text}" for text in self.problems)])


def doctor(config: Config | Mapping[str, Any] | str | os.PathLike[str] | None = None) -> Diagnosis:
    """Describe this machine, and check a configuration and its table as `pretrain` would; write nothing.

    Parameters
    ----------
    config : Config, mapping, path of a YAML file, or None
        Configuration of `pretrain`; the table of ``data.participants`` is read where it is given.
    """
    settings = as_config({} if config is None else config)
    data, training, source = settings.data, settings.training, source_of(settings.data)
    software = {name: describe_environment()[name] for name in ("neurocontrast", "python", "packages", "platform")}
    machine = {**software, "processor": describe_processor(), "threads": torch.get_num_threads()}
    machine["gpus"] = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    try:
        device = usable_accelerator(
            training.accelerator, training.devices, section="training", training=training.precision
        )
    except ConfigError as error:
        return Diagnosis(machine, None, [str(error)])
    run = {"kind": data.kind, "encoder": settings.encoder.name}
    run["device"] = "cpu" if settings.encoder.is_linear else device
    cohort = None if data.participants is None else source.read_cohort(data.participants)
    if cohort is None:
        prepared = source.prepared(None)
        check_shape(build_model(settings.encoder, n_channels=prepared.n_channels).encoder, prepared.shape(None))
        return Diagnosis(machine, run | {"shape": list(prepared.shape(None))})
    cohort = cohort.select(data.where)
    parts = build_parts(settings, cohort)
    counts = {"n_training_scans": len(parts.data.training_rows), "n_validation_scans": len(parts.data.validation_rows)}
    shape = [len(parts.source.measures)] if parts.source.measures else list(parts.source.shape(cohort))
    return Diagnosis(machine, run | {"shape": shape} | counts)
