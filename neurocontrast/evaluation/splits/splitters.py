"""Make folds with equal shares of classes and sites, or hold sites out; subjects stay whole."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import check_random_state, column_or_1d, indexable
from sklearn.utils.multiclass import type_of_target

from neurocontrast.data.levels import check_spelling
from neurocontrast.evaluation.rows import (
    NO_SITE,
    Floats,
    Labels,
    Rows,
    Texts,
    cell_texts,
    listed,
    site_names,
)
from neurocontrast.evaluation.target import Target
from neurocontrast.exceptions import ConfigError, DataError, LeakageError, one_of
from neurocontrast.seeds import derive_generator


@dataclass(frozen=True)
class Split:
    """Split of a table: rows to train on and rows to test on."""

    repeat: int
    fold: int
    train: Rows
    test: Rows
    held_out_site: str | None = None
    """Site whose scans are all in `test`; None where no site is held out."""
    validation: Rows | None = None
    """Rows of `train` to choose the penalty on; empty: a fifth of `train`; None: inner folds."""

    @property
    def named(self) -> str:
        """Name of the split in messages: the site that is held out, or the fold that is tested."""
        if self.held_out_site:
            return f"site '{self.held_out_site}' is held out"
        return f"fold {self.fold} is tested"


class SiteStratifiedGroupKFold(BaseCrossValidator):
    """Split by subject into folds that hold the same share of every class at every site.

    Subjects are put in order of class, then site, then chance, and dealt to the folds like cards:
    between folds, the numbers of subjects of each class, and of each class at each site, differ by
    at most one. A continuous target is dealt within site in order of its value, chance deciding
    inside each run of `n_splits` neighbours. A subject whose scans differ counts as the rarest of
    its classes (continuous: their mean) and of its sites; scans without a site form a site of their
    own.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds, at least 2.
    n_repeats : int, default=1
        Number of times that the folds are dealt anew.
    kind : {"auto", "categorical", "continuous"}, default="auto"
        How `y` is read; ``auto`` follows `sklearn.utils.multiclass.type_of_target`.
    random_state : int, RandomState instance or None, default=None
        An int deals the folds of `neurocontrast.evaluate` with this seed; None deals other folds in
        every call.

    Notes
    -----
    `split` takes subject and site of each row as two columns of `groups` (or a DataFrame with
    `subject_id` and `site`), as every function of scikit-learn passes them; or, with metadata
    routing, subjects as `groups` and sites as `sites`.
    `sklearn.model_selection.permutation_test_score` permutes labels within its `groups` and takes
    one column there: give it ``cv=list(splitter.split(X, y, table[["subject_id", "site"]]))``, or
    both by metadata routing.

    Examples
    --------
    >>> import numpy as np
    >>> from neurocontrast.evaluation import SiteStratifiedGroupKFold
    >>> subjects = ["sub-1", "sub-1", "sub-2", "sub-3", "sub-4"]
    >>> groups = np.stack([subjects, ["a", "a", "b", "a", "b"]], axis=1)
    >>> y = np.array([0, 0, 0, 1, 1])
    >>> for train, test in SiteStratifiedGroupKFold(n_splits=2, random_state=0).split(y, y, groups):
    ...     print(groups[test, 0].tolist(), y[test])
    ['sub-1', 'sub-1', 'sub-3'] [0 0 1]
    ['sub-2', 'sub-4'] [0 1]
    """

    # scikit-learn's own convention
    __metadata_request__split = {"groups": True, "sites": True}  # noqa: RUF012

    def __init__(
        self,
        n_splits: int = 5,
        *,
        n_repeats: int = 1,
        kind: Literal["auto", "categorical", "continuous"] = "auto",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        for name, value, least in (("n_splits", n_splits, 2), ("n_repeats", n_repeats, 1)):
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
                raise ConfigError(f"{name}: must be a whole number from {least} on, got {value!r}.")
        if kind not in ("auto", "categorical", "continuous"):
            raise ConfigError(f"kind: must be 'auto', 'categorical' or 'continuous', got {kind!r}.")
        self.n_splits = n_splits
        self.n_repeats = n_repeats
        self.kind = kind
        self.random_state = random_state

    def get_n_splits(
        self, X: Any = None, y: Any = None, groups: Any = None, sites: Any = None
    ) -> int:
        """Return the number of splits: folds times repeats."""
        del X, y, groups, sites
        return int(self.n_splits * self.n_repeats)

    def split(
        self, X: Any, y: Any = None, groups: Any = None, sites: Any = None
    ) -> Iterator[tuple[Rows, Rows]]:
        """Yield training and test rows, repeat after repeat; of `X` only the length counts."""
        if y is None:
            raise DataError("y: SiteStratifiedGroupKFold needs the target of each row, found None.")
        indexable(X, y, groups, sites)
        values = column_or_1d(y)
        owners, places = subjects_and_sites(groups, sites, splitter=type(self).__name__)
        n_subjects = len(set(owners))
        if n_subjects < self.n_splits:
            raise DataError(
                f"n_splits: {self.n_splits} folds need as many subjects, found {n_subjects}."
            )
        kind = type_of_target(values, input_name="y") if self.kind == "auto" else self.kind
        if kind not in ("binary", "multiclass", "categorical", "continuous"):
            raise DataError(f"y: must be one column of classes or of numbers, found {kind}.")
        seed = self.random_state
        if not isinstance(seed, int | np.integer):
            seed = check_random_state(seed).randint(2**31 - 1)
        site_of = subject_values(np.unique(places, return_inverse=True)[1], owners)
        value_of = subject_values(values, owners, average=kind == "continuous")
        row_owner = np.unique(owners, return_inverse=True)[1]
        for repeat in range(self.n_repeats):
            generator = derive_generator("folds", int(seed), repeat)
            if kind == "continuous":
                fold_of = _deal_ordered(value_of, site_of, self.n_splits, generator)[row_owner]
            else:
                fold_of = deal_subjects([value_of, site_of], self.n_splits, generator)[row_owner]
            for fold in range(self.n_splits):
                yield np.flatnonzero(fold_of != fold), np.flatnonzero(fold_of == fold)


class LeaveSiteOut(BaseCrossValidator):
    """Hold out one site after the other, with every subject that was scanned there.

    A subject scanned at several sites is tested at each, and none of the subject's scans is trained
    on meanwhile. Sites come in alphabetical order.

    Notes
    -----
    `split` takes subjects and sites as that of `SiteStratifiedGroupKFold` does, or sites alone as
    `groups`, if nobody was scanned at two of them. A row without a site is refused, since it could
    belong to the site held out.

    Examples
    --------
    >>> import numpy as np
    >>> from neurocontrast.evaluation import LeaveSiteOut
    >>> groups = np.array([["sub-1", "a"], ["sub-1", "b"], ["sub-2", "b"], ["sub-3", "a"]])
    >>> for train, test in LeaveSiteOut().split(groups, groups=groups):
    ...     print(train, test)
    [2] [0 3]
    [3] [1 2]
    """

    # scikit-learn's own convention
    __metadata_request__split = {"groups": True, "sites": True}  # noqa: RUF012

    def get_n_splits(
        self, X: Any = None, y: Any = None, groups: Any = None, sites: Any = None
    ) -> int:
        """Return the number of sites in `groups` or `sites`, each of which is held out once."""
        del X, y
        return len(
            set(subjects_and_sites(*_of_site(groups, sites), splitter=type(self).__name__)[1])
        )

    def split(
        self, X: Any, y: Any = None, groups: Any = None, sites: Any = None
    ) -> Iterator[tuple[Rows, Rows]]:
        """Yield training and test rows, site after site; of `X` and `y` only the length counts."""
        indexable(X, y, groups, sites)
        owners, places = subjects_and_sites(*_of_site(groups, sites), splitter=type(self).__name__)
        for split in leave_site_out(
            places, owners, names=[f"row {row}" for row in range(len(owners))]
        ):
            yield split.train, split.test


def stratified(
    target: Target,
    sites: npt.ArrayLike,
    subjects: npt.ArrayLike,
    *,
    n_folds: int,
    n_repeats: int,
    seed: int,
) -> list[Split]:
    """Return the splits of `SiteStratifiedGroupKFold`, each with its repeat and fold number.

    `sites` and `subjects` have an entry for each scan. Where the site is the target, sites do not
    stratify.
    """
    if target.name == "site":
        sites = np.full(np.shape(sites), NO_SITE, dtype=object)
    kind: Literal["categorical", "continuous"] = "categorical"
    if target.kind == "continuous":
        kind = "continuous"
    splitter = SiteStratifiedGroupKFold(n_folds, n_repeats=n_repeats, kind=kind, random_state=seed)
    splits = []
    pairs = splitter.split(target.values, target.values, subjects, sites)
    for number, (train, test) in enumerate(pairs):
        repeat, fold = divmod(number, n_folds)
        splits.append(Split(repeat, fold, train, test))
    return splits


def leave_site_out(
    sites: npt.ArrayLike, subjects: npt.ArrayLike, *, names: Sequence[str]
) -> list[Split]:
    """Return the numbered splits of `LeaveSiteOut`, each with its held-out site.

    `sites` and `subjects` have an entry for each scan; `names` are the scans' names for messages.
    """
    places = np.array(sites, dtype=object)
    unknown = np.flatnonzero(places == NO_SITE)
    if len(unknown):
        unplaced = listed([names[row] for row in unknown.tolist()])
        raise DataError(
            f"splits 'leave-site-out': site is missing for {len(unknown)} of {len(places)} scans "
            f"({unplaced}), and any "
            "of them could belong to the site held out. Fill in their site, drop them with where, "
            "or use "
            "splits=stratified."
        )
    distinct_sites = sorted(set(places), key=str)
    if len(distinct_sites) < 2:
        raise DataError(
            "splits 'leave-site-out': needs at least two sites, found "
            f"{one_of(map(str, distinct_sites))}. "
            "Use splits=stratified."
        )
    check_spelling(map(str, distinct_sites), place="splits 'leave-site-out'", unit="sites")
    owners = np.asarray(subjects, dtype=object)
    splits = []
    for fold, site in enumerate(distinct_sites):
        test = places == site
        train = ~test & ~np.isin(owners.astype(str), owners[test].astype(str))
        splits.append(Split(0, fold, np.flatnonzero(train), np.flatnonzero(test), str(site)))
    return splits


def deal_subjects(keys: Sequence[Labels], n_folds: int, generator: np.random.Generator) -> Rows:
    """Return the fold of each subject: subjects, sorted by `keys`, are put into folds in turn.

    A key has a value for each subject, such as the class; the first key counts most. Subjects with
    equal keys are sorted at random. The result is in the order of subjects in the keys.
    """
    n = len(keys[0])
    order = np.lexsort((generator.random(n), *reversed(keys)))
    fold_of = np.empty(n, dtype=np.intp)
    fold_of[order] = (np.arange(n) + generator.integers(n_folds)) % n_folds
    return generator.permutation(n_folds)[fold_of]


def _deal_ordered(
    value_of: Floats, site_of: Floats, n_folds: int, generator: np.random.Generator
) -> Rows:
    """Return the fold of each subject: within site, neighbours in value get different folds.

    `value_of` has each subject's value of the target, and `site_of` a code of the subject's site;
    the result is in the same order.
    """
    n = len(value_of)
    order = np.lexsort((generator.random(n), value_of, site_of))
    hands = [generator.permutation(n_folds) for _ in range(-(-n // n_folds))]
    fold_of = np.empty(n, dtype=np.intp)
    fold_of[order] = np.concatenate(hands)[:n]
    return fold_of


def subject_values(values: Labels, owners: Texts, *, average: bool = False) -> Floats:
    """Return one value a subject, in sorted order of subjects: the mean, or the rarest value.

    `values` has a value for each scan, and `owners` the scan's subject; with `average` the mean is
    taken. Of a subject's different values the one is taken that fewest subjects have: a rare class
    that subjects have in addition to a common one, as converters do, is then spread over folds too.
    """
    codes = np.unique(owners, return_inverse=True)[1]
    if average:
        return np.bincount(codes, weights=values.astype(float)) / np.bincount(codes)
    kinds, kind_codes = np.unique(values, return_inverse=True)
    has = np.zeros((codes.max() + 1, len(kinds)), dtype=bool)
    has[codes, kind_codes] = True
    return np.where(has, has.sum(axis=0), np.inf).argmin(axis=1).astype(float)


def group_sites(sites: Labels, n_groups: int) -> list[list[str]]:
    """Return the sites in at most `n_groups` groups of about equal numbers of scans.

    `sites` has the site of each scan. The largest sites come first, each into the emptiest group.
    """
    names, sizes = np.unique(sites.astype(str), return_counts=True)
    groups: list[list[str]] = [[] for _ in range(min(n_groups, len(names)))]
    filled = np.zeros(len(groups))
    for number in np.lexsort((names, -sizes)):
        groups[int(filled.argmin())].append(str(names[number]))
        filled[filled.argmin()] += sizes[number]
    return groups


def subjects_and_sites(groups: Any, sites: Any, *, splitter: str) -> tuple[Texts, Texts]:
    """Return subject and site of each row from the `groups` and `sites` that a splitter was given.

    The site is `NO_SITE` for a row without one; a row without a subject is refused. `splitter` is
    the splitter's name in messages.
    """
    if (
        sites is None
        and isinstance(groups, pd.DataFrame)
        and {"subject_id", "site"} <= set(groups.columns)
    ):
        groups = groups[["subject_id", "site"]]
    pairs = np.asarray(groups, dtype=object)
    if sites is not None and pairs.shape == np.shape(sites):
        pairs = np.stack([pairs, np.asarray(sites, dtype=object)], axis=-1)
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise DataError(
            f"groups: {splitter} needs subject and site of each row, and found groups of shape "
            f"{np.shape(groups)}. "
            "Give table[['subject_id', 'site']], or groups=subjects with sites=sites of one value "
            "a row."
        )
    subjects = cell_texts(pairs[:, 0])
    unknown = [row for row, subject in enumerate(subjects) if subject is None]
    if unknown:
        raise DataError(
            f"groups: the subject is missing in {len(unknown)} of {len(subjects)} rows (first: "
            f"{unknown[:5]}). Name a "
            "subject in every row, so that nobody is on both sides of a split."
        )
    return np.array(subjects, dtype=object), site_names(pairs[:, 1])


def _of_site(groups: Any, sites: Any) -> tuple[Any, Any]:
    """Return subjects and sites of `LeaveSiteOut`, also where `groups` is a lone column of sites.

    If `sites` is None and `groups` is one column, the column is returned as the second value, the
    sites, and a number for each row as the first: each row counts as a subject of its own. Such a
    column is refused as one of subjects if it is called ``subject_id`` or ``participant_id``, or if
    the values of all rows differ. If `sites` is given, or `groups` has several columns, such as
    subject and site, `groups` and `sites` are returned unchanged.
    """
    column = np.asarray(groups, dtype=object)
    column = column[:, 0] if column.ndim == 2 and column.shape[1] == 1 else column
    if sites is not None or column.ndim != 1:
        return groups, sites
    name = str(getattr(groups, "name", None) or next(iter(getattr(groups, "columns", [])), ""))
    if name in ("subject_id", "participant_id") or len(set(map(str, column))) == len(column) > 1:
        raise DataError(
            "groups: LeaveSiteOut takes one column as sites, and these are subjects, or each row "
            "is a site of its "
            "own. Give table[['subject_id', 'site']], or the sites."
        )
    return np.arange(len(column)), column


def parts_of(split: Split) -> dict[str, Rows]:
    """Return ``train``, ``validation`` and ``test`` → positions of the rows of a split's parts.

    ``train`` lacks the rows of ``validation``; in cross-validation, ``validation`` has none.
    """
    validation = split.validation
    if validation is None:
        validation = np.empty(0, dtype=np.intp)
    train = np.setdiff1d(split.train, validation, assume_unique=True)
    return {"train": train, "validation": validation, "test": split.test}


def check_splits(splits: Sequence[Split], target: Target, subjects: npt.ArrayLike) -> None:
    """Refuse splits with a subject on both sides, or with too few classes or values to train on.

    A continuous target must vary in the training rows. For classes, training rows need two classes
    or more, and two subjects of each class that they have. `subjects` has the subject of each row.
    """
    owners = np.asarray(subjects, dtype=object).astype(str)
    for split in splits:
        shared = sorted(set(owners[split.train]) & set(owners[split.test]))
        if shared:
            raise LeakageError(
                f"repeat {split.repeat}, fold {split.fold}: {len(shared)} subjects are on both "
                "sides "
                f"({', '.join(shared[:5])}). Put all scans of a subject into one fold."
            )
        why = _why_unteachable(split, target, owners)
        if why is not None:
            raise DataError(
                f"target '{target.name}': when {split.named}, {why}. Use splits=stratified, or "
                "leave that site or "
                "class out with where."
            )


def _why_unteachable(split: Split, target: Target, owners: npt.NDArray[np.str_]) -> str | None:
    """Return as text why the training rows of a split are too few or too alike; None if not.

    The reason is that a continuous target does not vary in the rows, that the rows have fewer than
    two classes, or that only one subject of a class is among them. `owners` has the subject of each
    row of the table.
    """
    people = owners[split.train]
    values = target.values[split.train]
    if target.kind == "continuous":
        if len(values) > 1 and np.ptp(values.astype(float)) > 0:
            return None
        return f"it does not vary in the {len(values)} scans that remain"
    present = []
    single = []
    for code, name in enumerate(target.classes):
        n_subjects = len(set(people[values == code]))
        if n_subjects:
            present.append(name)
        if n_subjects == 1:
            single.append(name)
    if len(present) < 2:
        only = one_of(present) or "no class"
        return f"the training scans have {only} only, so target and site cannot be told apart"
    if single:
        return f"only one subject of {one_of(single)} is left to train on; two are needed"
    return None


def check_class_sizes(target: Target, subjects: npt.ArrayLike, n_folds: int) -> None:
    """Refuse `n_folds` folds for too few subjects of a class, or of a continuous target.

    A class needs one subject for each fold, and two in every training fold; a continuous target
    needs two subjects for each fold.
    """
    owners = np.asarray(subjects, dtype=object).astype(str)
    if target.kind == "continuous":
        n = len(set(owners))
        hint = f"Set n_folds={n // 2}." if n >= 4 else "Evaluate a larger cohort."
        if n < 2 * n_folds:
            raise ConfigError(
                f"n_folds: {n_folds} folds need at least {2 * n_folds} subjects with "
                f"'{target.name}', found {n}. {hint}"
            )
        return
    counts = {
        name: len(set(owners[target.values == code])) for code, name in enumerate(target.classes)
    }
    # Two subjects of each class must stay in training, one of them for the inner folds.
    short = {name: n for name, n in counts.items() if n < n_folds or n - -(-n // n_folds) < 2}
    if short:
        n = min(counts.values())
        hint = f"Set n_folds={n}" if 3 <= n < n_folds else "Evaluate more subjects"
        hint += ", or leave a class out with where" if len(counts) > 2 else ""
        few = ", ".join(f"'{name}' has {n}" for name, n in short.items())
        raise ConfigError(
            f"n_folds: every class of '{target.name}' needs at least as many subjects as the "
            f"{n_folds} folds, and two "
            f"in every training fold; {few}. {hint}."
        )
