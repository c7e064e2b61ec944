"""Describe this machine, and say if `pretrain` would refuse a configuration here."""

import shlex
from dataclasses import dataclass, field
from typing import Any

import torch

from neurocontrast.config import AnyConfig, as_config
from neurocontrast.data.advice import recipe_for
from neurocontrast.data.sources import source_of
from neurocontrast.encoders import build_model, check_shape
from neurocontrast.exceptions import ConfigError
from neurocontrast.parallel.devices import describe_processor, usable_accelerator
from neurocontrast.progress import SILENT
from neurocontrast.provenance import describe_environment
from neurocontrast.runs.components import build_components
from neurocontrast.runs.inputs import with_folder_of_init
from neurocontrast.runs.members import check_members, plan_members, start_of_member
from neurocontrast.runs.skipped import leave_out_unlearnable
from neurocontrast.torch_state import in_default_torch_state


@dataclass(frozen=True)
class Diagnosis:
    """Findings of `doctor`, JSON-ready."""

    machine: dict[str, Any]
    run: dict[str, Any] | None
    """Encoder, device, shape and numbers of scans of the configured run; None where it is refused here."""
    problems: list[str] = field(default_factory=list)
    """Why `pretrain` would refuse this configuration on this machine."""

    def to_text(self) -> str:
        """Return lines for people."""
        machine = self.machine
        run = self.run
        processor = machine["processor"]
        packages = machine["packages"].items()
        lines = [
            f"neurocontrast  {machine['neurocontrast']}, Python {machine['python']}, {machine['platform']}",
            f"packages       {', '.join(f'{name} {version}' for name, version in packages if version)}",
            f"processor      {processor['name']}, {processor['n_usable']} of {processor['n_cores']} cores usable",
            f"threads        PyTorch computes with {machine['threads']}",
            f"GPU            {', '.join(machine['gpus']) or 'none that PyTorch sees'}",
        ]
        if run is not None:
            shape = run["shape"]
            sample = (
                f"{shape[0]} measures a person"
                if len(shape) == 1
                else f"{'×'.join(map(str, shape))} a sample"
            )
            lines += ["", f"This run: {run['encoder']} on {run['device']}, {sample}"]
        if run is not None and "n_training_scans" in run:
            lines += [
                f"  {run['n_training_scans']:,} to learn from, {run['n_validation_scans']:,} to measure on"
            ]
            lines += [f"  Recipe for this table: {run['advice']} ({run['because']})."]
            if "n_members" in run:
                lines.append(
                    f"  {run['n_members']} members (training.members), one after the other"
                )
            if "n_skipped" in run:
                lines.append(f"  {run['n_skipped']:,} left out (data.skip_unreadable)")
        return "\n".join([*lines, *(f"problem: {text}" for text in self.problems)])


@in_default_torch_state
def doctor(config: AnyConfig | None = None) -> Diagnosis:
    """Describe this machine, and check a configuration and its table as `pretrain` would; write nothing.

    Parameters
    ----------
    config : Config, mapping, path of a YAML file, or None
        Configuration of `pretrain`; the table of ``data.participants`` is read where it is given.
    """
    settings = with_folder_of_init(as_config({} if config is None else config))
    data = settings.data
    training = settings.training
    source = source_of(settings.data)
    software = {
        name: describe_environment()[name]
        for name in ("neurocontrast", "python", "packages", "platform")
    }
    machine = {**software, "processor": describe_processor(), "threads": torch.get_num_threads()}
    machine["gpus"] = [
        torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())
    ]
    try:
        device = usable_accelerator(
            training.accelerator, training.devices, section="training", training=training.precision
        )
    except ConfigError as error:
        return Diagnosis(machine, None, [str(error)])
    run: dict[str, str] = {"kind": data.kind, "encoder": settings.encoder.name}
    run["device"] = "cpu" if settings.encoder.is_linear else device
    cohort = None if data.participants is None else source.read_cohort(data.participants)
    if cohort is None:
        prepared = source.prepared(None)
        check_shape(
            build_model(settings.encoder, n_channels=prepared.n_channels).encoder,
            prepared.shape(None),
        )
        return Diagnosis(machine, run | {"shape": list(prepared.shape(None))})
    cohort, skipped = leave_out_unlearnable(settings, source, cohort.select(data.where), SILENT)
    components = build_components(start_of_member(settings, 0), cohort)
    counts = {
        "n_training_scans": len(components.data.training_rows),
        "n_validation_scans": len(components.data.validation_rows),
    }
    if len(skipped):
        counts["n_skipped"] = len(skipped)
    if training.members > 1:
        counts["n_members"] = training.members
        record = plan_members(settings, cohort)
        check_members(settings, record, cohort)
    shape = list(components.source.shape(cohort))
    if components.source.measures:
        shape = [len(components.source.measures)]
    advice = recipe_for(cohort.table, kind=data.kind)
    suited = {"advice": shlex.join(advice.words), "because": advice.because}
    return Diagnosis(machine, run | {"shape": shape} | counts | suited)
