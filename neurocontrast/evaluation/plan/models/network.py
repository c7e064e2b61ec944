"""Model of the network's features, without the linear components that an encoder keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neurocontrast.documents.notice import Notice
from neurocontrast.evaluation.plan.models.model import Baseline, ProbeModel
from neurocontrast.evaluation.plan.models.own import keep_fitting

if TYPE_CHECKING:
    from neurocontrast.evaluation.plan.plan import Plan


def make_network(plan: Plan) -> ProbeModel | Notice | None:
    """Return the model of the network's features alone; None for an encoder without components.

    The linear components that an encoder keeps beside its network are left out. The plan's
    estimator is fitted to the features; if the user's own estimator cannot be, a warning is
    returned.
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
