"""Model of the features of an encoder's network alone.

Some encoders return principal components of the scans after the network's features; the model
leaves out the components.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from neurocontrast.documents.notice import Notice
from neurocontrast.evaluation.plan.models.model import Baseline, ProbeModel
from neurocontrast.evaluation.plan.models.own import keep_fitting

if TYPE_CHECKING:
    from neurocontrast.evaluation.plan.plan import Plan


def make_network(plan: Plan) -> ProbeModel | Notice | None:
    """Return a model of the network's features alone; None for an encoder without components.

    Some encoders return principal components of the scans after the network's features: the model
    leaves the components out. Without components, the model would be that of the embedding. The
    model has the plan's estimator and is not fitted yet. If the user's own estimator fails in a
    trial fit of the features, a warning is returned in place of the model.
    """
    if not plan.own_blocks:
        return None
    block = plan.own_blocks[0]
    whose = "the network"
    if plan.members:
        whose = "each member's network"
    n_features = plan.size_of_block(block.name)
    baseline = Baseline("network", f"{n_features} features of {whose}", lacks="the components")
    model = ProbeModel("network", plan.design(block=block.name), plan.estimator, baseline=baseline)
    return keep_fitting(plan, model)
