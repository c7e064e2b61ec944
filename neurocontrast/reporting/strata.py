"""Parts of a cohort, each with its metrics: sites, sexes, age bands."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from neurocontrast.reporting.folder import EvaluationFiles

__all__ = ["Strata", "group_strata", "site_strata"]

_TITLES = {"sex": "sex", "age_band": "age band"}


@dataclass(frozen=True)
class Strata:
    """Rows of a forest plot and of a table.

    Attributes
    ----------
    table : DataFrame
        One row a part: ``n``, the metrics, their ends (``<metric>_low``), ``baseline_<metric>`` and a note.
    column : str
        The column that names the part.
    name : str
        Beginning of the figure's name.
    title : str
        What a part is: "site".
    where : str
        For running text: "at each site".
    total : str
        What all of them together are called.
    file : str
        Where the table comes from.
    by_size : bool
        Whether the largest comes first; the table's order otherwise.
    """

    table: pd.DataFrame
    column: str
    name: str
    title: str
    where: str
    total: str
    file: str
    by_size: bool = True


def site_strata(files: EvaluationFiles, *, file: str = "sites.tsv") -> Strata:
    """Return the sites, the largest first."""
    return Strata(files.sites, "site", "sites", "Site", "at each site", "All sites, pooled", file)


def group_strata(files: EvaluationFiles) -> list[Strata]:
    """Return the groups of each column of groups.tsv, in the table's order; none where it is absent."""
    if files.groups is None:
        return []
    found = []
    for name, table in files.groups.groupby("group_by", sort=False):
        title = _TITLES.get(str(name), str(name).replace("_", " "))
        found.append(
            Strata(table.reset_index(drop=True), "group", f"groups_{name}", title[:1].upper() + title[1:],
                   f"by {title}", "Everybody, pooled", "groups.tsv", by_size=False)
        )  # fmt: skip
    return found
