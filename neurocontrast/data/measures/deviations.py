"""Find outlying measures of people, against the site, everybody, or training people of a run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from neurocontrast.data.measures.contract import MeasuresContract
from neurocontrast.data.measures.inspecting import InspectedMeasures, count_versions

N_DEVIATIONS = 5.0
"""Deviation beyond which a measure is an outlier, in robust standard deviations (1.4826 median
absolute deviations), or in a run's standard deviations.
"""
SHARE_OUTSIDE = 0.015
"""Share of a person's measures that must be outliers for a flag, but at least one measure."""
N_SITE = 10
"""Smallest number of people of a site who are compared with one another."""
_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
_SMALLEST = 1.0
"""Smallest size in mm³ or mm² whose logarithm is taken; smaller sizes count as this one."""
_CONSISTENT = 1.4826
"""Standard deviation of normally distributed values, in median absolute deviations."""
_N_WORST = 3
"""Largest number of a person's outliers that a table names."""


@dataclass(frozen=True, eq=False)
class Deviations:
    """Deviations of people and of sites from usual values, one column for each measure.

    Parameters
    ----------
    of_people : DataFrame
        Difference of each person's measure from the median of the people whom `reference` names, in
        standard deviations (robust ones, unless a run states them); one row a person, NaN where the
        measure is missing.
    of_sites : DataFrame
        Median deviation of each site's people, in standard deviations, from people of other sites,
        or from the people that a run was trained on; one row a site.
    centre, spread : Series
        Usual value (median) and standard deviation of each measure over all inspected people, or
        over the people that a run was trained on; as logarithms where `is_log`.
    is_log : Series
        Whether a measure is compared as a logarithm.
    reference : str
        People who are the standard of comparison, in words.
    """

    of_people: pd.DataFrame
    of_sites: pd.DataFrame
    centre: pd.Series
    spread: pd.Series
    is_log: pd.Series
    reference: str

    @property
    def is_outside(self) -> pd.DataFrame:
        """Whether a measure of a person is an outlier: a table of bools, shaped like `of_people`.

        Rows are people and columns are measures. A measure is an outlier if the value in
        `of_people` is above `N_DEVIATIONS` in size; a missing measure is none.
        """
        return self.of_people.abs() > N_DEVIATIONS

    def usual(self, n_deviations: float = 2.0) -> pd.DataFrame:
        """Return a table with a row for each measure: ends ``low`` and ``high`` of the usual range.

        The range is `n_deviations` times `spread` to either side of the usual value, in the
        measure's own unit.
        """
        ends = pd.DataFrame({"low": -n_deviations, "high": n_deviations}, index=self.centre.index)
        ends = ends.mul(self.spread, axis=0).add(self.centre, axis=0)
        logs = ends.index[self.is_log.to_numpy(dtype=bool)]
        ends.loc[logs] = np.exp(ends.loc[logs].to_numpy())
        return ends


def sites_of_rows(inspected: InspectedMeasures) -> pd.Series:
    """Return the site of each inspected person, for a report: ``n/a`` if the site is unknown.

    Without a column of sites, the site of everybody is ``all``.
    """
    if "site" not in inspected.people.table:
        return pd.Series("all", index=inspected.values.index)
    return inspected.sites.where(inspected.sites != "", "n/a")


def deviations_among(inspected: InspectedMeasures) -> Deviations:
    """Compare inspected people with the people of the same site, and each site with the others.

    Return `Deviations`: for each person and measure, the person's value minus the median of the
    people of the site, or of everybody if the site has fewer than `N_SITE` people. For each site
    and measure, the median of the site minus the median of all people of other sites. A difference
    is divided by the robust standard deviation of the people whose median is subtracted. Of volumes
    and areas, logarithms are compared.
    """
    values = inspected.values
    kinds = inspected.table.kinds
    is_size = values.columns.map(dict(kinds)).isin(["volume", "area"])
    is_log = pd.Series(is_size, index=values.columns, dtype=bool)
    scaled = values.astype(float).copy()
    logs = values.columns[is_size]
    scaled[logs] = np.log(scaled[logs].clip(lower=_SMALLEST))
    sites = sites_of_rows(inspected)
    subjects = inspected.people.table["subject_id"]
    centre = scaled.median()
    spread = _spread(scaled)
    of_people = (scaled - centre) / spread
    of_sites = {}
    for site, of_site in scaled.groupby(sites):
        others = scaled[(sites != site).to_numpy()]
        if others.notna().any(axis=None):
            of_sites[str(site)] = (of_site.median() - others.median()) / _spread(others)
        if subjects[of_site.index].nunique() >= N_SITE:
            within = (of_site - of_site.median()) / _spread(of_site)
            of_people.loc[of_site.index] = within.fillna(of_people.loc[of_site.index])
    by_site = pd.DataFrame.from_dict(of_sites, orient="index", columns=values.columns)
    reference = f"their own site, where it has {N_SITE} people, and else everybody"
    return Deviations(of_people, by_site, centre, spread, is_log, reference)


def deviations_from_run(inspected: InspectedMeasures, contract: MeasuresContract) -> Deviations:
    """Compare inspected people and their sites with the people that a run was trained on.

    Return `Deviations`: for each person and measure, the distance from the run's training median in
    standard deviations, and for each site and measure the median of these distances over the site's
    people. `contract` has the training medians and standard deviations.
    """
    of_people = contract.deviations(inspected.values)
    names = list(contract.columns)
    by_site = of_people.groupby(sites_of_rows(inspected)).median()
    is_log = pd.Series(contract.is_volume, index=names) & contract.log_volumes
    return Deviations(
        of_people,
        by_site,
        pd.Series(contract.medians, index=names),
        pd.Series(contract.sds, index=names),
        is_log,
        "the people that the run learned from",
    )


def _spread(values: pd.DataFrame) -> pd.Series:
    """Return the robust standard deviation of each measure, a column of `values`, over people.

    It is 1.4826 times the median distance from the median, and NaN if most values of a measure are
    the same.
    """
    away = (values - values.median()).abs().median()
    return _CONSISTENT * away.where(away > 0)


def table_of_people(inspected: InspectedMeasures, deviations: Deviations) -> pd.DataFrame:
    """Return a table with a row for each inspected person, flagged people first.

    Columns are identity, site, age and program, numbers of measures, of missing ones and of
    outliers, the largest deviations, whether the person is flagged, and why. A person is flagged
    for a problem, or for as many outliers as `least_outside` says.
    """
    n_outside = deviations.is_outside.sum(axis=1).to_numpy()
    people = inspected.people.table[["participant_id", "session"]].copy()
    people.insert(2, "name", inspected.names)
    people["site"] = sites_of_rows(inspected)
    if "age" in inspected.people.table:
        people["age"] = inspected.people.table["age"]
    people["software"] = inspected.versions
    people["n_measures"] = inspected.values.notna().sum(axis=1)
    people["n_missing"] = inspected.values.isna().sum(axis=1)
    people["n_zero"] = inspected.zeros.sum(axis=1)
    people["n_outside"] = n_outside
    people["largest"] = deviations.of_people.abs().max(axis=1).round(2)
    people["worst"] = _worst_of(deviations.of_people)
    reasons = _problems_by_row(inspected)
    for row, n_measures in enumerate(people["n_measures"].tolist()):
        if n_outside[row] >= least_outside(n_measures):
            reasons[row].append(f"outside in {n_outside[row]} of {n_measures} measures")
    people["why"] = list(map("; ".join, reasons))
    is_flagged = (people["why"] != "").to_numpy()
    people.insert(len(people.columns) - 1, "flagged", np.where(is_flagged, "yes", "no"))
    largest = people["largest"].fillna(0)
    order = np.lexsort((people["name"], -largest, -n_outside, ~is_flagged))
    return people.iloc[order].reset_index(drop=True)


def least_outside(n_measures: int) -> int:
    """Return how many of a person's `n_measures` must be outliers for the person to be flagged."""
    return max(1, math.ceil(SHARE_OUTSIDE * n_measures))


def _worst_of(deviations: pd.DataFrame) -> list[str]:
    """Return one text for each row (person) of `deviations`, which names the largest outliers.

    A text has at most three measures, each with the deviation in standard deviations, such as
    ``CSF +6.2``; "" for a person without outliers.
    """
    worst = []
    columns = deviations.columns.astype(str)
    values = deviations.to_numpy()
    order = np.argsort(-np.nan_to_num(np.abs(values)), axis=1)[:, :_N_WORST]
    for row, numbers in enumerate(order):
        words = []
        for number in numbers:
            if abs(values[row, number]) > N_DEVIATIONS:
                words.append(f"{columns[number]} {values[row, number]:+.1f}")
        worst.append(", ".join(words))
    return worst


def _problems_by_row(inspected: InspectedMeasures) -> list[list[str]]:
    """Return one list of texts for each inspected person, in order: the problems of the person."""
    reasons = list[list[str]]()
    for _ in inspected.names:
        reasons.append([])
    for problem in inspected.problems.found:
        row = inspected.row_of(problem)
        if row is not None:
            reasons[row].append(str(problem._replace(line=None, name="")))
    return reasons


def table_of_measures(inspected: InspectedMeasures, deviations: Deviations) -> pd.DataFrame:
    """Return a table with a row for each measure of inspected people, most outliers first.

    Columns are the kind of the measure, the median over the people, the number of people with an
    outlier, without a value and with an impossible 0, the site with the largest deviation in
    ``deviations.of_sites``, ``shift`` (this deviation, with sign, in standard deviations), and
    whether the measure is constant.
    """
    names = deviations.of_people.columns
    values = inspected.values.reindex(columns=names)
    table = pd.DataFrame(index=names)
    table["kind"] = names.map(dict(inspected.table.kinds)).fillna("")
    table["median"] = values.median()
    table["n_outside"] = deviations.is_outside.sum()
    table["n_missing"] = values.isna().sum()
    table["n_zero"] = inspected.zeros.reindex(columns=names, fill_value=False).sum()
    compared = deviations.of_sites.dropna(axis=1, how="all")
    table["furthest_site"] = ""
    table["shift"] = np.nan
    if not compared.empty:
        furthest = compared.abs().idxmax().astype(str)
        largest = compared.abs().max()
        table["furthest_site"] = furthest.reindex(names).fillna("")
        table["shift"] = largest.where(compared.max() == largest, -largest)
    table["is_constant"] = table.index.isin(inspected.constants)
    order = np.lexsort((-table["shift"].abs().fillna(0), -table["n_outside"]))
    return table.iloc[order].rename_axis("measure").reset_index()


def table_by_site(
    inspected: InspectedMeasures, deviations: Deviations, measures: Sequence[str]
) -> pd.DataFrame:
    """Return a table with a row for each of `measures` and each site of inspected people.

    Columns are the number of people with a value, with none, with an impossible 0 and with an
    outlier, quantiles of the values, and ``shift``: the deviation of the site in the table
    ``deviations.of_sites``, in standard deviations.
    """
    sites = sites_of_rows(inspected)
    values = inspected.values.reindex(columns=list(measures))
    groups = values.groupby(sites)
    zeros = inspected.zeros.reindex(columns=list(measures), fill_value=False)
    tables = {
        "n": groups.count(),
        "n_missing": values.isna().groupby(sites).sum(),
        "n_zero": zeros.groupby(sites).sum(),
        "n_outside": deviations.is_outside[list(measures)].groupby(sites).sum(),
    }
    for quantile in _QUANTILES:
        tables[f"q{quantile * 100:02.0f}"] = groups.quantile(quantile)
    shifts = deviations.of_sites.reindex(index=tables["n"].index, columns=list(measures))
    tables["shift"] = shifts.astype(float).round(2)
    columns = {}
    for name, by_measure in tables.items():
        columns[name] = by_measure.T.stack(future_stack=True)
    table = pd.DataFrame(columns)
    table.index.names = ["measure", "site"]
    return table.loc[list(measures)].reset_index()


def table_of_sites(people: pd.DataFrame) -> pd.DataFrame:
    """Return a table with a row for each site in `people`, the result of `table_of_people`.

    Columns are the number of people, the median age, programs, and the numbers of people who lack
    measures, have zeros, or are flagged.
    """
    people = people.reindex(columns=people.columns.union(["age"], sort=False))
    rows = []
    for site, of_site in people.groupby("site"):
        row = {
            "site": site,
            "people": len(of_site),
            "age": of_site["age"].median(),
            "software": _programs(of_site["software"]),
            "lacking": int((of_site["n_missing"] > 0).sum()),
            "with_zeros": int((of_site["n_zero"] > 0).sum()),
            "flagged": int((of_site["flagged"] == "yes").sum()),
        }
        rows.append(row)
    return pd.DataFrame(rows)


def _programs(versions: pd.Series) -> str:
    """Return in words the programs that processed people's scans.

    `versions` has a program and version for each person. If people have different ones, the text
    gives the number of people of each.
    """
    stated = versions.replace("", "not known")
    if stated.nunique() == 1:
        return str(stated.iloc[0])
    return ", ".join(count_versions(stated))
