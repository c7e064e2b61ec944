"""Read and write embeddings tables: a row of features a scan, and a description of the encoder."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.parquet

from neurocontrast.cells import text_of
from neurocontrast.data.levels import inferred
from neurocontrast.data.listing import check_names
from neurocontrast.documents.document import Json
from neurocontrast.documents.info import EmbeddingsInfo
from neurocontrast.exceptions import DataError, said
from neurocontrast.files import DigestSink, atomic_path, digest_of_file
from neurocontrast.reading import check_place, parse_json

AnyEmbeddings = str | os.PathLike[str] | pd.DataFrame
"""Embeddings as every command takes them: a Parquet file, or a DataFrame with ``feature_…``
columns.
"""
_KEY = b"neurocontrast"
_FORMAT = 1
_FEATURE = "feature_"
_N_ROWS = 8192
"""Number of rows that are written to a Parquet file at once, as a row group."""
_OF_PANDAS = b"PANDAS_ATTRS"
"""Key of a Parquet file's metadata under which pandas keeps `DataFrame.attrs`."""
_PEOPLE = ("pretraining_subjects", "pretraining_contents", "pretraining_contents_complete")
"""Keys of `EmbeddingsInfo` on people of pretraining, which `DataFrame.attrs` keep as well."""
_N_FEATURES = "n_features"
"""Key in `DataFrame.attrs` of the number of features: with another number, attrs are ignored."""


def feature_names(n_features: int) -> list[str]:
    """Return names for the columns of features: ``feature_0000``, ``feature_0001``, …."""
    return list(map(f"{_FEATURE}{{:04d}}".format, range(n_features)))


@dataclass(frozen=True, eq=False)
class Embeddings:
    """Features and metadata of scans, and the description of the run that made the features."""

    table: pd.DataFrame
    """Identifiers and metadata of the scans, one row a scan, without the features."""
    features: np.ndarray
    """Features of the scans, float32, of shape (n_scans, n_features), in the order of `table`."""
    info: EmbeddingsInfo
    """Description of the run that made the features: encoder, people of pretraining, read-out
    layer.
    """
    path: Path
    """File of the table; for a DataFrame, a file name by which errors and results call the
    table.
    """
    in_memory: pd.DataFrame | None = None
    """The user's DataFrame without features, to write or digest; None if read from a file."""

    @classmethod
    def of(cls, table: AnyEmbeddings, *, parameter: str = "embeddings") -> Self:
        """Read embeddings from a file, or take a DataFrame as if read from a file.

        Parameters
        ----------
        table : path or DataFrame
            A Parquet file, or a DataFrame with a column ``participant_id`` and columns
            ``feature_…``.
        parameter : str
            Name by which errors and results call a DataFrame.

        Raises
        ------
        DataError
            If the file cannot be read, columns are missing, or a feature is not a finite number.
        """
        if not isinstance(table, pd.DataFrame):
            return cls(*_read(Path(table)), Path(table))
        metadata, features, info = _of_frame(table, parameter)
        columns = _columns_of(metadata)
        read = pyarrow.table(columns).to_pandas(ignore_metadata=True)
        return cls(_with_identifiers(read), features, info, Path(f"{parameter}.parquet"), metadata)

    def digest(self) -> str:
        """Return the SHA-256 of the table's file; for a DataFrame, of the file made by writing."""
        if self.in_memory is None:
            return digest_of_file(self.path)
        sink = DigestSink()
        _write(sink, self.in_memory, self.features, self.info)
        return sink.hexdigest()


def write_embeddings(
    path: str | os.PathLike[str],
    metadata: pd.DataFrame,
    features: np.ndarray,
    info: EmbeddingsInfo | Mapping[str, object],
) -> None:
    """Write embeddings to a Parquet file, whole or not at all, with one row for each scan.

    Columns are identifiers, metadata, then ``feature_0000`` …. The digests of the people of
    pretraining in `info` are also written as ``attrs`` of a DataFrame: a table that
    `pandas.read_parquet` reads, and selections of its rows, still have them.

    Parameters
    ----------
    path : path
        File to write.
    metadata : DataFrame
        One row a scan, with a column ``participant_id``.
    features : array of shape (n_scans, n_features)
        Finite numbers, rows in the order of `metadata`.
    info : EmbeddingsInfo or mapping
        Description of the run that made the features, JSON-ready; kept in the file's schema under
        ``neurocontrast``.

    Raises
    ------
    DataError
        If rows differ in number, or features are not finite.
    """
    described = EmbeddingsInfo.of(info, "info")
    _check_features(metadata, features)
    with atomic_path(path) as temporary:
        _write(temporary, metadata, features, described)


def _check_features(metadata: pd.DataFrame, features: np.ndarray) -> None:
    """Raise `DataError` for features that are not finite, or for another number of rows.

    `metadata` and `features` must have a row for each scan; the error names the scans with features
    that are not finite.
    """
    if features.ndim != 2 or len(features) != len(metadata):
        raise DataError(
            f"features must have one row for each of {len(metadata)} scans, "
            f"got shape {features.shape}."
        )
    finite = np.isfinite(features).all(axis=1)
    if not finite.all():
        names = metadata["participant_id"][~finite].astype(str)
        raise DataError(
            f"features are not finite for {', '.join(names)}. "
            "Look at these scans with `neurocontrast check`."
        )


def _columns_of(metadata: pd.DataFrame) -> dict[str, pyarrow.Array]:
    columns = {}
    for name in metadata.columns:
        columns[name] = pyarrow.array(_plain(metadata[name]))
    return columns


def _write(
    sink: Path | DigestSink, metadata: pd.DataFrame, features: np.ndarray, info: EmbeddingsInfo
) -> None:
    """Write an embeddings table to a file or a digest (`sink`), in groups of rows to save memory.

    `metadata` and `features` have a row for each scan; the features can fill half of the memory.
    `info` describes the run that made the features.
    """
    described = _columns_of(metadata)
    schema = _schema_of(described, features, info)
    with pyarrow.parquet.ParquetWriter(sink, schema, use_dictionary=list(described)) as writer:
        for first in range(0, len(features), _N_ROWS):
            columns = []
            for values in described.values():
                columns.append(values.slice(first, _N_ROWS))
            group = np.ascontiguousarray(features[first : first + _N_ROWS].T)
            columns += map(pyarrow.array, group)
            writer.write_table(pyarrow.Table.from_arrays(columns, schema=schema))


def _schema_of(
    described: Mapping[str, pyarrow.Array], features: np.ndarray, info: EmbeddingsInfo
) -> pyarrow.Schema:
    """Return the Parquet schema of an embeddings table: names and types of columns, and `info`.

    `described` holds the columns of the scans' metadata. `info` describes the run that made the
    features, and is kept as the schema's own metadata.
    """
    names = feature_names(features.shape[1])
    fields = []
    for name, values in described.items():
        fields.append((name, values.type))
    for name in names:
        fields.append((name, pyarrow.from_numpy_dtype(features.dtype)))
    content = {"format": _FORMAT, **info.content()}
    description = json.dumps(content, ensure_ascii=False, allow_nan=False)
    of_pandas = {_KEY.decode(): _people_as_text(info, len(names))}
    keys = {_KEY: description.encode(), _OF_PANDAS: json.dumps(of_pandas).encode()}
    return pyarrow.schema(fields, metadata=keys)


def _of_frame(
    frame: pd.DataFrame, parameter: str
) -> tuple[pd.DataFrame, np.ndarray, EmbeddingsInfo]:
    """Split a user's DataFrame into the scans' metadata, their features, and `EmbeddingsInfo`.

    Features are in columns ``feature_…``; the info is read from the DataFrame's ``attrs``. A
    `DataError`, which names the DataFrame by `parameter`, is raised if columns are missing, or if a
    feature is not a finite number.
    """
    check_names(frame, f"{parameter}: the DataFrame")
    frame = frame.set_axis(list(map(str, frame.columns)), axis="columns")
    names = _features_of(frame.columns)
    lacking = _lacking(frame.columns, names)
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
    _check_features(metadata, features)
    return metadata, features, _people_in(frame.attrs, len(names), parameter)


def _lacking(columns: Iterable[str], features: Sequence[str]) -> list[str]:
    """List columns that an embeddings table needs and `columns` lacks; empty for a whole table.

    `features` are the names of feature columns that the table has.
    """
    lacking = []
    if "participant_id" not in columns:
        lacking.append("participant_id")
    if not features:
        lacking.append(f"{_FEATURE}0000 …")
    return lacking


def _people_as_text(info: EmbeddingsInfo, n_features: int) -> str:
    """Return the people of pretraining as JSON text for `DataFrame.attrs`; "" if unknown.

    For a run of several encoders, the list of encoders is kept too: the columns must not be taken
    for the features of one encoder.
    """
    people: dict[str, object] = {_N_FEATURES: n_features}
    run = info.run.content()
    if info.run.members:
        people["run"] = {"members": run["members"], "weights": run["weights"]}
    if info.pretraining_subjects is not None and not info.pretraining_unknown:
        content = info.content()
        for key in _PEOPLE:
            if key in content:
                people[key] = content[key]
    if len(people) == 1:
        return ""
    return json.dumps(people)


def _people_in(attrs: Mapping[Any, object], n_features: int, place: str) -> EmbeddingsInfo:
    """Return the people of pretraining from a DataFrame's `attrs`, as `EmbeddingsInfo`.

    The info is empty if `attrs` hold no people, or were written for another number of features.
    """
    content = attrs.get(_KEY.decode())
    if not isinstance(content, str) or not content:
        return EmbeddingsInfo()
    where = f"{place}: its attrs"
    remedy = "Read the embeddings again."
    people: Json = parse_json(content, place=where, remedy=remedy)
    if people.pop(_N_FEATURES, None) != n_features:
        return EmbeddingsInfo()
    return EmbeddingsInfo.of(people, where, remedy=remedy)


def _features_of(columns: Iterable[str]) -> list[str]:
    """Return names of the feature columns among `columns`, sorted by their number.

    The columns are named ``feature_NUMBER``. If any such name ends in something else than a number,
    all are returned in the order of `columns`.
    """
    numbers = {}
    for name in columns:
        if str(name).startswith(_FEATURE):
            numbers[name] = name.removeprefix(_FEATURE)
    names = list(numbers)
    if not all(map(str.isdecimal, numbers.values())):
        return names
    return sorted(names, key=lambda name: int(numbers[name]))


def read_embeddings(path: str | os.PathLike[str]) -> Embeddings:
    """Read embeddings from a Parquet file that this package or another program wrote.

    Parameters
    ----------
    path : path
        File with a column ``participant_id`` and columns ``feature_…``.

    Returns
    -------
    Embeddings
        Metadata, features as float32, and the description (`EmbeddingsInfo`) of the run that made
        the features. The description is empty if the file has none.

    Raises
    ------
    DataError
        If the file cannot be read, columns are missing, or a feature is not a finite number.
    """
    return Embeddings.of(path)


def _read(path: Path) -> tuple[pd.DataFrame, np.ndarray, EmbeddingsInfo]:
    """Read an embeddings table from a Parquet file: scans' metadata, features, `EmbeddingsInfo`.

    A `DataError` is raised if columns are missing, or if a feature is not a finite number.
    """
    remedy = "Give an embeddings table; `neurocontrast embed` writes one."
    check_place(path, remedy=remedy)
    try:
        file = pyarrow.parquet.ParquetFile(path)
        names = _features_of(file.schema_arrow.names)
        lacking = _lacking(file.schema_arrow.names, names)
        if lacking:
            raise DataError(f"{path}: not an embeddings table: it lacks {', '.join(lacking)}.")
        metadata, features = _read_groups(file, names)
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(f"{path}: not a readable Parquet file ({said(error)}). {remedy}") from error
    except (ValueError, TypeError) as error:
        raise DataError(
            f"{path}: the feature columns must hold numbers ({said(error)})."
        ) from error
    metadata = _with_identifiers(metadata)
    finite = np.isfinite(features).all(axis=1)
    if not finite.all():
        scans = metadata["participant_id"][~finite].astype(str)
        raise DataError(f"{path}: features are not finite for {', '.join(scans)}.")
    return metadata, features, _info(path, file.schema_arrow.metadata or {}, len(names))


def _with_identifiers(metadata: pd.DataFrame) -> pd.DataFrame:
    """Add the columns ``subject_id`` and ``session`` to scans' `metadata` if absent.

    ``subject_id`` is then a copy of ``participant_id``, and ``session`` is empty. The table itself
    is changed and returned.
    """
    if "subject_id" not in metadata:
        metadata["subject_id"] = metadata["participant_id"]
    if "session" not in metadata:
        metadata["session"] = ""
    return metadata


def _read_groups(
    file: pyarrow.parquet.ParquetFile, names: Sequence[str]
) -> tuple[pd.DataFrame, np.ndarray]:
    """Read a Parquet file as scans' metadata and features, by groups of rows to save memory.

    `names` are the feature columns, in the order in which features are returned; all other columns
    are metadata.
    """
    features = np.empty((file.metadata.num_rows, len(names)), dtype=np.float32)
    columns = file.schema_arrow.names
    # By position: a look-up by name passes over all columns, and several members have thousands.
    numbers = dict(zip(columns, range(len(columns)), strict=True))
    wanted = list(map(numbers.__getitem__, names))
    others = sorted(set(numbers.values()).difference(wanted))
    metadata = [file.schema_arrow.empty_table().select(others)]
    n_read = 0
    for group in map(file.read_row_group, range(file.num_row_groups)):
        rows = features[n_read : n_read + len(group)]
        for position, number in enumerate(wanted):
            rows[:, position] = group.column(number).to_numpy()
        metadata.append(group.select(others))
        n_read += len(group)
    # An index of pandas would be taken for the positions of rows, or hide a column.
    table = pyarrow.concat_tables(metadata).unify_dictionaries().to_pandas(ignore_metadata=True)
    return table.loc[:, ~table.columns.str.startswith("__index_level_")], features


def _info(path: Path, schema: Mapping[bytes, bytes], n_features: int) -> EmbeddingsInfo:
    """Return the description of the run that made the features, from a Parquet file's metadata.

    `schema` is that metadata. If pandas wrote the file again, the description has only the digests
    of the people of pretraining. A `DataError` names every wrong key.
    """
    section = f"{path}: its description"
    remedy = "Embed the scans again; of joined tables, join them again."
    if _KEY not in schema and _OF_PANDAS in schema:  # pandas wrote the table again
        attrs = parse_json(schema[_OF_PANDAS], place=section, remedy=remedy)
        return _people_in(attrs, n_features, str(path))
    content: Json = parse_json(schema.get(_KEY, b"{}"), place=section, remedy=remedy)
    if content and content.get("format") != _FORMAT:
        raise DataError(
            f"{path}: format {content.get('format')!r} is not known (this version reads {_FORMAT})."
        )
    return EmbeddingsInfo.of(content, section, remedy=remedy)


def _plain(values: pd.Series) -> pyarrow.Array | np.ndarray:
    """Return a column's values in a type of Parquet: numbers or booleans, and all else as text."""
    if pd.api.types.is_bool_dtype(values):
        return pyarrow.array(values.astype("boolean"))
    if not pd.api.types.is_any_real_numeric_dtype(values):
        # Text as str or null, whatever pandas calls it: readable by every Parquet reader, without
        # pandas' own metadata.
        return pyarrow.array(map(_as_text, values))
    if values.dtype.kind in "iu" and values.isna().any():
        return values.to_numpy("float64", na_value=np.nan)
    return values.to_numpy()


def _as_text(cell: Any) -> str | None:
    """Return a table's cell as text; None for a missing cell."""
    if pd.isna(cell):
        return None
    return text_of(cell)
