"""Digests of people's measures, by which a person is recognised under any name."""

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.files import digest_of

N_DIGITS = 4
"""Significant digits that are compared: FreeSurfer writes a thickness with four."""
_N_EXACT = 9  # significant digits; conversions of units change later ones
_N_DIGESTS = 8  # of a row, at most
_N_OF_DIGEST = 8  # measures, at least, where there are as many
_N_LEAST = 4  # measures of a digest that are not 0
_N_CHARACTERS = 16
_FORMAT = f"{{:.{N_DIGITS}g}}"


def contents_of_measures(values: pd.DataFrame) -> list[str]:
    """Return the digests of each row of measures; "" for too few measures to tell people apart.

    They are separated by spaces. Every digest is of some of the columns, so that a person is
    recognised by any of them where single values were rounded otherwise, or are missing.

    Parameters
    ----------
    values : DataFrame
        One row a scan, one column a measure, in one unit a kind of measure; the order of the
        columns does not matter.
    """
    names = sorted(map(str, values.columns))
    n_digests = int(np.clip(len(names) // _N_OF_DIGEST, 1, _N_DIGESTS))
    table = values.set_axis(values.columns.astype(str), axis=1)
    digests: list[list[str]] = [[] for _ in range(len(table))]
    for first in range(n_digests):
        columns = names[first::n_digests]
        for row, numbers in enumerate(rounded(table[columns].to_numpy(float))):
            if not np.isnan(numbers).any() and np.count_nonzero(numbers) >= _N_LEAST:
                digest = digest_of("measures", *columns, *map(_FORMAT.format, numbers))
                digests[row].append(digest[:_N_CHARACTERS])
    return list(map(" ".join, digests))


def rounded(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Round numbers to nine digits, so that factors between units decide no later rounding."""
    size = np.abs(values)
    size[(values == 0) | np.isnan(values)] = 1.0
    scale = 10.0 ** (_N_EXACT - 1 - np.floor(np.log10(size)))
    return np.round(values * scale) / scale
