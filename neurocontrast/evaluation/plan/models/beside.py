"""Model of regional measures and the embedding side by side, in one probe.

It is compared with the model of the measures alone: does the embedding add to the measures?
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from neurocontrast.evaluation.plan.models.model import Baseline, ProbeModel
from neurocontrast.evaluation.probes.designs import (
    Design,
    FeatureDesign,
    PairDesign,
)
from neurocontrast.evaluation.probes.members import first_design, map_design

if TYPE_CHECKING:
    from neurocontrast.evaluation.plan.plan import Plan


def make_regional_beside(plan: Plan) -> ProbeModel | None:
    """Return the model of regional measures and embedding together; None without measures.

    None also if the user gave an estimator, and for an encoder that does not return principal
    components of the scans after the network's features.
    """
    for model in plan.models:
        if model.name == "regional" and isinstance(model, ProbeModel):
            return make_beside(plan, model)
    return None


def make_beside(plan: Plan, first: ProbeModel) -> ProbeModel | None:
    """Return a built-in probe of the features of the model `first` and of the embedding together.

    The probe chooses the share of each of the two groups of features in the total variance. Some
    encoders return principal components of the scans after the network's features; for an encoder
    that returns none, and for joined encoders, None is returned. None also if the user gave an
    estimator, since only built-in probes scale the two groups, and if `first` has no name as a
    model to compare with (`Model.baseline`).
    """
    if plan.estimator is not None or first.baseline is None or not plan.own_blocks:
        return None
    baseline = Baseline(
        f"{first.baseline.name} + embedding",
        f"{first.baseline.plural} and the embedding",
        beside=first.name,
    )
    alone = first_design(first.design)

    def pair(embedding: Design) -> Design:
        assert isinstance(embedding, FeatureDesign)
        return PairDesign(alone, embedding)

    return ProbeModel(f"{first.name}_beside", map_design(plan.design(), pair), baseline=baseline)
