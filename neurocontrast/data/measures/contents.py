"""Digests of people's measures, by which a person is recognised under any name."""

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.files import digest_of

N_DIGITS = 4
"""Significant digits that are compared: programs write six, and FreeSurfer a thickness with four."""
_N_EXACT = 9  # significant digits; conversions of units change later ones
_N_DIGESTS, _N_OF_DIGEST, _N_LEAST = 8, 8, 4
_N_CHARACTERS = 16


def contents_of_measures(values: pd.DataFrame) -> list[str]:
    """Return the digests of each row of measures, separated by spaces; "" for too few measures to tell people apart.

    Every digest is of some of the columns, so that a person is recognised by any of them where
    single values were rounded otherwise, or are missing.

    Parameters
    ----------
    values : DataFrame
        One row a scan, one column a measure, in one unit a kind of measure; the order of the
        columns does not matter.
    """
    names = sorted(map(str, values.columns))
    n_digests = int(np.clip(len(names) // _N_OF_DIGEST, 1, _N_DIGESTS))
    table = rounded(values.set_axis(values.columns.astype(str), axis=1)[names].to_numpy(float))
    digests: list[list[str]] = [[] for _ in range(len(table))]
    for first in range(n_digests):
        columns = names[first::n_digests]
        for row, numbers in enumerate(table[:, first::n_digests]):
            if np.isnan(numbers).any() or np.count_nonzero(numbers) < _N_LEAST:
                continue
            digest = digest_of(
                "measures", *columns, *(f"{number:.{N_DIGITS}g}" for number in numbers)
            )
            digests[row].append(digest[:_N_CHARACTERS])
    return [" ".join(each) for each in digests]


def rounded(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return numbers with nine significant digits, so that factors between units do not decide how they are cut."""
    size = np.where((values == 0) | ~np.isfinite(values), 1.0, np.abs(values))
    scale = 10.0 ** (_N_EXACT - 1 - np.floor(np.log10(size)))
    return np.round(values * scale) / scale
