"""Sites held out one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import indexable

from neurocontrast.evaluation.splits.fold import Split
from neurocontrast.evaluation.splits.groups import subjects_and_sites
from neurocontrast.exceptions import DataError, one_of

__all__ = ["LeaveSiteOut", "leave_site_out"]

Rows = npt.NDArray[np.intp]


class LeaveSiteOut(BaseCrossValidator):
    """Hold out one site after the other, with every subject that was scanned there.

    A subject scanned at several sites is tested at each, and none of the subject's scans is trained on meanwhile.
    Sites come in alphabetical order.

    Notes
    -----
    Subject and site reach `split` as two columns of `groups`, which works in every function of scikit-learn that takes
    `groups`; or, with metadata routing, as ``params={"groups": subjects, "sites": sites}``.

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

    __metadata_request__split = {"groups": True, "sites": True}  # noqa: RUF012 - scikit-learn's own convention

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None, sites: Any = None) -> int:
        """Return the number of sites; `X` and `y` are not looked at."""
        del X, y
        return len(set(subjects_and_sites(groups, sites, splitter=type(self).__name__)[1]))

    def split(self, X: Any, y: Any = None, groups: Any = None, sites: Any = None) -> Iterator[tuple[Rows, Rows]]:
        """Yield the rows of training and of test, site after site.

        Parameters
        ----------
        X, y : array-like of length n
            Their length alone is looked at.
        groups : DataFrame or array-like of shape (n, 2)
            Subject and site of each row; subjects alone, of shape (n,), where `sites` are given.
        sites : array-like of shape (n,), optional
            Site of each row.

        Raises
        ------
        DataError
            If a row has no subject or no site (it could belong to the site held out), or there is one site only.
        """
        indexable(X, y, groups, sites)
        owners, places = subjects_and_sites(groups, sites, splitter=type(self).__name__)
        for split in leave_site_out(places, owners, names=[f"row {row}" for row in range(len(owners))]):
            yield split.train, split.test


def leave_site_out(sites: Sequence[str | None], subjects: npt.ArrayLike, *, names: Sequence[str]) -> list[Split]:
    """Return the numbered splits of `LeaveSiteOut`, each with its site; `names` are of the scans, for messages.

    Raises
    ------
    DataError
        If a scan has no site (it could belong to the one held out), or there is one site only.
    """
    unknown = [row for row, site in enumerate(sites) if site is None]
    if unknown:
        shown = ", ".join(names[row] for row in unknown[:5]) + (" …" if len(unknown) > 5 else "")
        raise DataError(
            f"splits 'leave-site-out': site is missing for {len(unknown)} of {len(sites)} scans ({shown}), and any of "
            "them could belong to the site held out. Fill in their site, drop them with where, or use "
            "splits=stratified."
        )
    places = np.array(sites, dtype=object)
    found = sorted(set(sites), key=str)
    if len(found) < 2:
        raise DataError(
            f"splits 'leave-site-out': needs at least two sites, found {one_of(map(str, found))}. "
            "Use splits=stratified."
        )
    owners = np.asarray(subjects, dtype=object)
    splits = []
    for fold, site in enumerate(found):
        test = places == site
        train = ~test & ~np.isin(owners.astype(str), owners[test].astype(str))
        splits.append(Split(0, fold, np.flatnonzero(train), np.flatnonzero(test), str(site)))
    return splits
