"""The network's features without the components that its encoder keeps beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neurocontrast.documents.notice import Notice
from neurocontrast.evaluation.models.model import ProbeModel, Rival
from neurocontrast.evaluation.models.own import keep_fitting

if TYPE_CHECKING:
    from neurocontrast.evaluation.study import Study


def make_network(study: Study) -> ProbeModel | Notice | None:
    """Return the study's estimator on the network's block; None for features of one block."""
    if not study.own_blocks:
        return None
    block = study.own_blocks[0]
    whose = "the network"
    if study.members:
        whose = "each member's network"
    n_features = study.size_of_block(block.name)
    rival = Rival("network", f"{n_features} features of {whose}", lacks="the components")
    model = ProbeModel("network", study.design(block=block.name), study.estimator, rival=rival)
    return keep_fitting(study, model)
