"""Tabulate the metrics of every model in each sex and age band."""

from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.evaluation.measure.finding import Inputs, Measurement
from neurocontrast.evaluation.measure.subgroups import describe_part

AGE_BANDS = (18.0, 30.0, 45.0, 60.0, 75.0)
"""Edges of the age bands in years; a band holds its lower edge."""


_UNKNOWN = "not stated"


def measure_groups(inputs: Inputs) -> Measurement:
    """Tabulate the metrics of every model for each sex and each age band that has scans.

    Columns are as in ``sites.tsv``. Intervals of the embedding's metrics resample the subjects or
    sites of the whole cohort. The sexes form no groups where sex is predicted; an empty column
    forms no groups either.
    """
    plan = inputs.plan
    tested = inputs.predictions["embedding"].tested
    sexes = plan.table["sex"].fillna(_UNKNOWN).to_numpy(dtype=object)
    bands, order = age_bands(plan.table["age"].to_numpy(dtype=float))
    rows = []
    for group_by, labels, names in (
        ("sex", sexes, [*sorted(set(sexes) - {_UNKNOWN}), _UNKNOWN]),
        ("age", bands, order),
    ):
        present = set(labels[tested])
        if present == {_UNKNOWN} or (
            plan.target.name == group_by and plan.target.kind != "continuous"
        ):
            continue
        for group in (name for name in names if name in present):
            keys = ("group-intervals", group_by, group)
            members = tested[labels[tested] == group]
            described = describe_part(
                plan, inputs.predictions, members, *keys, units=plan.units.labels
            )
            rows.append({"group_by": group_by, "group": group} | described)
    return Measurement(
        tables={"groups": pd.DataFrame(rows or {"group_by": [], "group": [], "n": []})}
    )


def age_bands(ages: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.object_], list[str]]:
    """Return the band of each age, and the names of all bands from young to old.

    Examples
    --------
    >>> import numpy as np
    >>> age_bands(np.array([17.0, 18.0, 80.0]))[0].tolist()
    ['under 18', '18 to <30', '75 and over']
    """
    shown = [f"{edge:g}" for edge in AGE_BANDS]
    between = [f"{low} to <{high}" for low, high in pairwise(shown)]
    names = [f"under {shown[0]}", *between, f"{shown[-1]} and over"]
    bands = pd.Series(
        pd.cut(ages, [-np.inf, *AGE_BANDS, np.inf], right=False, labels=names), dtype=object
    )
    return bands.fillna(_UNKNOWN).to_numpy(), [*names, _UNKNOWN]
