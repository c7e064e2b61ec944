"""Model of the principal components that some encoders return besides their network's features.

The network's features are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from neurocontrast.documents.notice import Notice
from neurocontrast.evaluation.plan.models.model import Baseline, ProbeModel
from neurocontrast.evaluation.plan.models.own import keep_fitting

if TYPE_CHECKING:
    from neurocontrast.evaluation.plan.plan import Plan


def make_components(plan: Plan) -> ProbeModel | Notice | None:
    """Return a model of an encoder's principal components alone; None for an encoder without any.

    Some encoders return principal components of the scans after the network's features: the model
    leaves the network's features out. The model has the plan's estimator and is not fitted yet. If
    the user's own estimator fails in a trial fit of the components, a warning is returned in place
    of the model.
    """
    if not plan.own_blocks:
        return None
    block = plan.own_blocks[1]
    whose = "the encoder"
    if plan.members:
        whose = "each member"
    baseline = Baseline(
        "components",
        f"{plan.size_of_block(block.name)} principal components of {whose}",
        "a linear model of the same scans",
        lacks="the network",
    )
    model = ProbeModel(
        "components", plan.design(block=block.name), plan.estimator, baseline=baseline
    )
    return keep_fitting(plan, model)
