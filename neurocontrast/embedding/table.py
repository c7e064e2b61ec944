"""The embeddings table: one row a scan, and what it came from."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.parquet

from neurocontrast.data.problems import shown
from neurocontrast.exceptions import DataError
from neurocontrast.files import atomic_path

__all__ = ["Embeddings", "read_embeddings", "write_embeddings"]

_KEY = b"neurocontrast"
_FORMAT = 1
_FEATURE = "feature_"


@dataclass(frozen=True, eq=False)
class Embeddings:
    """Features of scans with their metadata."""

    table: pd.DataFrame  # identifiers and metadata, one row a scan
    features: np.ndarray  # float32, (n, d)
    info: dict[str, Any]  # what they came from: run, pretraining subjects, environment, whether simulated …


def write_embeddings(
    path: str | os.PathLike[str], metadata: pd.DataFrame, features: np.ndarray, info: Mapping[str, Any]
) -> None:
    """Write a Parquet file atomically: identifiers, metadata, then ``feature_0000`` …; one row a scan.

    `info`, JSON-ready, is kept in the file's schema under ``neurocontrast``.
    """
    if features.ndim != 2 or len(features) != len(metadata):
        raise DataError(f"features must have one row for each of {len(metadata)} scans, got shape {features.shape}.")
    finite = np.isfinite(features).all(axis=1)
    if not finite.all():
        names = metadata["participant_id"][~finite].astype(str)
        raise DataError(
            f"features are not finite for {', '.join(names)}. Look at these scans with `neurocontrast check`."
        )
    columns = {name: pyarrow.array(_plain(metadata[name])) for name in metadata.columns}
    for position in range(features.shape[1]):
        columns[f"{_FEATURE}{position:04d}"] = pyarrow.array(np.ascontiguousarray(features[:, position]))
    text = json.dumps({"format": _FORMAT, **info}, ensure_ascii=False, allow_nan=False)
    table = pyarrow.table(columns).replace_schema_metadata({_KEY: text.encode()})
    with atomic_path(path) as temporary:
        pyarrow.parquet.write_table(table, temporary)


def read_embeddings(path: str | os.PathLike[str]) -> Embeddings:
    """Read what `write_embeddings` wrote, or any Parquet table with identifiers and ``feature_…`` columns."""
    path = Path(path)
    if not path.is_file():
        raise DataError(f"{path}: there is no such embeddings table. Write one with `neurocontrast embed`.")
    try:
        table = pyarrow.parquet.read_table(path)
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(f"{path}: not a readable Parquet file ({error}).") from error
    names = [name for name in table.column_names if name.startswith(_FEATURE)]
    lacking = [] if "participant_id" in table.column_names else ["participant_id"]
    lacking += [] if names else [f"{_FEATURE}0000 …"]
    if lacking:
        raise DataError(f"{path}: not an embeddings table: it lacks {', '.join(lacking)}.")
    try:
        features = np.column_stack([table[name].to_numpy().astype(np.float32) for name in names])
    except (ValueError, TypeError) as error:
        raise DataError(f"{path}: the feature columns must hold numbers ({error}).") from error
    metadata = table.drop_columns(names).to_pandas()
    for name in ("subject_id", "session"):
        if name not in metadata:
            metadata[name] = metadata["participant_id"] if name == "subject_id" else ""
    bad = ~np.isfinite(features).all(axis=1)
    if bad.any():
        raise DataError(
            f"{path}: features are not finite for {', '.join(metadata['participant_id'][bad].astype(str))}."
        )
    return Embeddings(metadata, features, _info(path, table.schema.metadata or {}))


def _info(path: Path, schema: Mapping[bytes, bytes]) -> dict[str, Any]:
    try:
        info: Any = json.loads(schema.get(_KEY, b"{}"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise DataError(f"{path}: its description is damaged ({error}). Embed the scans again.") from error
    if not isinstance(info, dict):
        raise DataError(f"{path}: its description must be a JSON object, found {shown(info)}. Embed the scans again.")
    if info and info.get("format") != _FORMAT:
        raise DataError(f"{path}: format {info.get('format')!r} is not known (this version reads {_FORMAT}).")
    _check_list(path, info, "pretraining_subjects", of=str, what="digests")
    _check_list(path, info, "training_metrics", of=dict, what="rows")
    return info


def _check_list(path: Path, info: Mapping[str, Any], key: str, *, of: type, what: str) -> None:
    # A damaged list of subjects would let the people of pretraining into the evaluation unseen.
    found = info.get(key)
    if found is not None and not (isinstance(found, list) and all(isinstance(each, of) for each in found)):
        raise DataError(
            f"{path}: '{key}' of its description must be a list of {what}, found {shown(found)}. Embed the scans again."
        )


def _plain(values: pd.Series) -> list[Any] | np.ndarray:
    # Text as str or null, whatever pandas calls it: readable by every Parquet reader, without pandas' own metadata.
    if values.dtype.kind in "fiub":
        return values.to_numpy()
    return [None if pd.isna(value) else str(value) for value in values]
