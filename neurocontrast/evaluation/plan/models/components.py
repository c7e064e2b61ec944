"""Model of the linear components that an encoder keeps, without the encoder's network."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neurocontrast.documents.notice import Notice
from neurocontrast.evaluation.plan.models.model import Baseline, ProbeModel
from neurocontrast.evaluation.plan.models.own import keep_fitting

if TYPE_CHECKING:
    from neurocontrast.evaluation.plan.plan import Plan


def make_components(plan: Plan) -> ProbeModel | Notice | None:
    """Return the model of an encoder's linear components alone; None for an encoder without any.

    The components are principal components that the encoder keeps beside its network. The plan's
    estimator is fitted to them; if the user's own estimator cannot be, a warning is returned.
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
