"""Join embeddings of the same scans side by side, or several runs to one run of all encoders."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import filterfalse
from operator import attrgetter
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.data.cohort import columns_of
from neurocontrast.data.columns import levels_of
from neurocontrast.data.problems import Problems, shown
from neurocontrast.display import as_progress
from neurocontrast.documents.document import Json, shared_content
from neurocontrast.documents.embeddings import Embeddings, read_embeddings, write_embeddings
from neurocontrast.documents.info import EmbeddingsInfo
from neurocontrast.evaluation.rows import (
    check_rows,
    row_names,
    tidy_table,
)
from neurocontrast.exceptions import ConfigError, DataError, one_of
from neurocontrast.files import check_output_file, digest_of
from neurocontrast.progress import Progress
from neurocontrast.provenance import (
    CONTENT,
    describe_environment,
    join_contents,
    join_people,
)
from neurocontrast.weights import folder_of

_OPTIONS = ("layer", "precision", "read_out")
"""Keys in the description of an embeddings table that say how features were read from the
encoder."""
_SHARED = ("objective", "simulation", "cohort_source", "cohort_digest")
"""Keys in the description of an embeddings table that a joined table keeps if all tables agree."""


def join(
    embeddings: Sequence[str | os.PathLike[str]],
    *,
    out: str | os.PathLike[str],
    names: Sequence[str] | None = None,
    overwrite: bool = False,
    progress: Progress | bool | None = None,
) -> Path:
    """Write the features of several encoders side by side, or runs as one; return the path.

    Each table becomes a block of columns, whose name, columns and encoder the joined table records;
    `evaluate` gives all blocks the same total variance. Rows are those of the first table, which
    are found in the others by ``participant_id`` and ``session``.

    Of runs the encoders are copied to one new run, as its members. `embed`, `predict`, `bundle` and
    `ScanEmbedder` take that run, and `evaluate` fits a probe to the features of each member and
    averages the predictions. The runs may differ in everything but the kind of samples, brains in
    scans or in regional measures. A person in the pretraining of any of the runs counts as in the
    pretraining of the joined run.

    Parameters
    ----------
    embeddings : sequence of path
        Two tables or more that `embed` wrote; or two finished runs or more, as folders, or weights
        by name. All encoders of a run that has several are taken into the joined run.
    out : path
        Parquet file to write, with one row a scan; of runs the run directory to write.
    names : sequence of str, optional
        Name of each block, or of each run; by default that of its file or folder.
    overwrite : bool
        Whether an `out` that exists is replaced: a table, or a run that was joined.
    progress : Progress, bool or None
        Receives warnings; without one they are `NeurocontrastWarning`.

    Raises
    ------
    DataError
        Naming all scans that are not in every table, or whose metadata differ between tables.
    ConfigError
        Where runs cannot be joined: runs of measures with runs of scans, any run of natural images,
        or one run twice.
    CheckpointError
        Naming all runs that are unfinished, all that are damaged, and folders that are no runs.
    """
    progress = as_progress(progress)
    if isinstance(embeddings, str | os.PathLike):
        embeddings = [embeddings]
    paths = list(map(folder_of, embeddings))
    folders = list(filter(Path.is_dir, paths))
    if not folders:
        return _join_tables(_named(paths, names, "tables"), Path(out), overwrite, progress)
    if len(folders) < len(paths):
        tables = ", ".join(map(str, filterfalse(Path.is_dir, paths)))
        raise ConfigError(
            f"embeddings: {tables} is no folder, and others are. Give runs, or embeddings tables."
        )
    # Tables of embeddings are joined without torch.
    from neurocontrast.runs.joining import join_runs

    join_runs(_named(paths, names, "runs"), Path(out), overwrite=overwrite, progress=progress)
    return Path(out)


def _named(
    paths: Sequence[Path], names: Sequence[str] | None, kind: Literal["tables", "runs"]
) -> dict[str, Path]:
    """Return name → path of the tables or runs to join; refuse fewer than two, and equal names.

    Without `names` those of the files or folders are taken.
    """
    if len(paths) < 2:
        listed = ", ".join(map(str, paths)) or "none"
        raise ConfigError(f"embeddings: must be two {kind} or more, got {listed}.")
    if names is not None:
        chosen = list(map(str.strip, map(str, names)))
    elif kind == "runs":
        chosen = list(map(attrgetter("name"), map(Path.resolve, paths)))
    else:
        chosen = list(map(attrgetter("stem"), paths))
    if len(chosen) != len(paths) or not all(chosen) or len(set(chosen)) < len(chosen):
        raise ConfigError(
            f"names: {len(paths)} {kind} need {len(paths)} different names, got {one_of(chosen)}. "
            "Give them: names (--names A,B)."
        )
    return dict(zip(chosen, paths, strict=True))


def _join_tables(
    paths: Mapping[str, Path], target: Path, overwrite: bool, progress: Progress
) -> Path:
    """Write the features of several tables side by side to `target`, and return the path.

    `paths` has the tables by name. Two tables by one encoder are refused; a warning names tables
    that do not say who was in pretraining.
    """
    check_output_file(target, ".parquet", overwrite=overwrite)
    if target.resolve() in map(Path.resolve, paths.values()):
        raise ConfigError(f"out: {target} is one of the tables to join. Write another file.")
    read = {}
    digests = {}
    for name, path in paths.items():
        read[name] = read_embeddings(path)
        _refuse_several(name, read[name])
        digests[name] = read[name].info.encoder_digest
    encoders = pd.Series(digests, dtype=object).dropna()
    groups = encoders.groupby(encoders).groups.values()
    same = [" = ".join(names) for names in groups if len(names) > 1]
    if same:
        raise DataError(
            f"embeddings: features of the same encoder, which would count twice: {'; '.join(same)}."
        )
    table, features = _join_rows(read)
    info = _describe(read, digests)
    unknown = ", ".join(info.pretraining_unknown)
    if unknown:
        progress.warning(
            f"{unknown}: does not say who was in pretraining, so no evaluation can look for its "
            "subjects."
        )
    write_embeddings(target, table, features, info)
    return target


def _refuse_several(name: str, table: Embeddings) -> None:
    """Refuse to join a table with the features of several encoders.

    Such a table was joined already, or made by a run of several encoders (members), of which each
    has columns of its own. `name` is the name of the table in the message.
    """
    run = table.info.run
    if run.blocks:
        blocks = ", ".join(run.blocks)
        raise DataError(
            f"{name}: is joined already, of {blocks}. Join those tables with the others."
        )
    if run.members:
        raise DataError(
            f"{name}: is of a run of several members, whose predictions are averaged and whose "
            "columns are not joined. Embed one member, such as RUN/members/0, and join that; or "
            "join the runs themselves, whose predictions are averaged."
        )


@dataclass(frozen=True, eq=False)
class _TableToJoin:
    """Embeddings table to join, with row numbers of the scans of the first table to join.

    `_align` makes one for each of the tables to join; the joined table has the scans in the order
    of the first of them.
    """

    name: str
    embeddings: Embeddings
    tidy: pd.DataFrame
    """Metadata of the scans: identifiers, age, sex and site in the form that `evaluate` uses."""
    rows: npt.NDArray[np.intp]
    """Row number in this table of each scan of the first table to join."""

    @property
    def metadata(self) -> pd.DataFrame:
        """Metadata of the scans in this table, one row a scan, in the order of the first table."""
        return self.tidy.iloc[self.rows]

    @property
    def features(self) -> npt.NDArray[np.float32]:
        """Features of the scans in this table, one row a scan, in the order of the first table."""
        return self.embeddings.features[self.rows]


def _join_rows(read: Mapping[str, Embeddings]) -> tuple[pd.DataFrame, npt.NDArray[np.float32]]:
    """Return metadata, and features of all tables side by side, with rows as in the first table.

    `read` has the tables to join by name. Scans that are not in all tables, or whose metadata
    differ, are refused by name.
    """
    tables = _align(read)
    first = tables[0]
    _refuse_differences(tables)
    table = first.embeddings.table.copy()
    for joined in tables[1:]:
        ordered = joined.embeddings.table.iloc[joined.rows].reset_index(drop=True)
        table = table.join(ordered[ordered.columns.difference(table.columns, sort=False)])
    contents = []
    features = []
    for joined in tables:
        contents.append(joined.metadata[CONTENT].tolist())
        features.append(joined.features)
    table[CONTENT] = join_contents(contents)
    return table, np.concatenate(features, axis=1)


def _align(read: Mapping[str, Embeddings]) -> list[_TableToJoin]:
    """Find the scans of the first table in every table; refuse scans that a table lacks.

    `read` has the tables by name; one `_TableToJoin` is returned for each.
    """
    tidy = {}
    positions = {}
    for name, embeddings in read.items():
        try:
            tidy[name] = tidy_table(embeddings.table)
            check_rows(tidy[name], embeddings.features)
        except DataError as error:
            raise DataError(f"{name}: {error}") from None
        scans = pd.MultiIndex.from_frame(tidy[name][["participant_id", "session"]])
        positions[name] = pd.Series(range(len(scans)), index=scans)
    rows = pd.DataFrame(positions)
    _refuse_absent(rows)
    first = next(iter(positions.values()))
    rows = rows.loc[first.index].astype(int)
    tables = []
    for name, embeddings in read.items():
        tables.append(_TableToJoin(name, embeddings, tidy[name], rows[name].to_numpy()))
    return tables


def _source_of(names: Sequence[str]) -> str:
    """Return the names of the tables to join as one text, with which a list of problems begins."""
    if len(names) == 2:
        return " and ".join(names)
    return ", ".join(names)


def _refuse_absent(rows: pd.DataFrame) -> None:
    """Refuse scans that are not in every table that is to be joined.

    `rows` has one row a scan and one column a table; its cells are the scan's row number in that
    table, missing where the table lacks the scan.
    """
    problems = Problems(_source_of(list(rows.columns)))
    absent = rows.isna()[rows.isna().any(axis=1)]
    scans = row_names(absent.index.to_frame(), range(len(absent)))
    for scan, lacks in zip(scans, absent.to_numpy(), strict=True):
        problems.add(f"is not in {' and '.join(absent.columns[lacks])}", name=scan)
    if problems.found:
        problems.hint(
            "every table must hold the same scans: embed one table of scans with every run."
        )
    problems.raise_if_any()


def _refuse_differences(tables: Sequence[_TableToJoin]) -> None:
    """Refuse scans whose metadata differ between the first of the tables to join and another.

    Paths of images and digests of content may differ.
    """
    first = tables[0]
    problems = Problems(_source_of(list(map(attrgetter("name"), tables))))
    # The folder of a scan may differ, and the file that an encoder reads.
    skipped = {"path", CONTENT}
    for table in tables:
        skipped |= set(columns_of(table.embeddings.info.run.channels))
    for table in tables[1:]:
        shared = first.tidy.columns.intersection(table.tidy.columns, sort=False)
        for column in shared.difference(list(skipped)):
            _add_differences(problems, str(column), first, table)
    problems.raise_if_any()


def _add_differences(
    problems: Problems, column: str, first: _TableToJoin, table: _TableToJoin
) -> None:
    """Add to `problems` each scan whose cells of `column` differ between `first` and `table`."""
    cells_of_first = levels_of(column, first.metadata[column])
    cells = levels_of(column, table.metadata[column])
    for row, (expected, cell) in enumerate(zip(cells_of_first, cells, strict=True)):
        if expected != cell:
            problems.add(
                f"{_shown(expected)} in {first.name} and {_shown(cell)} in {table.name}",
                column=column,
                name=row_names(first.tidy, [row])[0],
            )


def _shown(cell: str | None) -> str:
    """Quote a cell of metadata for a message; a missing cell is "nothing"."""
    if cell is None:
        return "nothing"
    return shown(cell)


def _describe(read: Mapping[str, Embeddings], digests: Mapping[str, str | None]) -> EmbeddingsInfo:
    """Return the description of the joined table, which is written as metadata of its file.

    `read` has the tables to join by name, and `digests` the digest of each table's encoder. Keys of
    the tables' descriptions with equal values are kept. The digests of people on whom the encoders
    were trained are put into one list, and `_describe_runs` describes each table's columns.
    """
    infos = list(map(attrgetter("info"), read.values()))
    contents = list(map(EmbeddingsInfo.content, infos))
    shared = shared_content(contents)
    people = join_people(list(map(EmbeddingsInfo.known_people, infos)))
    unknown = []
    for name, table in read.items():
        if table.info.pretraining_subjects is None:
            unknown.append(name)
    subjects = None
    if len(unknown) < len(infos):
        subjects = sorted(people.subjects or ())
    info = {key: shared[key] for key in _SHARED if key in shared} | {
        "run": _describe_runs(read, digests),
        "pretraining_subjects": subjects,
        "pretraining_contents": sorted(people.contents),
        "pretraining_contents_complete": people.is_complete,
        "pretraining_unknown": unknown,
        "simulated": any(map(attrgetter("simulated"), infos)),
        "flow": contents[0].get("flow"),
        "environment": describe_environment(),
    }
    return EmbeddingsInfo.model_validate(info)


def _describe_runs(read: Mapping[str, Embeddings], digests: Mapping[str, str | None]) -> Json:
    """Return the description of the joined table's run: shared keys, and the columns of each run.

    `read` has the embeddings tables by name, each with the description of the run that made the
    table. Keys of the descriptions with equal values are kept. ``blocks`` has, by name of a table,
    the columns of its features and the description of its run. `digests` is the name of a table →
    digest of its encoder, or None.
    """
    runs = []
    preprocessing = []
    for table in read.values():
        runs.append(table.info.run.content())
        preprocessing.append(table.info.run.preprocessing.content())
    run = shared_content(runs)
    run["preprocessing"] = shared_content(preprocessing)
    blocks = {}
    n_features = 0
    for name, table in read.items():
        first = n_features
        n_features = n_features + table.features.shape[1]
        content = table.info.content()
        blocks[name] = {
            "n_features": n_features - first,
            "columns": [f"feature_{first:04d}", f"feature_{n_features - 1:04d}"],
            "encoder": digests[name],
            "objective": content.get("objective"),
            **{key: content[key] for key in _OPTIONS if key in content},
            "run": table.info.run.content(),
        }
    run |= {"name": " + ".join(read), "n_features": n_features, "blocks": blocks}
    sha256s = list(digests.values())
    if None not in sha256s:
        run["weights"] = {"sha256": digest_of(*sha256s)}
    return run
