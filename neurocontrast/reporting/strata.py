"""Parts of a cohort, each with its metrics: sites, sexes, age bands."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from neurocontrast.reporting.folder import EvaluationFiles

__all__ = ["Strata", "group_strata", "site_strata"]

_TITLES = {"age_band": "age band"}


@dataclass(frozen=True)
class Strata:
    """Rows of a forest plot and of a table, a part each: ``n``, the metrics, their ends, the baseline and a note.

    `column` names the part, `name` begins the figure's name, `title` says what a part is ("Site"), `where` says so in
    running text ("at each site"), `total` names everybody, and `file` is where the table comes from.
    """

    table: pd.DataFrame
    column: str
    name: str
    title: str
    where: str
    total: str
    file: str

    def ordered(self) -> pd.DataFrame:
        """Return the table in the order to show: the largest site first, groups as they stand."""
        if self.column != "site":
            return self.table
        return self.table.sort_values(["n", "site"], ascending=[False, True], ignore_index=True)


def site_strata(files: EvaluationFiles, *, file: str = "sites.tsv") -> Strata:
    """Return the sites, the largest first."""
    return Strata(files.sites, "site", "sites", "Site", "at each site", "All sites, pooled", file)


def group_strata(files: EvaluationFiles) -> list[Strata]:
    """Return the groups of each column of groups.tsv, in the table's order; none where it is absent."""
    found = []
    for name, table in [] if files.groups is None else files.groups.groupby("group_by", sort=False):
        title = _TITLES.get(str(name), str(name).replace("_", " "))
        rows = table.reset_index(drop=True)
        capital = title[:1].upper() + title[1:]
        found.append(Strata(rows, "group", f"groups_{name}", capital, f"by {title}", "Everybody, pooled", "groups.tsv"))
    return found
