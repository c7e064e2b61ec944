"""A stored probe applied to other embeddings."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from neurocontrast.embedding.table import Embeddings, read_embeddings
from neurocontrast.evaluation import FittedProbe, load_probe
from neurocontrast.evaluation.encoders import check_same_encoder, encoder_digest
from neurocontrast.evaluation.table import check_rows, tidy_table
from neurocontrast.exceptions import ConfigError
from neurocontrast.files import check_writable, digest_of_file, write_json, write_table
from neurocontrast.progress import SILENT, Progress
from neurocontrast.provenance import describe_environment, subject_digest

__all__ = ["predict"]


def predict(
    probe: str | os.PathLike[str],
    embeddings: str | os.PathLike[str],
    *,
    out: str | os.PathLike[str],
    overwrite: bool = False,
    progress: Progress = SILENT,
) -> Path:
    """Apply the probe of an evaluation to embeddings of the same encoder.

    Parameters
    ----------
    probe : path
        Evaluation directory, or its folder ``probe``.
    embeddings : path
        Table written by `embed`, with the run whose embeddings the probe was fitted on.
    out : path
        Table to write, ending in ``.tsv``: identifiers, site, ``y_score`` (probability of the positive class, or
        number; of several classes ``score_<class>``), ``y_pred``, and ``trained_on``, which marks subjects that
        the probe was fitted on. Beside it, ending in ``.json``, where it came from.
    overwrite, progress : bool, Progress
        Whether an `out` that exists is replaced; told of warnings.

    Returns
    -------
    Path
        The table.

    Raises
    ------
    CheckpointError, ConfigError, DataError
        For a probe that is absent or damaged, an `out` that cannot be written, embeddings of another encoder.
    """
    target = _check_target(Path(out), overwrite=overwrite)
    fitted = load_probe(probe)
    read = read_embeddings(embeddings)
    doubt = check_same_encoder(
        fitted.encoder,
        encoder_digest(read.info),
        n_expected=fitted.n_features,
        n_found=read.features.shape[1],
        parameter=Path(embeddings).name,
        what="the probe",
    )
    table = _predictions(fitted, read)
    _warn(progress, doubt, table["trained_on"])
    write_json(target.with_suffix(".json"), _origin(fitted, Path(embeddings), read.info, table))
    write_table(target, table)
    return target


def _warn(progress: Progress, doubt: str | None, trained_on: pd.Series) -> None:
    if doubt is not None:
        progress.warning(doubt)
    if trained_on.any():
        progress.warning(
            f"{int(trained_on.sum())} of {len(trained_on)} scans are of subjects that the probe was fitted on "
            "(trained_on). What it says of them is no test of it."
        )


def _check_target(out: Path, *, overwrite: bool) -> Path:
    if out.is_dir() or out.suffix != ".tsv":
        raise ConfigError(f"out: must be a file that ends in .tsv, got '{out}'.")
    for path in (out, out.with_suffix(".json")):
        if path.exists() and not overwrite:
            raise ConfigError(f"out: '{path}' exists. Give another file, or replace it with --overwrite.")
    check_writable(out)
    return out


def _predictions(fitted: FittedProbe, read: Embeddings) -> pd.DataFrame:
    tidy = tidy_table(read.table)
    check_rows(tidy, read.features)
    table = tidy[["participant_id", "session", "site"]].copy()
    scores = fitted.predict(read.features)
    if fitted.kind == "multiclass":
        for code, name in enumerate(fitted.classes):
            table[f"score_{name}"] = scores[:, code]
    else:
        table["y_score"] = scores
    labels = np.array(fitted.classes, dtype=object)
    table["y_pred"] = scores if fitted.kind == "continuous" else labels[fitted.decide(scores)]
    table["trained_on"] = [subject_digest(subject) in fitted.trained_on for subject in tidy["subject_id"]]
    return table


def _origin(fitted: FittedProbe, embeddings: Path, info: dict[str, Any], table: pd.DataFrame) -> dict[str, Any]:
    return {
        "format": 1,
        "target": fitted.target,
        "kind": fitted.kind,
        "classes": list(fitted.classes),
        "probe": {"name": fitted.name, "strength": fitted.strength, "threshold": fitted.threshold},
        "n_trained_on": {"scans": fitted.n_scans, "subjects": len(fitted.trained_on)},
        "n": {"scans": len(table), "of_trained_subjects": int(table["trained_on"].sum())},
        "encoder": fitted.encoder,
        "embeddings": {"file": embeddings.name, "digest": digest_of_file(embeddings)},
        "simulated": bool(info.get("simulated", False)),
        "environment": describe_environment(),
    }
