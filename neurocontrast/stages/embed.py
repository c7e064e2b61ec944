"""Embed scans or images with a frozen encoder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from neurocontrast.config import Config, as_config
from neurocontrast.data import Cohort
from neurocontrast.embedding import extract_features, write_embeddings
from neurocontrast.encoders import load_encoder, load_model
from neurocontrast.exceptions import ConfigError
from neurocontrast.files import check_writable
from neurocontrast.progress import SILENT, Progress
from neurocontrast.provenance import describe_environment
from neurocontrast.stages.kinds import Kind, intake_of_run, kind_of_run
from neurocontrast.stages.run_folder import read_metrics, read_provenance, read_simulation

__all__ = ["embed"]


def embed(
    run: str | os.PathLike[str],
    *,
    participants: str | os.PathLike[str],
    out: str | os.PathLike[str],
    images_root: str | os.PathLike[str] | None = None,
    config: Config | Mapping[str, Any] | str | os.PathLike[str] | None = None,
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
        Its section `embedding`, and of `data` where images and cache are.
    overwrite, progress : bool, Progress
        Whether an `out` that exists is replaced; told how far the work is.

    Returns
    -------
    Path
        The file.
    """
    target = _check_target(Path(out), overwrite=overwrite)
    settings = as_config({} if config is None else config)
    layer = settings.embedding.layer
    network, contract = load_encoder(run) if layer == "encoder" else load_model(run)
    kind = kind_of_run(contract, settings.data)
    intake = intake_of_run(Path(run), contract, kind)
    cohort, flow = _read_cohort(kind, participants, images_root, settings, progress)
    info = {**_describe(Path(run), contract, cohort, progress), "flow": flow}
    info |= {"precision": settings.embedding.precision, "layer": layer}
    intake.make_ready(cohort, progress)
    features = extract_features(
        network,
        intake.images(cohort),
        settings=settings.embedding,
        n_readers=settings.data.n_workers,
        progress=progress,
    )
    write_embeddings(target, cohort.table, features, info)
    return target


def _read_cohort(
    kind: Kind,
    participants: str | os.PathLike[str],
    images_root: str | os.PathLike[str] | None,
    settings: Config,
    progress: Progress,
) -> tuple[Cohort, list[dict[str, Any]]]:
    """Return the images to embed, and how many were listed and left out."""
    listed = kind.read_cohort(participants, images_root=images_root)
    cohort = listed.select(settings.embedding.where) if settings.embedding.where else listed
    for warning in cohort.warnings:
        progress.warning(warning)
    flow = [_flow_step("listed", listed.table, None)]
    left_out = listed.table[~listed.table["path"].isin(cohort.table["path"])]
    if len(left_out):
        flow.append(_flow_step("excluded", left_out, "not selected by embedding.where"))
    return cohort, flow


def _flow_step(step: str, table: pd.DataFrame, reason: str | None) -> dict[str, Any]:
    return {"step": step, "n_scans": len(table), "n_subjects": int(table["subject_id"].nunique()), "reason": reason}


def _check_target(out: Path, *, overwrite: bool) -> Path:
    if out.is_dir() or out.suffix != ".parquet":
        raise ConfigError(f"out: must be a file that ends in .parquet, got '{out}'.")
    if out.exists() and not overwrite:
        raise ConfigError(f"out: '{out}' exists. Give another file, or replace it with --overwrite.")
    check_writable(out)
    return out


def _describe(run: Path, contract: Mapping[str, Any], cohort: Cohort, progress: Progress) -> dict[str, Any]:
    """Return what a reader of the table must know, first of all who was in pretraining."""
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
