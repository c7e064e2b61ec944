"""Folds as a table: written with every evaluation, and read to use the same folds again."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.evaluation.rows import cell_texts, row_names
from neurocontrast.evaluation.splits.split import Split, parts_of
from neurocontrast.exceptions import DataError, LeakageError, one_of, suggestion

__all__ = ["read_split_file", "split_table", "splits_from_table"]

_NEEDED = ("participant_id", "repeat", "fold")
_NEVER_TESTED = -1


def split_table(table: pd.DataFrame, splits: list[Split]) -> pd.DataFrame:
    """Return one row a scan and repeat: the fold in which it is tested, and the site held out then.

    Scans that are only trained on have an empty fold; in the fixed design ``split`` says which part they are.
    """
    parts = []
    for repeat in sorted({split.repeat for split in splits}):
        part = table[["participant_id", "session"]].copy()
        part["repeat"] = repeat
        fold = pd.Series(pd.NA, index=table.index, dtype="Int64")
        site = pd.Series(None, index=table.index, dtype=object)
        for split in (split for split in splits if split.repeat == repeat):
            fold.iloc[split.test] = split.fold
            site.iloc[split.test] = split.held_out_site
        part["fold"], part["held_out_site"] = fold, site
        if splits[0].validation is not None:
            names = np.full(len(table), "train", dtype=object)
            for name, rows in parts_of(splits[0]).items():
                names[rows] = name
            part["split"] = names
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


def read_split_file(path: str | os.PathLike[str]) -> pd.DataFrame:
    """Read a tab-separated table with participant_id, repeat and fold, and optionally session and held_out_site.

    An empty fold (or ``n/a``) marks a scan that is trained on in every fold and never tested.

    Raises
    ------
    DataError
        If the file is absent, is no such table, or numbers repeats and folds by something else
        than 0, 1, 2 …
    """
    file = Path(path)
    if not file.is_file():
        raise DataError(f"split_file: there is no file '{file}'. Give the splits.tsv of an evaluation.")
    try:
        frame = pd.read_csv(file, sep="\t", dtype=str, keep_default_na=False)
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
        raise DataError(f"split_file '{file.name}': not readable as a tab-separated table ({error}).") from error
    missing = [name for name in _NEEDED if name not in frame]
    if missing:
        raise DataError(
            f"split_file '{file.name}': column {one_of(missing)} is needed.{suggestion(missing[0], frame.columns)} "
            f"It has: {one_of(frame.columns)}."
        )
    for name in ("session", "held_out_site"):
        frame[name] = frame[name].replace("n/a", "") if name in frame else ""
    frame["fold"] = frame["fold"].replace({"": str(_NEVER_TESTED), "n/a": str(_NEVER_TESTED)})
    for name in ("repeat", "fold"):
        frame[name] = _whole_numbers(frame[name], file.name)
    if frame.empty:
        raise DataError(f"split_file '{file.name}': has no rows. Give one a scan and repeat.")
    return frame


def splits_from_table(frame: pd.DataFrame, table: pd.DataFrame) -> list[Split]:
    """Return the folds of a split file for the scans of a table."""
    splits: list[Split] = []
    for repeat in range(int(frame["repeat"].max()) + 1):
        part = frame[frame["repeat"] == repeat]
        folds, sites = _align(part, table, repeat)
        if folds.max() == _NEVER_TESTED:
            raise DataError(f"split_file: repeat {repeat} has an empty fold in every row: nobody would be tested.")
        by_site = bool((part["held_out_site"] != "").any())
        if by_site:
            _check_sites(folds, sites, table, repeat)
        else:
            _check_subjects(folds, table, repeat)
        for fold in range(int(folds.max()) + 1):
            test = np.flatnonzero(folds == fold)
            if not len(test):
                raise DataError(f"split_file: repeat {repeat} has no scan in fold {fold}. Number folds 0, 1, 2 …")
            owners = set(table["subject_id"].iloc[test])
            train = np.flatnonzero((folds != fold) & ~table["subject_id"].isin(owners).to_numpy())
            splits.append(Split(repeat, fold, train, test, sites[test[0]] if by_site else None))
    return splits


def _whole_numbers(texts: pd.Series, name: str) -> npt.NDArray[np.int64]:
    numbers = pd.to_numeric(texts, errors="coerce")
    lowest = _NEVER_TESTED if texts.name == "fold" else 0
    # There are no more folds, or repeats, than rows that list them.
    wrong = np.flatnonzero(numbers.isna() | (numbers < lowest) | (numbers % 1 != 0) | (numbers >= len(numbers)))
    if len(wrong):
        found = ", ".join(f"row {row + 2}: '{texts.iloc[row]}'" for row in wrong[:5])
        raise DataError(f"split_file '{name}', column '{texts.name}': must be 0, 1, 2 …, found {found}.")
    return numbers.to_numpy(dtype=np.int64)


def _align(part: pd.DataFrame, table: pd.DataFrame, repeat: int) -> tuple[npt.NDArray[np.int64], list[str]]:
    keys = pd.MultiIndex.from_frame(table[["participant_id", "session"]])
    given = pd.MultiIndex.from_frame(part[["participant_id", "session"]])
    if given.has_duplicates:
        twice = ", ".join(sorted(str(key[0]) for key in set(given[given.duplicated()]))[:5])
        raise DataError(f"split_file: repeat {repeat} lists scans twice ({twice}). Keep one row a scan and repeat.")
    unlisted = np.flatnonzero(~keys.isin(given))
    if len(unlisted):
        raise DataError(
            f"split_file: repeat {repeat} lacks {len(unlisted)} of the {len(table)} scans to evaluate "
            f"({', '.join(row_names(table, unlisted[:5]))}). Add them, or leave them out with where."
        )
    foreign = given[~given.isin(keys)]
    if len(foreign):
        shown = ", ".join(" session ".join(part for part in key if part) for key in foreign[:5])
        raise DataError(
            f"split_file: repeat {repeat} has {len(foreign)} scans that are not among those to evaluate ({shown}). Use "
            "the same embeddings table, target and where as the evaluation that wrote it, or remove these rows."
        )
    ordered = part.set_index(given).loc[keys]
    return ordered["fold"].to_numpy(dtype=np.int64), [str(site) for site in ordered["held_out_site"]]


def _check_sites(folds: npt.NDArray[np.int64], said: list[str], table: pd.DataFrame, repeat: int) -> None:
    """Refuse a fold that says a site is held out, and is not that: the baseline and the report would believe it."""
    sites = np.array([text or "" for text in cell_texts(table["site"])], dtype=object)
    claimed = np.array(said, dtype=object)
    wrong = np.flatnonzero((folds != _NEVER_TESTED) & ((claimed != sites) | (sites == "")))
    if len(wrong):
        row = wrong[0]
        raise DataError(
            f"split_file: in repeat {repeat} held_out_site is not the site of {len(wrong)} scans (first: "
            f"{row_names(table, [row])[0]}, '{claimed[row]}' instead of '{sites[row]}'). Correct the column, or remove "
            "it where folds do not hold out sites."
        )
    for fold in range(int(folds.max()) + 1):
        tested = set(sites[folds == fold])
        left = np.flatnonzero(np.isin(sites, list(tested)) & (folds != fold))
        if len(left) or len(tested) > 1:
            how = f"tests the sites {one_of(sorted(tested))} together"
            if len(left):
                names = ", ".join(row_names(table, left[:5]))
                how = f"does not test {len(left)} scans of the site that it holds out ({names})"
            raise LeakageError(
                f"split_file: repeat {repeat}, fold {fold} {how}. Give all scans of a site one fold of their own, or "
                "remove the column held_out_site."
            )


def _check_subjects(folds: npt.NDArray[np.int64], table: pd.DataFrame, repeat: int) -> None:
    n_folds = pd.Series(folds).groupby(table["subject_id"].to_numpy()).nunique()
    straddling = list(n_folds.index[n_folds > 1])
    if straddling:
        raise LeakageError(
            f"split_file: in repeat {repeat} scans of {len(straddling)} subjects stand in different folds "
            f"({', '.join(map(str, straddling[:5]))}). Give all scans of a subject the same fold."
        )
