"""Pretrain an encoder: from a configuration to a run directory; what of a configuration would be refused here."""

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from monai.transforms import Compose, Transform

from neurocontrast.commands.written import Written
from neurocontrast.config import AnyConfig, Config, as_config
from neurocontrast.data.advice import recipe_for
from neurocontrast.data.listing import AnyTable
from neurocontrast.data.sources import AnySource, source_of
from neurocontrast.display import as_progress
from neurocontrast.documents.document import Json
from neurocontrast.documents.encoder import EncoderDescription
from neurocontrast.documents.members import MembersRecord
from neurocontrast.encoders import build_model, check_shape
from neurocontrast.encoders.members import has_members, read_record
from neurocontrast.encoders.weights import SECOND, folder_of_member, save_model
from neurocontrast.exceptions import ConfigError
from neurocontrast.parallel.devices import describe_processor, launched, usable_accelerator
from neurocontrast.parallel.launch import Engine, after_first, joined
from neurocontrast.progress import SILENT, Progress
from neurocontrast.provenance import describe_environment
from neurocontrast.reporting.wording import count_text, number_text
from neurocontrast.runs.answer import keep_answer
from neurocontrast.runs.contracts import contracts_of
from neurocontrast.runs.folder import check_new, read_metrics, read_provenance
from neurocontrast.runs.initial import restore_initial
from neurocontrast.runs.members import (
    SourceOf,
    check_members,
    check_same_number,
    finish_members,
    open_members,
    plan_members,
    settings_of_member,
    start_of_member,
)
from neurocontrast.runs.parts import (
    Parts,
    build_parts,
    follow_run,
    leave_out_unlearnable,
    open_run,
    subjects_of,
)
from neurocontrast.torch_state import in_default_torch_state
from neurocontrast.training import fit
from neurocontrast.training.components import fit_beside, fit_components
from neurocontrast.training.signals import suspending
from neurocontrast.weights import folder_of


class PretrainingRun(Written):
    """The directory of a run; `metrics` has its curves."""

    @property
    def metrics(self) -> pd.DataFrame:
        """One row an epoch: losses and figures of training; empty for a linear encoder.

        Of a run of members, column ``member`` says whose epoch it is.
        """
        if not has_members(self.location):
            return pd.DataFrame(read_metrics(self.location))
        tables = []
        for number in range(len(read_record(self.location).seeds)):
            table = pd.DataFrame(read_metrics(folder_of_member(self.location, number)))
            table.insert(0, "member", number)
            tables.append(table)
        return pd.concat(tables, ignore_index=True)

    def summary(self) -> str:
        """Describe who was learned from, and the figures of the last epoch."""
        cohort = read_provenance(self.location).cohort
        n_scans = cohort.n_scans or 0
        n_people = cohort.n_subjects or n_scans
        title = f"run on {count_text(n_scans, 'scan')} of {n_people:,} people"
        if has_members(self.location):
            n_members = len(read_record(self.location).seeds)
            return f"{title}, {n_members} members"
        table = self.metrics
        if table.empty:
            return title
        last = table.iloc[-1]
        words = [title, count_text(len(table), "epoch")]
        for name in ("train_loss", "val_loss"):
            if name in table:
                words.append(f"{name.replace('_', ' ')} {number_text(last[name])}")
        return ", ".join(words)


@in_default_torch_state
def pretrain(
    config: AnyConfig | None = None,
    *,
    out: str | os.PathLike[str],
    participants: AnyTable | None = None,
    resume: bool = False,
    transforms: Compose | Sequence[Transform] | None = None,
    augment: Callable[[dict[str, Any]], Mapping[str, Any]] | None = None,
    progress: Progress | bool | None = None,
) -> PretrainingRun:
    """Pretrain an encoder on a cohort's scans, or images, and metadata, and return the run directory.

    Everything is checked before the first scan is preprocessed, and nothing is written before that.

    Parameters
    ----------
    config : Config, mapping, path of a YAML file, or None
        Configuration of the run. None, with `resume`, is the run's own.
    out : path
        Run directory to write: ``config.yaml``, ``provenance.json``, ``metrics.csv``,
        ``encoder.safetensors`` ….
    participants : path or DataFrame, optional
        Table of scans, in place of ``data.participants``. A DataFrame must be given again to
        continue.
    resume : bool
        Continue the run in `out`, or begin it if there is none. On a CPU the weights are bit for
        bit those of a run that was never stopped. A run that has skipped scans
        (``data.skip_unreadable``) goes on without them.
    transforms : Compose or sequence of Transform, optional
        Lead from ``{"image": path of a scan}`` to ``{"image": MetaTensor (1, D, H, W)}``, in place
        of the preprocessing in `config`; none of them random. `embed` needs the same ones.
    augment : Compose or Transform, optional
        Random transforms of ``{"image": Tensor (C, D, H, W)}`` that make the views, in place of the
        operations in `config`. See `neurocontrast.transforms.TwoViews`.
    progress : Progress, bool or None
        Receives progress messages; True shows them on standard error, False nothing. None shows
        lines in a terminal or notebook, and warns with `NeurocontrastWarning`.

    Returns
    -------
    PretrainingRun
        The run directory, a path; a notebook shows its last epoch, ``run.metrics`` has all.

    Examples
    --------
    >>> import neurocontrast
    >>> run = neurocontrast.pretrain("yaware", out="runs/first")  # doctest: +SKIP
    """
    progress = as_progress(progress)
    folder = Path(out)
    is_new = (
        check_new(folder, resume=resume)
        if launched().by is None
        else not (folder / "config.yaml").is_file()
    )
    if config is None and is_new:
        raise ConfigError(
            f"config: there is no run in '{folder}' to continue, and only such a run has its own configuration. "
            "Give one, or the directory of a run."
        )
    settings = as_config(folder / "config.yaml" if config is None else config)
    settings = _with_folder_of_init(settings)
    frame = participants if isinstance(participants, pd.DataFrame) else None
    if participants is not None:
        path = None if isinstance(participants, pd.DataFrame) else Path(participants)
        settings = settings.model_copy(
            update={"data": settings.data.model_copy(update={"participants": path})}
        )
    elif settings.data.participants is None:
        raise ConfigError(
            "data.participants: missing. Give the table of scans, participants=participants.tsv."
        )
    training = settings.training
    check_same_number(folder, settings)
    usable_accelerator(
        training.accelerator, training.devices, section="training", training=training.precision
    )
    if settings.encoder.is_linear and training.devices * training.num_nodes > 1:
        raise ConfigError(
            f"training.devices: encoder '{settings.encoder.name}' is fitted by one process. Set devices and "
            "num_nodes to 1."
        )
    given: dict[str, Any] = {
        "transforms": None if transforms is None else Compose(transforms),
        "augment": augment,
    }
    given |= {"frame": frame, "second": settings.second}
    source_of(settings.data, **given)  # refuses transforms for other images
    sections = {"data": transforms, "augment": augment}
    changes = {
        name: getattr(settings, name).with_given()
        for name, each in sections.items()
        if each is not None
    }
    settings = settings.model_copy(update=changes)
    make_source = _sources(**given)
    # Refuses transforms, and needs a package for some images: before anything is written.
    make_source(settings).views(settings.augment, seed=settings.seed)
    with suspending(), joined(settings.training.hardware) as engine:
        shown = progress if engine.processes.is_first else SILENT
        _run_members(settings, make_source, folder, engine, resume=resume, progress=shown)
    return PretrainingRun(folder)


def _with_folder_of_init(settings: Config) -> Config:
    """Return a configuration with the folder of weights that ``training.init`` names."""
    init = settings.training.init
    if init is None:
        return settings
    training = settings.training.model_copy(update={"init": folder_of(init)})
    return settings.model_copy(update={"training": training})


def _sources(**options: Any) -> SourceOf:
    """Return a function that makes the source of samples of a configuration."""
    return lambda settings: source_of(settings.data, **options)


def _run(
    settings: Config,
    source: AnySource,
    folder: Path,
    engine: Engine,
    *,
    resume: bool,
    progress: Progress,
) -> None:
    """Open the run in the first process and then in the others, train, and save the encoder."""
    with ExitStack() as stack:
        is_new, parts = after_first(
            engine.processes,
            lambda: open_run(settings, source, folder, stack, resume=resume, progress=progress),
            lambda known: follow_run(settings, source, known),
        )
        if parts is None:
            progress.message(f"{folder}: this run is finished; there is nothing to continue.")
            return
        if settings.training.init is not None:
            restore_initial(parts.model.halves[0], folder)
        if parts.objective is None:
            facts = fit_components(
                parts.model.encoder,
                parts.data,
                subjects_of(parts.cohort, parts.data.training_rows),
                seed=settings.seed,
                progress=progress,
            )
            _save(folder, parts, contracts_of(settings, parts, folder, facts), progress)
            return
        contracts = contracts_of(settings, parts, folder, {})
        result = fit(
            parts.model,
            parts.objective,
            parts.source.views(settings.augment, seed=settings.seed),
            parts.data,
            settings=settings.training,
            seed=settings.seed,
            folder=folder,
            resume=not is_new,
            progress=progress,
            engine=engine,
        )
        if engine.processes.is_first:
            if settings.encoder.beside is not None:
                beside = fit_beside(
                    parts.model.encoder,
                    parts.data,
                    subjects_of(parts.cohort, parts.data.training_rows),
                    seed=settings.seed,
                    progress=progress,
                )
                contracts[0] = contracts[0].with_keys(beside=beside)
            _save(folder, parts, contracts, progress, batchnorm=result.batchnorm)


def _run_members(
    settings: Config,
    source_of_run: SourceOf,
    folder: Path,
    engine: Engine,
    *,
    resume: bool,
    progress: Progress,
) -> None:
    """Train a run, or its members one after the other, each as a run of its own."""
    if settings.training.members == 1:
        source = source_of_run(settings)
        _run(settings, source, folder, engine, resume=resume, progress=progress)
        return
    processes = engine.processes
    with ExitStack() as stack:

        def begin() -> tuple[MembersRecord, dict[str, object]]:
            record = open_members(
                settings, source_of_run, folder, stack, resume=resume, progress=progress
            )
            return record, record.model_dump(mode="json")

        record = after_first(processes, begin, MembersRecord.model_validate)
        for number in range(len(record.seeds)):
            member = settings_of_member(settings, record, number)
            progress.message(f"{folder}: member {number + 1} of {len(record.seeds)}.")
            _run(
                member,
                source_of_run(member),
                folder_of_member(folder, number),
                engine,
                resume=True,
                progress=progress,
            )
        if processes.is_first:
            finish_members(folder, settings, record, source_of_run)
            progress.message(f"{folder}: all {len(record.seeds)} members are trained.")


def _save(
    folder: Path,
    parts: Parts,
    contracts: Sequence[EncoderDescription],
    progress: Progress,
    **facts: Json,
) -> None:
    """Write the known answer of each of a run's encoders, and then the encoders, with which the run is finished."""
    for place, half, source in zip(
        (folder, folder / SECOND), parts.model.halves, parts.source.halves, strict=False
    ):
        keep_answer(place, half.encoder, source, parts.cohort, parts.data.training_rows, progress)
    save_model(
        folder, parts.model, contracts, run=folder, heads=parts.objective is not None, **facts
    )
    progress.message(f"{folder}: finished.")


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
    settings = _with_folder_of_init(as_config({} if config is None else config))
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
    parts = build_parts(start_of_member(settings, 0), cohort)
    counts = {
        "n_training_scans": len(parts.data.training_rows),
        "n_validation_scans": len(parts.data.validation_rows),
    }
    if len(skipped):
        counts["n_skipped"] = len(skipped)
    if training.members > 1:
        counts["n_members"] = training.members
        record = plan_members(settings, cohort)
        check_members(settings, record, _sources(), cohort)
    shape = (
        [len(parts.source.measures)] if parts.source.measures else list(parts.source.shape(cohort))
    )
    advice = recipe_for(cohort.table, kind=data.kind)
    suited = {"advice": shlex.join(advice.words), "because": advice.because}
    return Diagnosis(machine, run | {"shape": shape} | counts | suited)
