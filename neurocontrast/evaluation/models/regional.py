"""Volumes, thicknesses and other measures of regions, which need no encoder: a linear model of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neurocontrast.evaluation.models.covariates import CovariateDesign
from neurocontrast.evaluation.models.model import ProbeModel, Rival
from neurocontrast.evaluation.probes import default_probe
from neurocontrast.evaluation.rows import choose_numbers

if TYPE_CHECKING:
    from neurocontrast.evaluation.study import Study


def make_regional(study: Study) -> ProbeModel | None:
    """Return the columns that the setting `regional` names, with the default probe; None without any."""
    names = choose_numbers(
        study.table, study.settings.regional, option="regional", target=study.target.name
    )
    if not names:
        return None
    rival = Rival(
        "regions", f"{len(names)} regional measures", "measures of the regions of the scans"
    )
    design, about = CovariateDesign(study.table, names), {"regional_columns": list(names)}
    return ProbeModel(
        "regional", design, default_probe(study.target.kind), rival=rival, about=about
    )
