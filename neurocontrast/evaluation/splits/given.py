"""Read folds from a table, from any splitter, or from a column of train, validation and test."""

import inspect
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.utils.metadata_routing import get_routing_for_object

from neurocontrast.cells import is_missing
from neurocontrast.data.columns import levels_of
from neurocontrast.data.listing import read_table
from neurocontrast.data.problems import shown
from neurocontrast.documents.notice import Notice
from neurocontrast.evaluation.rows import (
    NO_SITE,
    Rows,
    Texts,
    listed,
    row_names,
    scan_codes,
    site_names,
)
from neurocontrast.evaluation.splits.splitters import Split, parts_of
from neurocontrast.evaluation.target import Target
from neurocontrast.exceptions import ConfigError, DataError, LeakageError, one_of, suggestion

_NEEDED = ("participant_id", "repeat", "fold")
_NEVER_TESTED = -1


def split_table(table: pd.DataFrame, splits: list[Split]) -> pd.DataFrame:
    """Tabulate the fold that tests each scan in each repeat, and the site that the fold holds out.

    `table` has the scans. The result has a row for each repeat and scan. The fold is empty for a
    scan that is only trained on. If a column names the test rows, the column ``split`` names the
    scan's part: train, validation or test.
    """
    repeats = []
    for repeat in sorted({split.repeat for split in splits}):
        fold = pd.Series(pd.NA, index=table.index, dtype="Int64")
        site = pd.Series(None, index=table.index, dtype=object)
        for split in (split for split in splits if split.repeat == repeat):
            fold.iloc[split.test] = split.fold
            site.iloc[split.test] = split.held_out_site
        scans = table[["participant_id", "session"]].assign(
            repeat=repeat, fold=fold, held_out_site=site
        )
        if splits[0].validation is not None:
            scans["split"] = "train"
            for name, rows in parts_of(splits[0]).items():
                scans.iloc[rows, -1] = name
        repeats.append(scans)
    return pd.concat(repeats, ignore_index=True)


def read_split_file(path: str | os.PathLike[str]) -> pd.DataFrame:
    """Read a tab-separated table with participant_id, repeat and fold, and optionally session.

    An empty fold (or ``n/a``) marks a scan that is trained on in every fold and never tested; the
    returned table has -1 there.
    """
    file = Path(path)
    remedy = "Give the splits.tsv of an evaluation."
    frame = read_table(file, needed=_NEEDED, dtype=str, remedy=remedy)
    if "session" not in frame:
        frame["session"] = ""
    frame["session"] = frame["session"].mask(frame["session"].map(is_missing), "")
    frame["fold"] = frame["fold"].mask(frame["fold"].map(is_missing), str(_NEVER_TESTED))
    for name in ("repeat", "fold"):
        frame[name] = _whole_numbers(frame[name], file.name)
    if frame.empty:
        raise DataError(f"split_file '{file.name}': has no rows. Give one a scan and repeat.")
    return frame


def splits_from_table(frame: pd.DataFrame, table: pd.DataFrame) -> list[Split]:
    """Return the splits of a split file for the scans of `table`, in order of repeat and fold.

    `frame` is the table that `read_split_file` returns. If every fold tests all scans of one site,
    each split names the site as held out.
    """
    folds_of = []
    for repeat in range(frame["repeat"].max() + 1):
        folds_of.append(_align(frame[frame["repeat"] == repeat], table, repeat))
    subjects = table["subject_id"].to_numpy(dtype=object).astype(str)
    splits = list[Split]()
    for repeat, folds in enumerate(folds_of):
        if folds.max() == _NEVER_TESTED:
            raise DataError(
                f"split_file: repeat {repeat} has an empty fold in every row: nobody would be "
                "tested."
            )
        for fold in range(int(folds.max()) + 1):
            test = np.flatnonzero(folds == fold)
            if not len(test):
                raise DataError(
                    f"split_file: repeat {repeat} has no scan in fold {fold}. Number folds 0, 1, 2 "
                    "…"
                )
            train = np.flatnonzero((folds != fold) & ~np.isin(subjects, subjects[test]))
            splits.append(Split(repeat, fold, train, test))
    splits = _find_sites_held_out(splits, table["site"])
    if splits[0].held_out_site is None:
        _check_whole_subjects(folds_of, subjects)
    return splits


def _check_whole_subjects(
    folds_of: Sequence[npt.NDArray[np.int64]], subjects: npt.NDArray[np.str_]
) -> None:
    """Refuse a split file that puts scans of a subject into different folds of a repeat.

    `folds_of` has for each repeat the fold of each scan.
    """
    for repeat, folds in enumerate(folds_of):
        n_folds = pd.Series(folds).groupby(subjects).nunique()
        straddling = list(n_folds.index[n_folds > 1])
        if straddling:
            raise LeakageError(
                f"split_file: in repeat {repeat} scans of {len(straddling)} subjects are in "
                "different folds "
                f"({', '.join(straddling[:5])}). Give all scans of a subject the same fold."
            )


def _whole_numbers(texts: pd.Series, name: str) -> npt.NDArray[np.int64]:
    """Return the cells `texts` of a split file's column ``repeat`` or ``fold`` as whole numbers.

    Any other cell is refused; the message has the file's `name` and the row.
    """
    numbers = pd.to_numeric(texts, errors="coerce")
    lowest = _NEVER_TESTED if texts.name == "fold" else 0
    # There are no more folds, or repeats, than rows that list them.
    wrong = np.flatnonzero(
        numbers.isna() | (numbers < lowest) | (numbers % 1 != 0) | (numbers >= len(numbers))
    )
    if len(wrong):
        examples = ", ".join(f"row {row + 2}: {shown(texts.iloc[row])}" for row in wrong[:5])
        raise DataError(
            f"split_file '{name}', column '{texts.name}': must be 0, 1, 2 …, found {examples}."
        )
    return numbers.to_numpy(dtype=np.int64)


def _align(part: pd.DataFrame, table: pd.DataFrame, repeat: int) -> npt.NDArray[np.int64]:
    """Return the fold of each scan of `table` in one repeat of a split file; -1 if never tested.

    `part` has the file's rows of the repeat. Refused are scans of `table` that are not in `part`,
    scans that are only in `part`, and scans listed twice.
    """
    keys = pd.MultiIndex.from_frame(table[["participant_id", "session"]])
    listed_scans = pd.MultiIndex.from_frame(part[["participant_id", "session"]])
    if listed_scans.has_duplicates:
        twice = ", ".join(
            sorted(str(key[0]) for key in set(listed_scans[listed_scans.duplicated()]))[:5]
        )
        raise DataError(
            f"split_file: repeat {repeat} lists scans twice ({twice}). Keep one row a scan and "
            "repeat."
        )
    unlisted = np.flatnonzero(~keys.isin(listed_scans))
    foreign = listed_scans[~listed_scans.isin(keys)]
    if len(unlisted):
        raise DataError(
            f"split_file: repeat {repeat} lacks {len(unlisted)} of the {len(table)} scans to "
            "evaluate "
            f"({', '.join(row_names(table, unlisted[:5]))}). Add them, or leave them out with "
            "where."
        )
    if len(foreign):
        named = ", ".join(" session ".join(filter(None, key)) for key in foreign[:5])
        raise DataError(
            f"split_file: repeat {repeat} has {len(foreign)} scans that are not among those to "
            f"evaluate ({named}). Use "
            "the embeddings table, target and where of the evaluation that wrote it, or remove "
            "these rows."
        )
    return part.set_index(listed_scans).loc[keys, "fold"].to_numpy(dtype=np.int64)


def describe_splitter(cv: Any) -> str:
    """Return text for a splitter `cv`: its repr, or its class if the repr has a memory address.

    Pairs of training and test rows in place of a splitter are described in words.
    """
    if not hasattr(cv, "split"):
        return "pairs of training and test rows"
    expression = repr(cv)
    if " at 0x" in expression:
        return type(cv).__name__
    return expression


def splits_from_cv(
    cv: Any,
    *,
    features: npt.NDArray[np.floating],
    target: Target,
    subjects: Texts,
    sites: pd.Series,
) -> list[Split]:
    """Return the splits of a splitter, or of index pairs, numbered by repeat and fold.

    A splitter is called with X, y and, where it takes them, `groups` (the subject of each scan) and
    `sites`. A repeat ends where a scan would be tested in it for the second time. If every split
    tests all scans of one site and no other scans, each split is marked with the site
    (`Split.held_out_site`), as a split of `LeaveSiteOut` is; its rows are unchanged.
    """
    pairs = []
    for number, pair in enumerate(_pairs(cv, features, target, subjects, sites)):
        pairs.append(_checked(number, pair, len(subjects)))
    if len(pairs) < 2:
        raise DataError(
            f"cv: at least two splits are needed, and {describe_splitter(cv)} makes {len(pairs)}."
        )
    tested = np.zeros(len(subjects), dtype=bool)
    splits: list[Split] = []
    repeat = 0
    fold = 0
    for train, test in pairs:
        if tested[test].any():
            repeat += 1
            fold = 0
            tested[:] = False
        tested[test] = True
        splits.append(Split(repeat, fold, train, test))
        fold += 1
    return _find_sites_held_out(splits, sites)


def _pairs(
    cv: Any, features: npt.NDArray[np.floating], target: Target, subjects: Texts, sites: pd.Series
) -> list[Any]:
    """Return the pairs of training and test rows that a splitter or an iterable `cv` makes.

    An error that the splitter raises becomes a `DataError` that names the splitter.
    """
    if not hasattr(cv, "split") or isinstance(cv, str):
        if not isinstance(cv, Iterable) or isinstance(cv, str):
            raise ConfigError(
                "cv: must be a splitter of scikit-learn's kind (with split and get_n_splits) or "
                "pairs of training and "
                f"test rows, got {cv!r:.80}. For a number of folds use n_folds."
            )
        return list(cv)
    columns = {"groups": subjects, "sites": sites.to_numpy(dtype=object)}
    if hasattr(cv, "get_metadata_routing"):
        taken = get_routing_for_object(cv).consumes("split", columns)
    else:
        taken = set(inspect.signature(cv.split).parameters)
    names = [name for name in columns if name in taken]
    try:
        return list(cv.split(features, target.values, **{name: columns[name] for name in names}))
    except (TypeError, ValueError) as error:
        passed = ", ".join(["X (features)", f"y ({target.name})", *names])
        raise DataError(
            f"cv: {describe_splitter(cv)} refused these scans; it was given {passed}: {error}"
        ) from error


def _checked(number: int, pair: Any, n_rows: int) -> tuple[Rows, Rows]:
    """Return training and test rows of a user's split; refuse rows that form no valid split.

    `pair` is the split, and `number` counts the splits for messages. Rows must be different
    positions in a table of `n_rows` rows, at least one on each side, and none on both.
    """
    try:
        train, test = (np.asarray(rows) for rows in pair)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"cv: split {number} must be a pair of training and test rows ({error})."
        ) from error
    train = _as_positions(train, n_rows)
    test = _as_positions(test, n_rows)
    for name, rows in (("training", train), ("test", test)):
        are_positions = (
            rows.ndim == 1 and rows.dtype.kind in "iu" and np.isin(rows, np.arange(n_rows)).all()
        )
        if not are_positions or not 0 < len(np.unique(rows)) == rows.size:
            raise DataError(
                f"cv: the {name} rows of split {number} must be different whole numbers from 0 to "
                f"{n_rows - 1}, "
                f"rows of the {n_rows} scans that are evaluated, one at least; found "
                f"{rows.ravel()[:5].tolist()}."
            )
    both = np.intersect1d(train, test)
    if len(both):
        raise LeakageError(
            f"cv: split {number} trains on {len(both)} rows that it tests too "
            f"({both[:5].tolist()})."
        )
    return np.sort(train).astype(np.intp), np.sort(test).astype(np.intp)


def _as_positions(rows: npt.NDArray[Any], n_rows: int) -> npt.NDArray[Any]:
    """Return the positions that a mask of `n_rows` rows marks; return other `rows` unchanged."""
    if rows.dtype == bool and rows.shape == (n_rows,):
        return np.flatnonzero(rows)
    return rows


def _find_sites_held_out(splits: list[Split], sites: pd.Series) -> list[Split]:
    """Return splits with the site that each holds out, if each split tests all scans of one site.

    If not, the splits are returned unchanged. `sites` has the site of each scan.
    """
    site_of = site_names(sites)
    holding_out = []
    for split in splits:
        others = set(site_of[split.test])
        site = others.pop()
        untested = np.setdiff1d(np.flatnonzero(site_of == site), split.test)
        if others or site == NO_SITE or len(untested):
            return splits
        holding_out.append(replace(split, held_out_site=str(site)))
    return holding_out


PARTS = ("train", "validation", "test")
"""Words that a split column may hold; validation may be absent."""


def fixed_split(table: pd.DataFrame, column: str) -> Split:
    """Return the one split that a column of ``train``, ``validation`` and ``test`` describes.

    `Split.train` holds the rows of train and of validation.
    """
    if column not in table:
        raise ConfigError(
            f"split_column: there is no column '{column}'.{suggestion(column, table.columns)} "
            f"Columns: {one_of(list(table.columns)[:30])}."
        )
    texts = np.array([level or "n/a" for level in levels_of(column, table[column])], dtype=object)
    wrong = np.flatnonzero(~np.isin(texts, PARTS))
    if len(wrong):
        examples = ", ".join(f"{row_names(table, [row])[0]}: '{texts[row]}'" for row in wrong[:5])
        raise DataError(
            f"split_column '{column}': must be train, validation or test in every row, but "
            f"{len(wrong)} of "
            f"{len(table)} have something else ({examples}).{suggestion(texts[wrong[0]], PARTS)} "
            "Correct them, or leave "
            "these rows out with where."
        )
    empty = [name for name in ("train", "test") if not (texts == name).any()]
    if empty:
        raise DataError(
            f"split_column '{column}': no row is of {one_of(empty)} (of {len(table)} rows with a "
            "target that `where` "
            "keeps). Both are needed; validation may be absent."
        )
    train = np.flatnonzero(texts == "train")
    validation = np.flatnonzero(texts == "validation")
    test = np.flatnonzero(texts == "test")
    return Split(0, 0, np.sort(np.concatenate([train, validation])), test, validation=validation)


def check_fixed(split: Split, target: Target, subjects: npt.NDArray[np.object_]) -> None:
    """Refuse a split by column whose parts share a subject, or whose train or test lacks classes.

    Train and test need two classes, or two numbers; train needs every class of validation and test.
    """
    parts = parts_of(split)
    for first, second in combinations(PARTS, 2):
        shared = sorted(map(str, set(subjects[parts[first]]) & set(subjects[parts[second]])))
        if shared:
            raise LeakageError(
                f"split_column: {len(shared)} subjects are in {first} and in {second} "
                f"({listed(shared)}). Put all rows of "
                "a subject_id into one part, or leave subject_id out where every row is an image "
                "of its own."
            )
    present = {name: set(target.values[rows].tolist()) for name, rows in parts.items()}
    for name in ("train", "test"):
        if len(present[name]) < 2:
            (only,) = present[name]
            value = f"value {only:g}"
            if target.kind != "continuous":
                value = f"class '{target.classes[int(only)]}'"
            raise DataError(
                f"target '{target.name}': the {len(parts[name])} rows of {name} have the one "
                f"{value}. Two are needed: "
                "correct the split column, or draw other rows."
            )
    unseen = sorted((present["validation"] | present["test"]) - present["train"])
    if unseen and target.kind != "continuous":
        raise DataError(
            f"target '{target.name}': no row of train has "
            f"{one_of(target.classes[int(code)] for code in unseen)}, "
            "which validation or test has: it could not be learned. Put some of its rows into "
            "train, or leave the "
            f"class out with where={{'{target.name}': [...]}}."
        )


def look_at_fixed(split: Split, target: Target) -> Iterator[Notice]:
    """Yield warnings of classes without a test row, and of a split without any validation row."""
    tested = set(target.values[split.test].tolist())
    lacking = [name for code, name in enumerate(target.classes) if code not in tested]
    if lacking:
        yield Notice.of("class_untested", names=one_of(lacking))
    if split.validation is None or not len(split.validation):
        yield Notice.of("no_validation")


def look_at_twins(
    features: npt.NDArray[np.floating], contents: Iterable[str], split: Split
) -> tuple[int, list[Notice]]:
    """Count the test rows of a split that are copies of its training rows; warn if there are any.

    A copy has equal features to the last bit, or shares a digest in `contents`, which has the
    digests of each row's scan. The number and a list of warnings are returned. Copies are not
    refused: official sets hold some images twice, and results published on such a set include the
    copies.
    """
    codes = scan_codes(features, contents)
    n = int(np.isin(codes[split.test], codes[split.train]).sum())
    if not n:
        return 0, []
    return n, [Notice.of("twins", n=n, n_all=len(split.test))]
