"""Volumes, thicknesses and other measures of regions, which need no encoder: a linear model of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pandas as pd

from neurocontrast.data.measures.names import Kind, region_of
from neurocontrast.data.measures.units import People, check_units_of_people
from neurocontrast.evaluation.models.covariates import CovariateDesign
from neurocontrast.evaluation.models.model import ProbeModel, Rival
from neurocontrast.evaluation.probes import default_probe
from neurocontrast.evaluation.rows import choose_numbers, row_names, sites_of_rows

if TYPE_CHECKING:
    from neurocontrast.evaluation.study import Study


def check_regional(table: pd.DataFrame, names: Sequence[str]) -> None:
    """Refuse regional measures of sites or people in another unit than that of the others.

    A column of an unknown region is judged as a volume.
    """
    kinds: dict[str, Kind] = dict.fromkeys(names, "volume")
    for name in names:
        region = region_of(name)
        if region is not None:
            kinds[name] = region.kind
    people = People("embeddings", row_names(table, range(len(table))), sites_of_rows(table))
    check_units_of_people(table[list(names)], kinds, people)


def choose_regional(study: Study) -> tuple[str, ...]:
    """Return the columns that the setting `regional` names, after a check of their units."""
    names = choose_numbers(
        study.table, study.settings.regional, option="regional", target=study.target.name
    )
    if names:
        check_regional(study.table, names)
    return names


def make_regional(study: Study) -> ProbeModel | None:
    """Return the columns that the setting `regional` names, with the default probe; None without any."""
    names = choose_regional(study)
    if not names:
        return None
    rival = Rival(
        "regions", f"{len(names)} regional measures", "measures of the regions of the scans"
    )
    design, about = CovariateDesign(study.table, names), {"regional_columns": list(names)}
    return ProbeModel(
        "regional", design, default_probe(study.target.kind), rival=rival, about=about
    )
