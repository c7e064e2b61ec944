"""Check the units of regional measures and head sizes, for tables, sites and single people."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.data.measures.names import HEAD_SIZE, MM3_PER_ML, UNITS, Kind
from neurocontrast.data.problems import Problems
from neurocontrast.exceptions import DataError, one_of

_TYPICAL = {
    HEAD_SIZE: 1.5e6,
    "BrainSegVol": 1.2e6,
    "BrainSegVolNotVent": 1.2e6,
    "MaskVol": 1.6e6,
    "CortexVol": 4.8e5,
    "TotalGrayVol": 6.5e5,
    "CerebralWhiteMatterVol": 4.5e5,
    "Brain-Stem": 2.1e4,
    "lHip_Vgm": 3.2e3,
    "rHip_Vgm": 3.2e3,
    "Left-Hippocampus": 4e3,
    "Left-Putamen": 5e3,
    "Left-Caudate": 3.6e3,
    "Left-Thalamus-Proper": 7.5e3,
    "Left-Cerebellum-Cortex": 5.5e4,
    "Left-Amygdala": 1.6e3,
    "Right-Hippocampus": 4e3,
    "Right-Putamen": 5e3,
    "Right-Caudate": 3.6e3,
    "Right-Thalamus-Proper": 7.5e3,
    "Right-Cerebellum-Cortex": 5.5e4,
    "Right-Amygdala": 1.6e3,
    "lh_WhiteSurfArea_area": 9e4,
    "rh_WhiteSurfArea_area": 9e4,
    "lh_superiorfrontal_volume": 2.2e4,
    "rh_superiorfrontal_volume": 2.2e4,
    "lh_superiorfrontal_area": 7e3,
    "rh_superiorfrontal_area": 7e3,
    "lh_G_front_sup_volume": 1.6e4,
    "rh_G_front_sup_volume": 1.6e4,
    "lh_G_front_sup_area": 5e3,
    "rh_G_front_sup_area": 5e3,
}
"""Usual size of regions in adults, in mm³ or mm²; newborns and diseases stay within a factor of
ten.
"""
_THICKNESS = 2.5
"""Usual thickness of the cortex in mm."""
_FACTOR = 10.0
"""Factor by which the median of a measure over people may differ from the measure's usual size."""
_FACTOR_OF_THICKNESS = 3.0
_FACTORS_OF_UNITS: Mapping[Kind, Mapping[float, str]] = {
    "thickness": {0.1: "cm", 1e3: "µm", 1e-3: "m"},
    "volume": {1e-3: "mL (cm³)", 1e-6: "L, or a share of the head", 1e9: "µm³"},
    "area": {1e-2: "cm²", 1e-6: "m²", 1e6: "µm²"},
    "other": {},
}
_TOLERANCES: Mapping[Kind, float] = {"thickness": 0.3, "volume": 0.5, "area": 0.5, "other": 0.0}
"""Kind of measure → tolerance around the factor of another unit, as a decimal logarithm; people who
are measured in one unit differ by less."""
_N_COLUMNS = 3
"""Smallest number of a person's columns in another unit to refuse the person; a failed
segmentation distorts fewer columns.
"""
_SHARE_OF_COLUMNS = 0.1
"""Smallest share of a person's columns of one kind of measure in another unit to refuse the
person.
"""
_N_ROWS = 3
"""Smallest number of a column's rows in another unit to refuse the rows."""
_SHARE_OF_ROWS = 0.01
"""Smallest share of a column's rows in another unit to refuse the rows."""
_SHARE_OF_SITE = 0.5
"""Smallest share of a site's rows of a column in another unit to refuse the site."""
_N_OF_SITE = 2
"""Smallest number of a site's rows of a column in another unit to refuse the site."""
_HEAD_TOLERANCE = 0.35
"""Tolerance around the factor of another unit for head sizes, as a decimal logarithm."""
_FACTORS_OF_HEADS = (MM3_PER_ML, MM3_PER_ML**2)
_MAY_BE_EMPTY = re.compile(
    "ventricle|inf-lat-vent|csf|choroid-plexus|vessel|hypointensities|surfaceholes", re.IGNORECASE
)
"""Pattern of structures that a healthy brain may lack, or whose size spans orders of magnitude."""
_OF_TISSUE = ("_Vgm", "_Vwm", "_Vcsf")
"""Ends of names of tissue volumes in a region, which may hold nothing of the tissue."""
_N_NAMED = 3
"""Largest number of people of a site that a message names."""


def may_be_empty(name: str, kind: Kind) -> bool:
    """Tell whether a value of 0 can be true for a regional measure.

    Lesions (hypointensities), vessels, fluid and the cavities that hold fluid can be absent, and a
    region can hold nothing of a tissue. No brain is without the other structures, and no region of
    the cortex without surface: there 0 says that the program did not segment them, as FastSurfer
    writes 0 for the corpus callosum and the optic chiasm.
    """
    is_cavity = _MAY_BE_EMPTY.search(name) is not None
    return kind == "other" or is_cavity or name.endswith(_OF_TISSUE)


@dataclass(frozen=True, eq=False)
class People:
    """Names and sites of the rows of measures, for messages.

    Parameters
    ----------
    source : str
        Name of the table, which begins a message.
    names : sequence of str
        Name of each row.
    sites : sequence of str
        Site of each row, "" where it is not known.
    """

    source: str
    names: Sequence[str]
    sites: Sequence[str]


@dataclass(frozen=True)
class _Unit:
    """Wrong unit that values may be in, for the message that refuses the values.

    `kind` is the kind of measure, such as volume. Values are about `factor` times as large as in
    the right unit. `name` says the unit in the message, such as "in mL".
    """

    kind: Kind
    factor: float
    name: str


def check_units(values: pd.DataFrame, kinds: Mapping[str, Kind]) -> None:
    """Refuse measures whose median over people is far from usual, and name the likely unit.

    `values` has a row for each person and a column for each measure. `kinds` is measure →
    thickness, volume, area or other. Checked are the measures of known usual size, in `_TYPICAL`,
    and one thickness: the first column of this kind that has values, of which 2.5 mm is usual.
    Other measures are not checked.
    """
    medians = values.median()
    of_cortex = medians[[name for name, kind in kinds.items() if kind == "thickness"]].dropna()
    typical = {name: value for name, value in _TYPICAL.items() if name in medians}
    if len(of_cortex):
        typical[str(of_cortex.index[0])] = _THICKNESS
    wrong = []
    for name, value in typical.items():
        if not _is_near(medians[name], value, kinds[name]):
            wrong.append(name)
    if not wrong:
        return
    name = wrong[0]
    kind = kinds[name]
    median = medians[name]
    guess = "in no unit: standardised, perhaps"
    for factor, unit in _FACTORS_OF_UNITS[kind].items():
        if _is_near(median / factor, typical[name], kind):
            guess = f"in {unit}"
            break
    more = _and_more(len(wrong) - 1)
    raise DataError(
        f"measures: '{name}'{more} should be in {UNITS[kind]}, where {typical[name]:,.5g} is "
        f"usual; the median is {median:.4g}. It seems to be {guess}. Convert the table to "
        f"{UNITS[kind]}, or take it from the program again."
    )


def _and_more(n_columns: int) -> str:
    """Return " and 3 more columns" for columns that a message does not name; "" for none."""
    if not n_columns:
        return ""
    return f" and {n_columns} more columns"


def _is_near(value: float, typical: float, kind: Kind) -> bool:
    """Tell whether `value` is missing, or within a factor of `typical`, the usual size.

    The factor is 3 for thickness, and 10 for other kinds of measure.
    """
    factor = _FACTOR
    if kind == "thickness":
        factor = _FACTOR_OF_THICKNESS
    return math.isnan(value) or typical / factor <= value <= typical * factor


def check_units_of_people(
    values: pd.DataFrame,
    kinds: Mapping[str, Kind],
    people: People,
    *,
    usual: Mapping[str, float] | None = None,
    collected: Problems | None = None,
) -> None:
    """Refuse sites and people whose measures are in another unit than other people's.

    A `DataError` is raised for people and sites with values that are off by the factor of a unit.
    In each kind of measure, a person is refused if at least three, and at least a tenth, of the
    person's values are off, or all of two or more. A column is refused if at least three, and at
    least a hundredth, of all people's values are off, and for one site if at least two, and at
    least half, of the site's values are.

    One exception: a person's head size in another unit is refused even if no other column is off,
    since no head is a thousandth of another. Columns with values below 0 seem to be standardised,
    and are not judged.

    Parameters
    ----------
    values : DataFrame
        One row a person, one column a measure.
    kinds : dict of str to str
        Kind of measure of each column.
    people : People
        Names of the rows.
    usual : dict of str to float, optional
        Usual value of each measure; by default the median of the rows.
    collected : Problems, optional
        List to which the problems found are added, in place of an error.
    """
    problems = Problems(people.source)
    for kind in ("thickness", "volume", "area"):
        judged = []
        for name in map(str, values):
            if kinds.get(name) == kind and not may_be_empty(name, kind):
                judged.append(name)
        table = values[judged].astype(float)
        table = table.loc[:, ~(table < 0).any().to_numpy()]
        table = table.where(table > 0)
        expected = table.median()
        if usual is not None:
            expected = expected.where(~expected.index.isin(list(usual)), pd.Series(usual))
            expected = expected.reindex(table.columns)
        for unit in _units_of(kind):
            _find_unit(table, expected, unit, people, problems)
    if problems.found:
        problems.hint("Convert these rows, or take them from the program again.")
    problems.pass_on(collected)


def _units_of(kind: Kind) -> list[_Unit]:
    """Return the wrong units that measures of a kind may be in, each as a `_Unit` to test for.

    If most people's volumes are in mL (factor 0.001), the people in mm³ stand out by the inverse
    factor, 1,000. A further `_Unit` with this factor finds these people; the `name` of the `_Unit`
    says that the other people's values are in mL.
    """
    factors = _FACTORS_OF_UNITS[kind]
    exponents = set(map(round, map(math.log10, factors)))
    units = []
    for factor, unit in factors.items():
        units.append(_Unit(kind, factor, f"in {unit}"))
        if -round(math.log10(factor)) not in exponents:
            units.append(_Unit(kind, 1 / factor, f"in {UNITS[kind]}, and the others in {unit}"))
    return units


def _find_unit(
    table: pd.DataFrame, expected: pd.Series, unit: _Unit, people: People, problems: Problems
) -> None:
    """Add to `problems` each site or person whose measures are off by the factor of a wrong unit.

    `table` has a row for each person and a column for each measure of one kind, `expected` is the
    usual value of each measure, and `unit` is the wrong unit to test for.
    """
    ratios = np.log10(table.to_numpy() / expected.to_numpy(dtype=float))
    distance = np.abs(ratios - math.log10(unit.factor))
    is_off = distance <= _TOLERANCES[unit.kind]
    is_known = ~np.isnan(ratios)
    is_wrong = is_off & (
        _rows_off(is_off, is_known)[:, None] | _columns_off(is_off, is_known, people)
    )
    if HEAD_SIZE in table:
        head = list(table).index(HEAD_SIZE)
        is_wrong[:, head] |= distance[:, head] <= _HEAD_TOLERANCE
    for rows in _groups(is_wrong.any(axis=1), people.sites):
        columns = np.flatnonzero(is_wrong[rows].any(axis=0))
        first = int(columns[0])
        value = float(np.nanmedian(table.to_numpy()[rows, first]))
        more = _and_more(len(columns) - 1)
        problems.add(
            f"'{table.columns[first]}'{more} should be in {UNITS[unit.kind]}, where "
            f"{_shown(expected.iloc[first])} is usual; found {_shown(value)}. It seems to be "
            f"{unit.name}",
            name=_name_of(rows, people),
        )


def _shown(value: float) -> str:
    """Return the size of a region as text for a message; large sizes as whole numbers."""
    if value >= MM3_PER_ML:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def _rows_off(
    is_off: npt.NDArray[np.bool_], is_known: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """Return a mask of the people who have many or all of their measures in a wrong unit.

    Many are at least `_N_COLUMNS` measures, and at least the share `_SHARE_OF_COLUMNS` of the
    measures that the person has. All counts only for a person with two measures or more.

    `is_off` (people, measures) tells whether a value is off by the factor of the wrong unit, and
    `is_known` whether there is a value.
    """
    n_off = is_off.sum(axis=1)
    n_known = is_known.sum(axis=1)
    are_many = n_off >= np.maximum(_N_COLUMNS, _SHARE_OF_COLUMNS * n_known)
    return np.asarray(are_many | ((n_off == n_known) & (n_off > 1)))


def _columns_off(
    is_off: npt.NDArray[np.bool_], is_known: npt.NDArray[np.bool_], people: People
) -> npt.NDArray[np.bool_]:
    """Return a mask (people, measures): True for all values of a measure that is in a wrong unit.

    `is_off` tells for each value whether it is off by the factor of the wrong unit, and `is_known`
    whether there is a value. A measure is taken to be in the wrong unit for everybody if many
    people's values are off, and for the people of one site if many values of the site are.
    """
    n_off = is_off.sum(axis=0)
    n_known = is_known.sum(axis=0)
    wrong = np.zeros_like(is_off)
    wrong[:] = n_off >= np.maximum(_N_ROWS, _SHARE_OF_ROWS * n_known)
    sites = np.array(people.sites, dtype=object)
    for site in sorted(set(people.sites) - {""}):
        rows = np.flatnonzero(sites == site)
        n_off = is_off[rows].sum(axis=0)
        n_known = is_known[rows].sum(axis=0)
        wrong[rows] |= n_off >= np.maximum(_N_OF_SITE, _SHARE_OF_SITE * n_known)
    return wrong


def _groups(is_wrong: npt.NDArray[np.bool_], sites: Sequence[str]) -> list[list[int]]:
    """Return the positions of rows that are True in `is_wrong`, in one list for each site.

    A row is wrong if it has a value in a wrong unit; `sites` has the site of each row. A wrong row
    without a site is a list of its own.
    """
    by_site: dict[str, list[int]] = {}
    alone = []
    for row in np.flatnonzero(is_wrong).tolist():
        if sites[row]:
            by_site.setdefault(sites[row], []).append(row)
        else:
            alone.append([row])
    return [*by_site.values(), *alone]


def _name_of(rows: Sequence[int], people: People) -> str:
    """Return a name for `rows` in a message: the person of a single row, or the site of several.

    The site's name is followed by the number of `rows`, the number of all rows of the site, and the
    names of the first people, three at most.
    """
    site = people.sites[rows[0]]
    if len(rows) == 1:
        return people.names[rows[0]]
    n_site = list(people.sites).count(site)
    names = one_of([people.names[row] for row in rows[:_N_NAMED]])
    if len(rows) > _N_NAMED:
        names += " …"
    return f"site {site}, {len(rows)} of {n_site} rows ({names})"


def check_head_sizes(volumes: pd.Series, people: People) -> None:
    """Refuse a column ``tiv`` of head sizes that mixes mL and mm³.

    Parameters
    ----------
    volumes : Series
        Head size of each row, in mL or in mm³; the unit has to be the same in all rows.
    people : People
        Names of the rows.
    """
    values = volumes.where(volumes > 0).to_numpy(dtype=float)
    if not np.isfinite(values).any() or (volumes < 0).any():
        return
    expected = float(np.nanmedian(values))
    problems = Problems(people.source)
    ratios = np.abs(np.log10(values / expected))
    is_wrong = np.zeros(len(values), dtype=bool)
    for factor in _FACTORS_OF_HEADS:
        is_wrong |= np.abs(ratios - math.log10(factor)) <= _HEAD_TOLERANCE
    for rows in _groups(is_wrong, people.sites):
        problems.add(
            f"found {_shown(np.nanmedian(values[rows]))} where {_shown(expected)} is usual: mL and "
            "mm³ are mixed; one unit is allowed",
            column="tiv",
            name=_name_of(rows, people),
        )
    problems.raise_if_any()
