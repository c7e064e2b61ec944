"""Embed scans or images with a frozen encoder."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from monai.transforms import Compose, Transform

from neurocontrast.config import Config, as_config
from neurocontrast.data import Cohort
from neurocontrast.data.batches import Images
from neurocontrast.embedding import extract_features, write_embeddings
from neurocontrast.encoders import ContrastiveModel, Encoder, load_encoder, load_model
from neurocontrast.exceptions import ConfigError
from neurocontrast.files import check_output_file
from neurocontrast.progress import SILENT, Progress
from neurocontrast.provenance import describe_environment
from neurocontrast.stages.processes import after_first, is_run_elsewhere, sharing
from neurocontrast.stages.run_folder import read_metrics, read_provenance, read_simulation
from neurocontrast.stages.sources import source_of_run

__all__ = ["embed"]


def embed(
    run: str | os.PathLike[str],
    *,
    participants: str | os.PathLike[str],
    out: str | os.PathLike[str],
    images_root: str | os.PathLike[str] | None = None,
    config: Config | Mapping[str, Any] | str | os.PathLike[str] | None = None,
    transforms: Compose | Sequence[Transform] | None = None,
    overwrite: bool = False,
    progress: Progress = SILENT,
) -> Path:
    """Write one row of features for each scan or image, prepared exactly as the run's own were.

    Parameters
    ----------
    run : path
        Run directory, or any folder with ``encoder.json``, such as ``RUN/checkpoints/epoch-0003`` of an unfinished run.
    participants, out : path
        Table of scans or images; Parquet file to write.
    images_root : path, optional
        Folder that relative image paths start from; the table's own by default.
    config : Config, mapping or path of a YAML file, optional
        Section `embedding`; and section `data`, for the places of images and cache.
    transforms : Compose or sequence of Transform, optional
        Transforms that `pretrain` was given from Python, where it was.
    overwrite, progress : bool, Progress
        Whether an `out` that exists is replaced; receives progress messages.

    Returns
    -------
    Path
        The file.
    """
    target = Path(out)
    check_output_file(target, ".parquet", overwrite=overwrite)
    settings = as_config({} if config is None else config)
    arguments: dict[str, Any] = {"run": run, "participants": participants, "out": out, "images_root": images_root}
    arguments |= {"config": settings.model_dump(mode="json"), "overwrite": overwrite}
    if settings.embedding.devices > 1 and transforms is not None:
        raise ConfigError(
            f"embedding.devices: {settings.embedding.devices} processes cannot be handed transforms from Python. Use 1."
        )
    if is_run_elsewhere("embed", arguments, n_processes=settings.embedding.devices, progress=progress):
        return target
    with sharing(settings.embedding.accelerator, section="embedding") as (device, processes):
        progress = progress if processes.is_first else SILENT
        network, images, table, info = after_first(
            processes, lambda: (_prepare(Path(run), participants, images_root, settings, transforms, progress), None)
        )
        features = extract_features(
            network,
            images,
            settings=settings.embedding,
            n_readers=settings.data.n_workers,
            progress=progress,
            device=device,
            processes=processes,
        )
        if processes.is_first:
            write_embeddings(target, table, features, info)
    return target


def _prepare(
    run: Path,
    participants: str | os.PathLike[str],
    images_root: str | os.PathLike[str] | None,
    settings: Config,
    transforms: Compose | Sequence[Transform] | None,
    progress: Progress,
) -> tuple[Encoder | ContrastiveModel, Images, pd.DataFrame, dict[str, Any]]:
    """Return the network, its prepared images, their table, and the description stored with the features."""
    layer = settings.embedding.layer
    network, contract = load_encoder(run) if layer == "encoder" else load_model(run)
    given = None if transforms is None else Compose(transforms)
    source = source_of_run(run, contract, settings.data, transforms=given)
    listed = source.read_cohort(participants, images_root=images_root)
    cohort = listed.select(settings.embedding.where) if settings.embedding.where else listed
    for warning in cohort.warnings:
        progress.warning(warning)
    flow = [_flow_step("listed", listed.table, None)]
    kept = set(cohort.names())
    left_out = listed.table[[name not in kept for name in listed.names()]]
    if len(left_out):
        flow.append(_flow_step("excluded", left_out, "not selected by embedding.where"))
    info = {**_describe(run, contract, cohort, progress), "flow": flow}
    info |= {"precision": settings.embedding.precision, "layer": layer}
    source.make_ready(cohort, progress)
    return network, source.images(cohort), cohort.table, info


def _flow_step(step: str, table: pd.DataFrame, reason: str | None) -> dict[str, Any]:
    return {"step": step, "n_scans": len(table), "n_subjects": int(table["subject_id"].nunique()), "reason": reason}


def _describe(run: Path, contract: Mapping[str, Any], cohort: Cohort, progress: Progress) -> dict[str, Any]:
    """Return the description stored with the features, such as the subjects of pretraining."""
    if run.resolve().parent.name == "checkpoints":  # weights of a run that is not finished: the run above knows
        run = run.resolve().parent.parent
    provenance = read_provenance(run) if (run / "provenance.json").is_file() else None
    if provenance is None:
        progress.warning(
            f"{run}: there is no provenance.json, so nobody can tell whether these participants were in pretraining."
        )
    return {
        "run": {"name": run.resolve().name, **contract},
        "pretraining_subjects": None if provenance is None else provenance["pretraining_subjects"],
        "simulated": cohort.simulated or bool(contract.get("simulated")),
        "objective": contract.get("objective"),
        "training_metrics": read_metrics(run),
        "environment": describe_environment(),
        "cohort_source": cohort.source.name,
        "cohort_digest": cohort.digest(),
        "simulation": read_simulation(cohort),
    }
