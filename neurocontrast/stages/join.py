"""Join embeddings of the same scans by several encoders to one table, each encoder's features one block of columns."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from neurocontrast.data.cohort import columns_of
from neurocontrast.data.problems import Problems, shown
from neurocontrast.embedding.table import Embeddings, read_embeddings, write_embeddings
from neurocontrast.evaluation.rows import cell_texts, check_rows, encoder_digest, row_names, tidy_table
from neurocontrast.exceptions import ConfigError, DataError, one_of
from neurocontrast.files import check_output_file, digest_of
from neurocontrast.progress import SILENT, Progress
from neurocontrast.provenance import describe_environment

__all__ = ["join"]

_OPTIONS = ("layer", "precision", "read_out")
"""What the description of embeddings says of how an encoder was used, beside the run."""
_SHARED = ("objective", "simulation", "cohort_source", "cohort_digest")
"""What is said of the joined table where it is the same of all members."""


def join(
    embeddings: Sequence[str | os.PathLike[str]],
    *,
    out: str | os.PathLike[str],
    names: Sequence[str] | None = None,
    overwrite: bool = False,
    progress: Progress = SILENT,
) -> Path:
    """Write the features of several encoders of the same scans side by side, and return the path of the table.

    Each table becomes a block of columns, whose name, columns and encoder the joined table records; `evaluate` gives
    all blocks the same total variance. Rows are those of the first table, which are found in the others by
    ``participant_id`` and ``session``.

    Parameters
    ----------
    embeddings : sequence of path
        Two tables or more that `embed` wrote.
    out : path
        Parquet file to write, with one row a scan.
    names : sequence of str, optional
        Name of each block; by default that of its file.
    overwrite : bool
        Whether an `out` that exists is replaced.
    progress : Progress
        Receives warnings.

    Raises
    ------
    DataError
        Naming all scans that are not in every table, or whose metadata differ between tables.
    """
    if isinstance(embeddings, str | os.PathLike):
        raise ConfigError(f"embeddings: must be a list of tables, got {shown(embeddings)}.")
    paths, target = [Path(path) for path in embeddings], Path(out)
    chosen = _block_names(paths, names)
    check_output_file(target, ".parquet", overwrite=overwrite)
    if target.resolve() in [path.resolve() for path in paths]:
        raise ConfigError(f"out: {target} is one of the tables to join. Write another file.")
    read = {name: read_embeddings(path) for name, path in zip(chosen, paths, strict=True)}
    digests = _digests(read)
    table, features = _rows_of_all(read)
    info = _describe(read, digests)
    if info["pretraining_unknown"]:
        progress.warning(
            f"{', '.join(info['pretraining_unknown'])}: does not say who was in pretraining, so an evaluation cannot "
            "tell whether its subjects were."
        )
    write_embeddings(target, table, features, info)
    return target


def _block_names(paths: Sequence[Path], names: Sequence[str] | None) -> list[str]:
    if len(paths) < 2:
        raise ConfigError(f"embeddings: give two tables or more to join, got {len(paths)}.")
    found = [path.stem for path in paths] if names is None else [str(name).strip() for name in names]
    if len(found) != len(paths):
        raise ConfigError(f"names: {len(paths)} tables need {len(paths)} names, got {len(found)}.")
    if not all(found):
        raise ConfigError("names: a name is empty. Give one for each table.")
    twice = sorted({name for name in found if found.count(name) > 1})
    if twice:
        raise ConfigError(f"names: several blocks would be called {one_of(twice)}. Give each table a name (--names).")
    return found


def _digests(read: Mapping[str, Embeddings]) -> dict[str, str | None]:
    """Return the digest of each encoder; refuse joined tables, and one encoder under two names."""
    names_of: dict[str, list[str]] = {}
    digests = {}
    for name, each in read.items():
        inner = (each.info.get("run") or {}).get("blocks")
        if inner:
            raise DataError(f"{name}: is joined already, of {', '.join(inner)}. Join those tables with the others.")
        digests[name] = encoder_digest(each.info)
        names_of.setdefault(digests[name] or name, []).append(name)
    same = [" = ".join(names) for names in names_of.values() if len(names) > 1]
    if same:
        raise DataError(f"embeddings: features of the same encoder, which would count twice: {'; '.join(same)}.")
    return digests


def _rows_of_all(read: Mapping[str, Embeddings]) -> tuple[pd.DataFrame, np.ndarray]:
    """Return the metadata and features of all tables in the order of the first; name all scans that do not agree."""
    tidy = {name: _tidy(name, each) for name, each in read.items()}
    first, *others = tidy
    keys = {name: list(zip(each["participant_id"], each["session"], strict=True)) for name, each in tidy.items()}
    problems = Problems(" and ".join(read) if len(read) == 2 else ", ".join(read))
    everywhere = list(dict.fromkeys(key for found in keys.values() for key in found))
    places = {name: {key: row for row, key in enumerate(found)} for name, found in keys.items()}
    for key in everywhere:
        absent = [name for name in tidy if key not in places[name]]
        if absent:
            problems.add(f"is not in {' and '.join(absent)}", name=" session ".join(filter(None, key)))
    if problems.found:
        problems.hint("every table must hold the same scans: embed one table of scans with every run.")
        problems.raise_if_any()
    orders = {name: [places[name][key] for key in keys[first]] for name in tidy}
    table = read[first].table.copy()
    skipped = {column for each in read.values() for column in columns_of((each.info.get("run") or {}).get("channels"))}
    for name in others:
        ordered = read[name].table.iloc[orders[name]].reset_index(drop=True)
        _compare(tidy[first], tidy[name].iloc[orders[name]], (first, name), problems, skipped=skipped | {"path"})
        new = [column for column in ordered if column not in table]
        table = table.join(ordered[new])
    problems.raise_if_any()
    return table, np.concatenate([each.features[orders[name]] for name, each in read.items()], axis=1)


def _tidy(name: str, read: Embeddings) -> pd.DataFrame:
    try:
        table = tidy_table(read.table)
        check_rows(table, read.features)
    except DataError as error:
        raise DataError(f"{name}: {error}") from None
    return table


def _compare(
    table: pd.DataFrame, other: pd.DataFrame, names: tuple[str, str], problems: Problems, *, skipped: set[str]
) -> None:
    """Note every scan that has another value in a column of both tables; where its file lies may differ."""
    scans = row_names(table, range(len(table)))
    for column in [column for column in table if column in other and column not in skipped]:
        pairs = zip(cell_texts(table[column]), cell_texts(other[column]), strict=True)
        for scan, (one, two) in zip(scans, pairs, strict=True):
            if one != two:
                found = [f"{'nothing' if text is None else shown(text)} in {name}"
                         for text, name in zip((one, two), names, strict=True)]  # fmt: skip
                problems.add(" and ".join(found), column=str(column), name=scan)


def _describe(read: Mapping[str, Embeddings], digests: Mapping[str, str | None]) -> dict[str, Any]:
    """Return the description of the joined table: of the runs what they share, and each as one of ``blocks``."""
    infos = {name: each.info for name, each in read.items()}
    runs = {name: info.get("run") or {} for name, info in infos.items()}
    blocks, first = {}, 0
    for name, each in read.items():
        n_features = each.features.shape[1]
        blocks[name] = {
            "n_features": n_features,
            "columns": [f"feature_{first:04d}", f"feature_{first + n_features - 1:04d}"],
            "encoder": digests[name],
            "objective": infos[name].get("objective"),
            **{key: infos[name][key] for key in _OPTIONS if key in infos[name]},
            "run": runs[name],
        }
        first += n_features
    run = _shared(list(runs.values())) | {"name": " + ".join(read), "n_features": first, "blocks": blocks}
    known = list(digests.values())
    run["weights"] = {"sha256": digest_of(*known)} if None not in known else {}
    people = {name: info.get("pretraining_subjects") for name, info in infos.items()}
    unknown = [name for name, subjects in people.items() if subjects is None]
    seen = {subject for subjects in people.values() for subject in subjects or ()}
    return {
        **{key: value for key in _SHARED if (value := _same([info.get(key) for info in infos.values()])) is not None},
        "run": run,
        "pretraining_subjects": None if len(unknown) == len(people) else sorted(seen),
        "pretraining_unknown": unknown,
        "simulated": any(info.get("simulated") for info in infos.values()),
        "flow": next(iter(infos.values())).get("flow"),
        "environment": describe_environment(),
    }


def _shared(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what the records of all runs say alike, and of their preprocessing the steps that are alike."""
    found = {key: value for key in runs[0] if (value := _same([run.get(key) for run in runs])) is not None}
    steps = [run.get("preprocessing") or {} for run in runs]
    found["preprocessing"] = {
        key: value for key in steps[0] if (value := _same([each.get(key) for each in steps])) is not None
    }
    return found


def _same(values: Sequence[Any]) -> Any:
    return values[0] if all(value == values[0] for value in values) else None
