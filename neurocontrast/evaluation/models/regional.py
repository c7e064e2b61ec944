"""Volumes, thicknesses and other measures of regions, which need no encoder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neurocontrast.evaluation.models.covariates import CovariateDesign
from neurocontrast.evaluation.models.model import ProbeModel, Rival
from neurocontrast.evaluation.models.own import keep_fitting
from neurocontrast.evaluation.record import Notice
from neurocontrast.evaluation.rows import choose_numbers

if TYPE_CHECKING:
    from neurocontrast.evaluation.study import Study


def make_regional(study: Study) -> ProbeModel | Notice | None:
    """Return the columns that `regional` names, with the study's estimator; None without any."""
    names = choose_numbers(
        study.table, study.settings.regional, option="regional", target=study.target.name
    )
    if not names:
        return None
    rival = Rival(
        "regions", f"{len(names)} regional measures", "measures of the regions of the scans"
    )
    design = CovariateDesign(study.table, names)
    columns = {"regional_columns": list(names)}
    model = ProbeModel("regional", design, study.estimator, rival=rival, about=columns)
    return keep_fitting(study, model)
