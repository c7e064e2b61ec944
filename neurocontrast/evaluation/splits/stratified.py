"""Folds by subject in which classes and sites are spread evenly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import check_random_state, column_or_1d, indexable
from sklearn.utils.multiclass import type_of_target

from neurocontrast.evaluation.splits.dealing import deal_ordered, deal_subjects, subject_values
from neurocontrast.evaluation.splits.fold import Split
from neurocontrast.evaluation.splits.groups import subjects_and_sites
from neurocontrast.evaluation.table import NO_SITE
from neurocontrast.evaluation.target import Target
from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.seeds import derive_generator

__all__ = ["SiteStratifiedGroupKFold", "stratified"]

Rows = npt.NDArray[np.intp]


class SiteStratifiedGroupKFold(BaseCrossValidator):
    """Split by subject into folds that hold the same share of every class at every site.

    Subjects are put in order of class, then site, then chance, and dealt to the folds like cards. So the numbers of
    subjects of each class, and of each class at each site, differ by at most one between folds, and all scans of a
    subject are in one fold. A continuous target is dealt within site in order of its value, chance deciding inside
    each run of `n_splits` neighbours. A subject whose scans differ counts as the rarest of its classes (continuous:
    their mean) and of its sites; scans without a site form a site of their own.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds, at least 2.
    n_repeats : int, default=1
        Number of times that the folds are dealt anew.
    kind : {"auto", "categorical", "continuous"}, default="auto"
        How `y` is read; ``auto`` follows `sklearn.utils.multiclass.type_of_target`.
    random_state : int, RandomState instance or None, default=None
        An int deals the folds that `neurocontrast.evaluate` deals with that seed. None: other folds in every call.

    Notes
    -----
    Subject and site reach `split` as two columns of `groups`, which works in every function of scikit-learn that takes
    `groups`; or, with metadata routing, as ``params={"groups": subjects, "sites": sites}``.

    Examples
    --------
    >>> import numpy as np
    >>> from neurocontrast.evaluation import SiteStratifiedGroupKFold
    >>> groups = np.array([["sub-1", "a"], ["sub-1", "a"], ["sub-2", "b"], ["sub-3", "a"], ["sub-4", "b"]])
    >>> y = np.array([0, 0, 0, 1, 1])
    >>> for train, test in SiteStratifiedGroupKFold(n_splits=2, random_state=0).split(y, y, groups):
    ...     print(groups[test, 0].tolist(), y[test])
    ['sub-1', 'sub-1', 'sub-3'] [0 0 1]
    ['sub-2', 'sub-4'] [0 1]
    """

    __metadata_request__split = {"groups": True, "sites": True}  # noqa: RUF012 - scikit-learn's own convention

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
        self.n_splits, self.n_repeats = n_splits, n_repeats
        self.kind, self.random_state = kind, random_state

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None, sites: Any = None) -> int:
        """Return the number of splits: folds times repeats; the arguments are not looked at."""
        del X, y, groups, sites
        return int(self.n_splits * self.n_repeats)

    def split(self, X: Any, y: Any = None, groups: Any = None, sites: Any = None) -> Iterator[tuple[Rows, Rows]]:
        """Yield the rows of training and of test, fold after fold and repeat after repeat.

        Parameters
        ----------
        X : array-like of length n
            Its length alone is looked at.
        y : array-like of shape (n,)
            Classes, or a continuous target.
        groups : DataFrame or array-like of shape (n, 2)
            Subject and site of each row; subjects alone, of shape (n,), where `sites` are given.
        sites : array-like of shape (n,), optional
            Site of each row.

        Raises
        ------
        DataError
            If subjects or sites are not given for every row, or there are fewer subjects than folds.
        """
        if y is None:
            raise DataError("y: SiteStratifiedGroupKFold needs the target of each row, found None.")
        indexable(X, y, groups, sites)
        values = column_or_1d(y)
        owners, places = subjects_and_sites(groups, sites, splitter=type(self).__name__)
        n_subjects = len(set(owners))
        if n_subjects < self.n_splits:
            raise DataError(f"n_splits: {self.n_splits} folds need as many subjects, found {n_subjects}.")
        continuous = self._is_continuous(values)
        named = np.array([NO_SITE if site is None else site for site in places], dtype=object)
        site_of = subject_values(np.unique(named, return_inverse=True)[1], owners)
        value_of = subject_values(values, owners, average=continuous)
        row_owner, seed = np.unique(owners, return_inverse=True)[1], self._seed()
        for repeat in range(self.n_repeats):
            generator = derive_generator("folds", seed, repeat)
            if continuous:
                fold_of = deal_ordered(value_of, site_of, self.n_splits, generator)[row_owner]
            else:
                fold_of = deal_subjects([value_of, site_of], self.n_splits, generator)[row_owner]
            for fold in range(self.n_splits):
                yield np.flatnonzero(fold_of != fold), np.flatnonzero(fold_of == fold)

    def _is_continuous(self, values: npt.NDArray[np.generic]) -> bool:
        if self.kind != "auto":
            return self.kind == "continuous"
        found = type_of_target(values, input_name="y")
        if found not in ("binary", "multiclass", "continuous"):
            raise DataError(f"y: must be one column of classes or of numbers, found {found}.")
        return bool(found == "continuous")

    def _seed(self) -> int:
        if isinstance(self.random_state, int | np.integer):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31 - 1))


def stratified(
    target: Target, sites: Sequence[str | None], subjects: npt.ArrayLike, *, n_folds: int, n_repeats: int, seed: int
) -> list[Split]:
    """Return the numbered folds that `SiteStratifiedGroupKFold` deals; a target that is the site is dealt by itself."""
    places = [None] * len(sites) if target.name == "site" else list(sites)
    splitter = SiteStratifiedGroupKFold(
        n_folds,
        n_repeats=n_repeats,
        kind="continuous" if target.kind == "continuous" else "categorical",
        random_state=seed,
    )
    pairs = splitter.split(target.values, target.values, subjects, places)
    return [Split(*divmod(number, n_folds), train, test) for number, (train, test) in enumerate(pairs)]
