"""The embeddings table: one row a scan, and what it came from."""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.parquet

from neurocontrast.data.columns import text_of
from neurocontrast.data.levels import inferred
from neurocontrast.data.listing import check_names
from neurocontrast.data.problems import shown
from neurocontrast.exceptions import DataError, said
from neurocontrast.files import atomic_path
from neurocontrast.reading import check_place, parse_json

_KEY = b"neurocontrast"
_FORMAT = 1
_FEATURE = "feature_"
_N_ROWS = 8192  # of a row group
_OF_PANDAS = b"PANDAS_ATTRS"
"""Key of a Parquet file under which pandas keeps `DataFrame.attrs`."""
_PEOPLE = ("pretraining_subjects", "pretraining_contents", "pretraining_contents_complete")
_N_FEATURES = "n_features"


def feature_names(n_features: int) -> list[str]:
    """Name the columns of features, ``feature_0000`` first."""
    return list(map(f"{_FEATURE}{{:04d}}".format, range(n_features)))


@dataclass(frozen=True, eq=False)
class Embeddings:
    """Features of scans with their metadata."""

    table: pd.DataFrame  # identifiers and metadata, one row a scan
    features: np.ndarray  # float32, (n, d)
    info: dict[
        str, Any
    ]  # what they came from: run, pretraining subjects, environment, whether simulated …


def write_embeddings(
    path: str | os.PathLike[str],
    metadata: pd.DataFrame,
    features: np.ndarray,
    info: Mapping[str, Any],
) -> None:
    """Write a Parquet file atomically: identifiers, metadata, then ``feature_0000`` …; one row a scan.

    `info`, JSON-ready, is kept in the file's schema under ``neurocontrast``. The people of
    pretraining are kept for `pandas.read_parquet` as well, whose ``attrs`` last through selections.
    """
    if features.ndim != 2 or len(features) != len(metadata):
        raise DataError(
            f"features must have one row for each of {len(metadata)} scans, got shape {features.shape}."
        )
    finite = np.isfinite(features).all(axis=1)
    if not finite.all():
        names = metadata["participant_id"][~finite].astype(str)
        raise DataError(
            f"features are not finite for {', '.join(names)}. Look at these scans with `neurocontrast check`."
        )
    known = {name: pyarrow.array(_plain(metadata[name])) for name in metadata.columns}
    names = feature_names(features.shape[1])
    text = json.dumps({"format": _FORMAT, **info}, ensure_ascii=False, allow_nan=False)
    fields = [(name, values.type) for name, values in known.items()] + [
        (name, pyarrow.from_numpy_dtype(features.dtype)) for name in names
    ]
    of_pandas = {_KEY.decode(): _people_as_text(info, len(names))}
    keys = {_KEY: text.encode(), _OF_PANDAS: json.dumps(of_pandas).encode()}
    schema = pyarrow.schema(fields, metadata=keys)
    with (
        atomic_path(path) as temporary,
        pyarrow.parquet.ParquetWriter(temporary, schema, use_dictionary=list(known)) as writer,
    ):
        for first in range(
            0, len(features), _N_ROWS
        ):  # a group at a time: the features can be half of the memory
            part = np.ascontiguousarray(features[first : first + _N_ROWS].T)
            columns = [values.slice(first, _N_ROWS) for values in known.values()] + list(
                map(pyarrow.array, part)
            )
            writer.write_table(pyarrow.Table.from_arrays(columns, schema=schema))


def write_frame(
    path: str | os.PathLike[str], frame: pd.DataFrame, *, parameter: str = "embeddings"
) -> None:
    """Write a DataFrame with ``participant_id`` and ``feature_…`` columns as `write_embeddings` does.

    Errors begin with the name of the `parameter`.
    """
    check_names(frame, f"{parameter}: the DataFrame")
    frame = frame.set_axis(list(map(str, frame.columns)), axis="columns")
    names = _features_of(frame.columns)
    lacking = [name for name in ("participant_id",) if name not in frame] + (
        [] if names else [f"{_FEATURE}0000 …"]
    )
    if lacking:
        raise DataError(f"{parameter}: the DataFrame lacks {', '.join(lacking)}.")
    if frame.empty:
        raise DataError(f"{parameter}: the DataFrame needs at least one row.")
    try:
        features = frame[names].to_numpy(np.float32)
    except (ValueError, TypeError) as error:
        raise DataError(
            f"{parameter}: the feature columns must hold numbers ({said(error)})."
        ) from error
    metadata = frame.drop(columns=names).apply(inferred)
    write_embeddings(path, metadata, features, _people_in(frame.attrs, len(names), parameter))


def _people_as_text(info: Mapping[str, object], n_features: int) -> str:
    """Return the people of pretraining as text, which pandas copies without cost; "" if unknown.

    Of a run of members, whose columns must not be taken for those of one encoder, the members too.
    """
    people: dict[str, object] = {_N_FEATURES: n_features}
    run = info.get("run")
    if isinstance(run, Mapping) and "members" in run:
        people["run"] = {"members": run["members"], "weights": run["weights"]}
    if info.get(_PEOPLE[0]) is not None and not info.get("pretraining_unknown"):
        for key in _PEOPLE:
            if key in info:
                people[key] = info[key]
    if len(people) == 1:
        return ""
    return json.dumps(people)


def _people_in(attrs: Mapping[Any, object], n_features: int, place: str) -> dict[str, object]:
    """Return the people of pretraining that pandas kept with a table; none of other features."""
    content = attrs.get(_KEY.decode())
    if not isinstance(content, str) or not content:
        return {}
    remedy = "Read the embeddings again."
    people: dict[str, object] = parse_json(content, place=f"{place}: its attrs", remedy=remedy)
    if people.pop(_N_FEATURES, None) != n_features:
        return {}
    return people


def embeddings_file(
    table: str | os.PathLike[str] | pd.DataFrame, scratch: Path, *, parameter: str = "embeddings"
) -> Path:
    """Return the file of an embeddings table; a DataFrame is written into the folder `scratch`."""
    if not isinstance(table, pd.DataFrame):
        return Path(table)
    path = scratch / f"{parameter}.parquet"
    write_frame(path, table, parameter=parameter)
    return path


def _features_of(columns: Iterable[str]) -> list[str]:
    """Return the columns of features in the order of their numbers, also where a table was sorted otherwise."""
    names = [name for name in columns if str(name).startswith(_FEATURE)]
    numbers = {name: name.removeprefix(_FEATURE) for name in names}
    is_numbered = all(number.isdecimal() for number in numbers.values())
    return sorted(names, key=lambda name: int(numbers[name])) if is_numbered else names


def read_embeddings(path: str | os.PathLike[str]) -> Embeddings:
    """Read what `write_embeddings` wrote, or any Parquet table with identifiers and ``feature_…`` columns."""
    path = Path(path)
    remedy = "Give an embeddings table; `neurocontrast embed` writes one."
    check_place(path, remedy=remedy)
    try:
        file = pyarrow.parquet.ParquetFile(path)
        names = _features_of(file.schema_arrow.names)
        lacking = [] if "participant_id" in file.schema_arrow.names else ["participant_id"]
        lacking += [] if names else [f"{_FEATURE}0000 …"]
        if lacking:
            raise DataError(f"{path}: not an embeddings table: it lacks {', '.join(lacking)}.")
        metadata, features = _read_groups(file, names)
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(f"{path}: not a readable Parquet file ({said(error)}). {remedy}") from error
    except (ValueError, TypeError) as error:
        raise DataError(
            f"{path}: the feature columns must hold numbers ({said(error)})."
        ) from error
    for name in ("subject_id", "session"):
        if name not in metadata:
            metadata[name] = metadata["participant_id"] if name == "subject_id" else ""
    bad = ~np.isfinite(features).all(axis=1)
    if bad.any():
        raise DataError(
            f"{path}: features are not finite for {', '.join(metadata['participant_id'][bad].astype(str))}."
        )
    return Embeddings(metadata, features, _info(path, file.schema_arrow.metadata or {}, len(names)))


def _read_groups(
    file: pyarrow.parquet.ParquetFile, names: Sequence[str]
) -> tuple[pd.DataFrame, np.ndarray]:
    """Return metadata and features, without a second copy of the features in memory."""
    features = np.empty((file.metadata.num_rows, len(names)), dtype=np.float32)
    columns = file.schema_arrow.names
    # By position: a look-up by name passes over all columns, and several members have thousands.
    numbers = dict(zip(columns, range(len(columns)), strict=True))
    wanted = list(map(numbers.__getitem__, names))
    others = sorted(set(numbers.values()).difference(wanted))
    known = [file.schema_arrow.empty_table().select(others)]
    for group in map(file.read_row_group, range(file.num_row_groups)):
        part = features[sum(map(len, known)) :][: len(group)]
        for position, number in enumerate(wanted):
            part[:, position] = group.column(number).to_numpy()
        known.append(group.select(others))
    # An index of pandas would be taken for the positions of rows, or hide a column.
    table = pyarrow.concat_tables(known).unify_dictionaries().to_pandas(ignore_metadata=True)
    return table.loc[:, ~table.columns.str.startswith("__index_level_")], features


def _info(path: Path, schema: Mapping[bytes, bytes], n_features: int) -> dict[str, Any]:
    place = f"{path}: its description"
    remedy = "Embed the scans again."
    info: dict[str, Any] = parse_json(schema.get(_KEY, b"{}"), place=place, remedy=remedy)
    if _KEY not in schema and _OF_PANDAS in schema:  # pandas wrote the table again
        attrs = parse_json(schema[_OF_PANDAS], place=place, remedy=remedy)
        info = _people_in(attrs, n_features, str(path))
    elif info and info.get("format") != _FORMAT:
        raise DataError(
            f"{path}: format {info.get('format')!r} is not known (this version reads {_FORMAT})."
        )
    # A damaged list of subjects would let the people of pretraining into the evaluation unseen.
    for key, kind, what in (
        ("pretraining_subjects", str, "digests"),
        ("pretraining_contents", str, "digests"),
        ("training_metrics", dict, "rows"),
    ):
        found = info.get(key)
        if found is not None and not (
            isinstance(found, list) and all(isinstance(each, kind) for each in found)
        ):
            raise DataError(
                f"{path}: '{key}' of its description must be a list of {what}, found {shown(found)}. Embed the scans "
                "again."
            )
    return info


def _plain(values: pd.Series) -> pyarrow.Array | np.ndarray:
    """Return a column in a type of Parquet's own: numbers, booleans, or text for all else."""
    if pd.api.types.is_bool_dtype(values):
        return pyarrow.array(values.astype("boolean"))
    if not pd.api.types.is_any_real_numeric_dtype(values):
        # Text as str or null, whatever pandas calls it: readable by every Parquet reader, without
        # pandas' own metadata.
        return pyarrow.array([None if pd.isna(cell) else text_of(cell) for cell in values])
    if values.dtype.kind in "iu" and values.isna().any():
        return values.to_numpy("float64", na_value=np.nan)
    return values.to_numpy()
