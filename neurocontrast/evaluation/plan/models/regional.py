"""Model of volumes, thicknesses and other measures of brain regions, without an encoder."""

from __future__ import annotations

from collections.abc import Sequence
from glob import escape as escape_pattern
from typing import TYPE_CHECKING

import pandas as pd

from neurocontrast.data.measures.names import Kind, region_of
from neurocontrast.data.measures.units import People, check_units_of_people
from neurocontrast.data.measures.unmarked import check_codes
from neurocontrast.documents.notice import Notice
from neurocontrast.evaluation.plan.models.covariates import CovariateDesign
from neurocontrast.evaluation.plan.models.model import Baseline, ProbeModel
from neurocontrast.evaluation.plan.models.own import keep_fitting
from neurocontrast.evaluation.rows import choose_numbers, row_names, sites_of_rows

if TYPE_CHECKING:
    from neurocontrast.evaluation.plan.plan import Plan


def check_regional(table: pd.DataFrame, names: Sequence[str]) -> None:
    """Refuse regional measures in mixed units, and codes such as 999 for missing values.

    Units are compared between sites and people. A column of an unknown region counts as a volume.
    """
    kinds: dict[str, Kind] = dict.fromkeys(names, "volume")
    for name in names:
        region = region_of(name)
        if region is not None:
            kinds[name] = region.kind
    people = People("embeddings", row_names(table, range(len(table))), sites_of_rows(table))
    values = table[list(names)]
    check_units_of_people(values, kinds, people)
    check_codes(values, kinds, people)


def choose_regional(plan: Plan) -> tuple[str, ...]:
    """Return the names of the plan's columns for the model of regional measures.

    If the setting `regional` is given, it names the columns. Without it, an encoder that reads
    regional measures has the columns that it reads, unless ``voxels=off`` asks for no baseline of
    the encoder's input; an encoder of scans has none. An empty tuple means that there is no model
    of regional measures. Columns in mixed units are refused.
    """
    patterns = plan.settings.regional
    preprocessing = plan.info.run.preprocessing
    if preprocessing.kind == "measures" and not patterns and plan.settings.voxels != "off":
        columns = filter(plan.table.columns.__contains__, preprocessing.columns)
        patterns = tuple(map(escape_pattern, columns))
    names = choose_numbers(plan.table, patterns, option="regional", target=plan.target.name)
    if names:
        check_regional(plan.table, names)
    return names


def make_regional(plan: Plan) -> ProbeModel | Notice | None:
    """Return a model of the columns that `choose_regional` names; None if there are none.

    The model has the plan's estimator and is not fitted yet. If the user's own estimator fails in a
    trial fit of the measures, a warning is returned in place of the model.
    """
    names = choose_regional(plan)
    if not names:
        return None
    baseline = Baseline(
        "regions", f"{len(names)} regional measures", "measures of the regions of the scans"
    )
    design = CovariateDesign(plan.table, names)
    columns = {"regional_columns": list(names)}
    model = ProbeModel("regional", design, plan.estimator, baseline=baseline, result_keys=columns)
    return keep_fitting(plan, model)
