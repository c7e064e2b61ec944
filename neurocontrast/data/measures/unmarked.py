"""Codes for missing values among regional measures: 999 beside thicknesses of 2.5."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from neurocontrast.data.measures.names import Kind
from neurocontrast.data.measures.units import People, may_be_empty
from neurocontrast.data.problems import Problems

_CODES = tuple(float("9" * n_digits) for n_digits in range(2, 8))
_FACTOR = 1.5
"""A code is beyond this times any other value of its column."""
_N_UNSURE = 2
"""People who must have it where a true value can span orders, as of a ventricle."""


def check_codes(values: pd.DataFrame, kinds: Mapping[str, Kind], people: People) -> None:
    """Refuse values such as 99, 999 or 9999 that stand apart from all others of their column."""
    is_code = values.isin(_CODES)
    problems = Problems(people.source)
    for column in values.columns[is_code.any()].astype(str):
        rows = np.flatnonzero(is_code[column])
        others = values[column][~is_code[column]]
        is_apart = bool(values[column].iloc[rows].min() > _FACTOR * others.max())
        n_needed = _N_UNSURE if may_be_empty(column, kinds[column]) else 1
        if not is_apart or len(rows) < n_needed:
            continue
        for row in rows.tolist():
            text = f"found {values[column].iloc[row]:.0f}, and the others are at most {others.max():g}"
            text += ": it seems to mean a missing value"
            problems.add(text, column=column, name=people.names[row])
    if problems.found:
        problems.hint("Write n/a where a value is not known.")
        problems.raise_if_any()
