"""Compute digests of a person's regional measures, to recognise the person under any name."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.files import digest_of

N_DIGITS = 4
"""Significant digits of measures in an exact digest; FreeSurfer writes a thickness with four."""
N_COARSE_DIGITS = 3
"""Significant digits of measures in a coarse digest, for tables rounded to two decimals."""
_N_EXACT = 9
"""Significant digits of a measure that survive a conversion of units; later digits may differ."""
_N_DIGESTS = 8
"""Largest number of exact (four-digit) digests of a row of measures."""
_N_OF_DIGEST = 8
"""Smallest number of measures in an exact (four-digit) digest; a row of fewer has one digest."""
_N_COARSE_GROUPS = 6
"""Largest number of coarse (three-digit) digests of a row of measures."""
_N_OF_COARSE_DIGEST = 11
"""Smallest number of measures in a coarse (three-digit) digest."""
_N_LEAST = 4
"""Smallest number of measures other than 0 in a digest of a person's row of measures."""
_N_CHARACTERS = 16
"""Length of a digest of measures, in hexadecimal digits."""


def contents_of_measures(values: pd.DataFrame) -> list[str]:
    """Return one text for each row of measures: the row's digests, with spaces between them.

    Every digest covers a group of the columns: any one digest recognises a person, even if single
    values of other columns were rounded to fewer digits, or are missing. A group in which a value
    is missing, or fewer than four values differ from 0, gives no digest; the text is "" for a row
    without any digest.

    There are two sorts. Exact digests are of values with four significant digits; each takes every
    n-th column in alphabetical order. Coarse digests are of values with three digits; each takes
    columns that are neighbours in this order, mostly of one kind of measure, so that thicknesses
    recognise a person whose volumes are missing or whole numbers.

    Parameters
    ----------
    values : DataFrame
        One row a scan, one column a measure, in one unit a kind of measure; the order of the
        columns does not matter.
    """
    names = sorted(map(str, values.columns))
    table = values.set_axis(values.columns.astype(str), axis=1)
    cells = table[names].to_numpy(float)
    places = pd.Index(names)
    digests: list[dict[str, None]] = []
    for _ in range(len(table)):
        digests.append({})
    for columns, n_digits in _groups_of(names):
        measures = digest_of("measures", *columns)
        form = " ".join([f"%.{n_digits}g"] * len(columns))
        numbers = rounded(cells[:, places.get_indexer(pd.Index(columns))])
        is_enough = ~np.isnan(numbers).any(axis=1) & (np.count_nonzero(numbers, axis=1) >= _N_LEAST)
        versions = [numbers]
        if n_digits == N_COARSE_DIGITS:
            versions += [_as_numpy_rounds(numbers), _halves_up(numbers)]
        for version in versions:
            for row in np.flatnonzero(is_enough).tolist():
                values_of_row = form % tuple(version[row].tolist())
                digests[row][digest_of(measures, values_of_row)[:_N_CHARACTERS]] = None
    return list(map(" ".join, digests))


def _groups_of(names: list[str]) -> Iterator[tuple[list[str], int]]:
    """Yield groups of the columns of measures, each with a number of significant digits.

    A digest of a row of measures is made of the row's values in one group of columns, rounded to
    these digits. `names` are the sorted columns. They are first dealt in turn to n groups with four
    digits (exact digests): each group takes every n-th column. They are then cut into groups of
    neighbouring columns with three digits (coarse digests).
    """
    n_digests = int(np.clip(len(names) // _N_OF_DIGEST, 1, _N_DIGESTS))
    for first in range(n_digests):
        yield names[first::n_digests], N_DIGITS
    n_groups = min(len(names) // _N_OF_COARSE_DIGEST, _N_COARSE_GROUPS)
    if n_groups:
        for columns in np.array_split(np.array(names, dtype=object), n_groups):
            yield columns.tolist(), N_COARSE_DIGITS


def _as_numpy_rounds(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Round measures to three significant digits as numpy and pandas do.

    The digits are scaled to a whole number first, and halves then go to the even one. C, Python's
    formats and R round a half by its binary digits.
    """
    scale = _scale_of(values, N_COARSE_DIGITS)
    return np.rint(values * scale) / scale


def _halves_up(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Round measures to three significant digits as spreadsheets do: halves away from zero."""
    scale = _scale_of(values, N_COARSE_DIGITS)
    size = np.floor(rounded(np.abs(values) * scale) + 0.5)
    return np.copysign(size, values) / scale


def _scale_of(values: npt.NDArray[np.float64], n_digits: int) -> npt.NDArray[np.float64]:
    """Return for each value the power of ten that moves `n_digits` digits before the point.

    The result has the shape of `values`. With three digits it is 100 for 2.345, since 234.5 has
    three digits before the point. A missing value, and 0, are treated as 1.
    """
    size = np.abs(values)
    size[(values == 0) | np.isnan(values)] = 1.0
    scale: npt.NDArray[np.float64] = 10.0 ** (n_digits - 1 - np.floor(np.log10(size)))
    return scale


def rounded(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Round measures to nine significant digits, which removes errors of a conversion of units.

    A value that was converted by a power of ten, such as from mm³ to mL, may differ in its last
    binary digits. After this rounding, rounding to three or four digits gives the same digits in
    both units.
    """
    scale = _scale_of(values, _N_EXACT)
    return np.round(values * scale) / scale
