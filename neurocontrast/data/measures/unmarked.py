"""Find codes for missing values among regional measures, such as 999 among thicknesses of 2.5."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from neurocontrast.data.measures.names import Kind
from neurocontrast.data.measures.units import People, may_be_empty
from neurocontrast.data.problems import Problems

_CODES = (99.0, 999.0, 9999.0, 99999.0, 999999.0, 9999999.0)
_FACTOR = 1.5
"""Factor by which a code such as 999 must exceed all other values of the column."""
_SPREAD = 2.0
"""Ratio of the largest true value to the usual value, assumed for a column of codes alone."""
_N_UNSURE = 2
"""Number of people who must have a code, for measures whose true values span orders of
magnitude.
"""


def check_codes(
    values: pd.DataFrame,
    kinds: Mapping[str, Kind],
    people: People,
    *,
    usual: Mapping[str, float] | None = None,
    collected: Problems | None = None,
) -> None:
    """Refuse values such as 99, 999 or 9999 that stand apart from all others of their column.

    Parameters
    ----------
    values : DataFrame
        One row a person, one column a measure.
    kinds : dict of str to str
        Kind of measure of each column.
    people : People
        Names of the rows.
    usual : dict of str to float, optional
        Usual value of each measure. It is compared with the codes in a column where nobody has any
        other value; without it, such a column is not judged.
    collected : Problems, optional
        List to which the problems found are added, in place of an error.
    """
    is_code = values.isin(_CODES)
    problems = Problems(people.source)
    for column in values.columns[is_code.any()].astype(str):
        rows = np.flatnonzero(is_code[column])
        most = float(values[column][~is_code[column]].max())
        if np.isnan(most):
            most = _SPREAD * (usual or {}).get(column, np.nan)
        is_apart = bool(values[column].iloc[rows].min() > _FACTOR * most)
        is_unsure = len(rows) < _N_UNSURE and may_be_empty(column, kinds[column])
        if is_unsure or not is_apart:
            continue
        for row in rows.tolist():
            code = f"found {values[column].iloc[row]:.0f}, and the others are at most {most:.4g}"
            code += ": it seems to mean a missing value"
            problems.add(code, column=column, name=people.names[row])
    if problems.found:
        problems.hint("Write n/a where a value is not known.")
    problems.pass_on(collected)
