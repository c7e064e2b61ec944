"""Count the scans of a table by site, sex and diagnosis."""

import pandas as pd

from neurocontrast.data.addresses import address_of
from neurocontrast.data.cohort import Cohort
from neurocontrast.data.kinds import KINDS, SampleKind


def kind_of_images(cohort: Cohort) -> SampleKind | None:
    """Return the registered `SampleKind` of a cohort of natural images; None for brains.

    The kind is that of the first path in the cohort's table that is the address of a natural image.
    """
    for path in cohort.table.get("path", ()):
        address = address_of(str(path))
        if address is not None:
            return KINDS.find(address.kind)
    return None


def summarise(cohort: Cohort) -> pd.DataFrame:
    """Count the scans of each site, or the images of each split, in a table with one row for each.

    The last row counts all scans of the cohort.
    """
    sample_kind = kind_of_images(cohort)
    table = cohort.table
    if sample_kind is not None:
        return sample_kind.summarise(table)
    by_site = {}
    if "site" in table and table["site"].notna().any():
        by_site = {str(site): scans for site, scans in table.groupby("site")}
        if table["site"].isna().any():
            by_site["site n/a"] = table[table["site"].isna()]
    counts = []
    for scans in [*by_site.values(), table]:
        counts.append(_count_scans(scans, table))
    return pd.DataFrame(counts, index=[*by_site, "all"])


def _count_scans(scans: pd.DataFrame, whole: pd.DataFrame) -> dict[str, float]:
    """Return a row of the table of `summarise`: counts and ages of `scans`, of one or all sites.

    Sexes and diagnoses are counted that the table `whole` has, so that all rows have the same
    columns.
    """
    row: dict[str, float] = {"scans": len(scans), "subjects": scans["subject_id"].nunique()}
    if "age" in whole:
        ages = scans["age"].agg(["mean", "min", "max"])
        row |= {f"age {name}": value for name, value in ages.items()}
    for column in ("sex", "diagnosis"):
        if column in whole:
            counts = scans[column].value_counts()
            row |= {
                f"{column} {value}": int(counts.get(value, 0))
                for value in sorted(whole[column].dropna().unique())
            }
            if whole[column].isna().any():
                row[f"{column} n/a"] = int(scans[column].isna().sum())
    return row


def without_ages(summary: pd.DataFrame) -> pd.DataFrame:
    """Return `summary`, a table made by `summarise`, without its columns of ages.

    The youngest and oldest age of a site are the ages of single people, who could be recognised.
    """
    return summary.loc[:, ~summary.columns.astype(str).str.startswith("age")]
