"""Warn of data that `pretrain` accepts: mixed versions, odd ages, constant or missing measures."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from neurocontrast.data.measures.inspecting import InspectedMeasures, count_versions
from neurocontrast.data.problems import first_names

_N_OF_SITE = 5
"""Smallest number of people of a site with one value of a measure for which a warning is given."""
_N_SHOWN = 10
"""Largest number of measures or sites that warnings name."""
_YOUNGEST = 4.0
_OLDEST = 100.0
"""Highest age in years that FreeSurfer is made for; `_YOUNGEST` is the lowest."""
_ZEROS = " are 0, of "
"""Words by which notes on impossible zeros are recognised, and left out of the warnings.

`_about_missing` warns of the zeros of each measure.
"""


def warnings_about(inspected: InspectedMeasures) -> list[str]:
    """Return all warnings about inspected people, versions of programs, and missing measures."""
    return [*warnings_about_people(inspected), *_about_missing(inspected)]


def warnings_about_people(inspected: InspectedMeasures) -> list[str]:
    """Return warnings about people and program versions, without the ones on missing measures.

    Notes on the tables of measures are among the warnings.
    """
    notes = filter(lambda note: _ZEROS not in note, inspected.table.notes)
    return [
        *notes,
        *_about_versions(inspected),
        *_about_ages(inspected.people.table, inspected.names),
        *_about_constants(inspected),
    ]


def _about_missing(inspected: InspectedMeasures) -> list[str]:
    """Return warnings on measures that some people lack: one each for the ten most incomplete.

    A last warning counts the other incomplete measures.
    """
    measured = inspected.is_measured
    missing = inspected.values[measured].isna()
    zeros = inspected.zeros[measured]
    sites = inspected.sites[measured].to_numpy()
    counts = missing.sum().sort_values(ascending=False, kind="stable")
    lacking = counts[counts > 0]
    warnings = []
    for name, n_missing in lacking.head(_N_SHOWN).items():
        n_zeros = int(zeros[name].sum())
        of_sites = sorted(set(sites[missing[name].to_numpy()]) - {""})
        at = f" (sites {first_names(of_sites)})" * bool(of_sites)
        are_zeros = f", 0 in {n_zeros}" * bool(n_zeros)
        warnings.append(
            f"'{name}' is missing in {n_missing} of {len(missing)} scans{are_zeros}{at}"
        )
    if len(lacking) > _N_SHOWN:
        n_further = len(lacking) - _N_SHOWN
        most = int(lacking.iloc[_N_SHOWN])
        warnings.append(
            f"{n_further} further measures are missing or 0 in at most {most} scans each"
        )
    return warnings


def _about_constants(inspected: InspectedMeasures) -> list[str]:
    """Return warnings on measures with one and the same value in everybody, or in a whole site.

    One warning names the measures of everybody, and one for each site the measures of the site.
    """
    warnings = []
    if inspected.constants:
        warnings.append(
            f"the same for everybody, so that nothing is learned of it: "
            f"{first_names(inspected.constants, _N_SHOWN)}"
        )
    values = inspected.values.drop(columns=inspected.constants)
    for site, of_site in values.groupby(inspected.sites):
        n_known = of_site.notna().sum()
        is_alike = (of_site.nunique() == 1) & (n_known >= _N_OF_SITE)
        names = is_alike.index[is_alike].astype(str).tolist()
        if site and names:
            warnings.append(
                f"site {site}: one value for everybody of the site in {first_names(names)}"
            )
    return warnings


def _about_versions(inspected: InspectedMeasures) -> list[str]:
    """Return a list of one warning, on sites whose people were processed by several versions.

    A version is a program and its version, such as FreeSurfer 6.0.1. The list is empty if no site
    has two.
    """
    programs = pd.DataFrame({"site": inspected.sites, "version": inspected.versions})
    programs = programs[programs["version"] != ""]
    mixed = []
    for site, versions in programs.groupby("site")["version"]:
        counts = count_versions(versions)
        if len(counts) > 1:
            name = f"site {site}".removesuffix("site ") or "people without a site"
            mixed.append(f"{name}: {', '.join(counts)}")
    if not mixed:
        return []
    return [
        f"several versions of the program within a site, which differ as scanners do (run one for "
        f"all, or make a site of each): {'; '.join(mixed[:_N_SHOWN])}"
    ]


def _about_ages(table: pd.DataFrame, names: Sequence[str]) -> list[str]:
    """Return a list of one warning if ages are missing as a column, or outside FreeSurfer's range.

    The list is empty if all ages are 4 to 100 years. `names` are the people's names for the
    warning.
    """
    if "age" not in table:
        return ["there is no column 'age': what is learned of ages needs it"]
    ages = table["age"].to_numpy(dtype=float)
    odd = np.flatnonzero((ages < _YOUNGEST) | (ages > _OLDEST)).tolist()
    if not odd:
        return []
    listed = []
    for row in odd:
        listed.append(f"{names[row]} ({ages[row]:g})")
    return [
        f"column 'age': {len(odd)} below {_YOUNGEST:g} or above {_OLDEST:g} years, "
        f"{first_names(listed)}: are they years?"
    ]
