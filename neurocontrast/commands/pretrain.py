"""Pretrain an encoder: from a configuration to a run directory."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pandas as pd
from lightning_fabric import Fabric
from lightning_fabric.loggers import Logger
from monai.transforms import Compose, Transform

from neurocontrast.config import Config, as_config
from neurocontrast.data.listing import AnyTable
from neurocontrast.data.sources import AnySource, source_of
from neurocontrast.display import as_progress
from neurocontrast.encoders.weights import SECOND, save_model
from neurocontrast.exceptions import ConfigError
from neurocontrast.parallel.collectives import Processes
from neurocontrast.parallel.devices import launched, usable_accelerator
from neurocontrast.parallel.launch import after_first, joined
from neurocontrast.progress import SILENT, Progress
from neurocontrast.runs.answer import keep_answer
from neurocontrast.runs.folder import check_new
from neurocontrast.runs.initial import restore_initial
from neurocontrast.runs.parts import Parts, contracts_of, fit_in_one_pass, follow_run, open_run
from neurocontrast.training import fit
from neurocontrast.training.loop import suspending

__all__ = ["pretrain"]

_OF_THE_MACHINE = {
    *("participants", "images_root", "where", "vectors"),
    *("cache_dir", "cache_shared", "n_workers"),
}


def pretrain(
    config: Config | Mapping[str, Any] | str | os.PathLike[str] | None = None,
    *,
    out: str | os.PathLike[str],
    participants: AnyTable | None = None,
    resume: bool = False,
    transforms: Compose | Sequence[Transform] | None = None,
    augment: Callable[[dict[str, Any]], Mapping[str, Any]] | None = None,
    loggers: Sequence[Logger] = (),
    progress: Progress | bool = SILENT,
) -> Path:
    """Pretrain an encoder on a cohort's scans, or images, and metadata, and return the path of the run directory.

    Everything is checked before the first scan is preprocessed, and nothing is written before that.

    Parameters
    ----------
    config : Config, mapping, path of a YAML file, or None
        Configuration of the run. None, with `resume`, is the run's own.
    out : path
        Run directory to write: ``config.yaml``, ``provenance.json``, ``metrics.csv``, ``encoder.safetensors`` ….
    participants : path or DataFrame, optional
        Table of scans, in place of ``data.participants``. A DataFrame must be given again to continue.
    resume : bool
        Continue the run in `out`, or begin it if there is none. On a CPU the weights are bit for bit those of a run
        that was never stopped. A run that skips scans (``data.skip_unreadable``) must skip the same ones again.
    transforms : Compose or sequence of Transform, optional
        Lead from ``{"image": path of a scan}`` to ``{"image": MetaTensor (1, D, H, W)}``, in place of the preprocessing
        in `config`; none of them random. `embed` needs the same ones.
    augment : Compose or Transform, optional
        Random transforms of ``{"image": Tensor (C, D, H, W)}`` that make the views, in place of the operations in
        `config`. See `neurocontrast.transforms.TwoViews`.
    loggers : sequence of lightning.fabric.loggers.Logger
        Loggers of each epoch's figures, next to ``metrics.csv``, such as Fabric's ``TensorBoardLogger`` or Lightning's
        ``MLFlowLogger`` and ``WandbLogger``.
    progress : Progress or bool
        Receives progress messages; True shows them on standard error.

    Examples
    --------
    >>> import neurocontrast
    >>> run = neurocontrast.pretrain("yaware", out="runs/first")  # doctest: +SKIP
    """
    progress = as_progress(progress)
    folder = Path(out)
    is_new = check_new(folder, resume=resume) if launched().by is None else not (folder / "config.yaml").is_file()
    settings, source = _resolve(config, folder, participants, transforms, augment, is_new=is_new)
    with suspending(), joined(**settings.training.of_launch) as engine:
        shown = progress if engine[1].is_first else SILENT
        _run(settings, source, folder, engine, resume=resume, loggers=loggers, progress=shown)
    return folder


def _resolve(
    config: Config | Mapping[str, Any] | str | os.PathLike[str] | None,
    folder: Path,
    participants: AnyTable | None,
    transforms: Compose | Sequence[Transform] | None,
    augment: Any,
    *,
    is_new: bool,
) -> tuple[Config, AnySource]:
    """Return the whole configuration and the images it describes, or refuse what no machine or this one could train."""
    if config is None and is_new:
        raise ConfigError(
            f"config: there is no run in '{folder}' to continue, and only such a run has its own configuration. "
            "Give one, or the directory of a run."
        )
    settings = as_config(folder / "config.yaml" if config is None else config)
    frame = participants if isinstance(participants, pd.DataFrame) else None
    if participants is not None:
        path = None if isinstance(participants, pd.DataFrame) else Path(participants)
        settings = settings.model_copy(update={"data": settings.data.model_copy(update={"participants": path})})
    if settings.data.participants is None and frame is None:
        raise ConfigError("data.participants: missing. Give the table of scans, participants=participants.tsv.")
    training = settings.training
    usable_accelerator(training.accelerator, training.devices, section="training", training=training.precision)
    if settings.encoder.is_linear and settings.training.devices * settings.training.num_nodes > 1:
        raise ConfigError(
            f"training.devices: encoder '{settings.encoder.name}' is fitted by one process. Set devices and "
            "num_nodes to 1."
        )
    given: dict[str, Any] = {"transforms": None if transforms is None else Compose(transforms), "augment": augment}
    given |= {"frame": frame, "second": settings.second}
    source_of(settings.data, **given)  # refuses transforms for other images
    sections = {"data": transforms, "augment": augment}
    changes = {name: getattr(settings, name).with_given() for name, each in sections.items() if each is not None}
    settings = settings.model_copy(update=changes)
    source = source_of(settings.data, **given)
    # Refuses transforms, and needs a package for some images: before anything is written.
    source.views(settings.augment, seed=settings.seed)
    return settings, source


def _run(
    settings: Config,
    source: AnySource,
    folder: Path,
    engine: tuple[Fabric, Processes],
    *,
    resume: bool,
    loggers: Sequence[Logger],
    progress: Progress,
) -> None:
    """Open the run in the first process and then in the others, train, and save the encoder."""
    with ExitStack() as stack:
        is_new, parts = after_first(
            engine[1],
            lambda: open_run(settings, source, folder, stack, resume=resume, progress=progress),
            lambda known: follow_run(settings, source, known),
        )
        if parts is None:
            progress.message(f"{folder}: this run is finished; there is nothing to continue.")
            return
        if settings.training.init is not None:
            restore_initial(parts.model.halves[0], folder)
        contracts = contracts_of(settings, parts, folder, fit_in_one_pass(settings, parts, progress))
        if parts.objective is None:
            _save(folder, parts, contracts, progress)
            return
        # What loggers note of a run: what was chosen, and no path of the user's.
        sections = {"seed", "augment", "augment_2", "encoder", "encoder_2", "objective", "training"}
        facts = settings.model_dump(mode="json", include=sections, exclude={"training": {"init"}})
        facts["data"] = settings.data.model_dump(mode="json", exclude=_OF_THE_MACHINE)
        result = fit(
            parts.model,
            parts.objective,
            parts.source.views(settings.augment, seed=settings.seed),
            parts.data,
            settings=settings.training,
            seed=settings.seed,
            folder=folder,
            resume=not is_new,
            loggers=loggers,
            facts=facts,
            progress=progress,
            engine=engine,
        )
        if engine[1].is_first:
            _save(folder, parts, contracts, progress, batchnorm=result.batchnorm)


def _save(
    folder: Path, parts: Parts, contracts: Sequence[Mapping[str, Any]], progress: Progress, **facts: Mapping[str, Any]
) -> None:
    """Write the known answer of each of a run's encoders, and then the encoders, with which the run is finished."""
    for place, half, source in zip((folder, folder / SECOND), parts.model.halves, parts.source.halves, strict=False):
        keep_answer(place, half.encoder, source, parts.cohort, parts.data.training_rows, progress)
    save_model(folder, parts.model, contracts, run=folder, heads=parts.objective is not None, **facts)
    progress.message(f"{folder}: finished.")
