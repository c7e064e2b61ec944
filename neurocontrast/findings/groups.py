"""The result by sex and by age: does the model work for everybody?"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.findings.finding import Finding, Found, Inputs
from neurocontrast.findings.folder import EvaluationFolder
from neurocontrast.findings.sites import describe_part, table_parts
from neurocontrast.page.blocks import Section

AGE_BANDS = (18.0, 30.0, 45.0, 60.0, 75.0)
"""Edges of the age bands in years; a band holds its lower edge."""

_UNKNOWN = "not stated"


def measure_groups(inputs: Inputs) -> Found:
    """Return one row a sex and one an age band that has scans, with the columns of ``sites.tsv``.

    Intervals resample the units of the whole cohort. The target itself forms no groups, nor does an empty column.
    """
    study, tested = inputs.study, inputs.models["embedding"].tested
    sexes = study.table["sex"].fillna(_UNKNOWN).to_numpy(dtype=object)
    bands, order = age_bands(study.table["age"].to_numpy(dtype=float))
    rows = []
    for group_by, labels, names in (
        ("sex", sexes, [*sorted(set(sexes) - {_UNKNOWN}), _UNKNOWN]),
        ("age", bands, order),
    ):
        found = set(labels[tested])
        if found == {_UNKNOWN} or (study.target.name == group_by and study.target.kind != "continuous"):
            continue
        for group in (name for name in names if name in found):
            keys = ("group-intervals", group_by, group)
            members = tested[labels[tested] == group]
            described = describe_part(study, inputs.models, members, *keys, units=study.units.labels)
            rows.append({"group_by": group_by, "group": group} | described)
    return Found(tables={"groups": pd.DataFrame(rows or {"group_by": [], "group": [], "n": []})})


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
    bands = np.array(names, dtype=object)[np.searchsorted(AGE_BANDS, ages, side="right")]
    return np.where(np.isfinite(ages), bands, _UNKNOWN), [*names, _UNKNOWN]


def show_groups(files: EvaluationFolder) -> Section | None:
    """Return a table of the sexes and one of the age bands; None without groups."""
    groups = files.table("groups", "group_by", "group", "n", text=("group_by", "group"))
    if groups is None:
        return None
    tables = [
        table_parts(files, part.reset_index(drop=True), "group", f"by {name}", classes=files.classes, file="groups.tsv")
        for name, part in groups.groupby("group_by", sort=False)
    ]
    lead = "A model that works for everybody works in every row. Differences between rows are not tested."
    return Section("groups", "By sex and age", tables, lead=lead)


GROUPS = Finding("groups", show_groups, measure_groups, of=("scans",))
