"""The components that an encoder keeps, without its network: a linear model of the same scans."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neurocontrast.documents.notice import Notice
from neurocontrast.evaluation.models.model import ProbeModel, Rival
from neurocontrast.evaluation.models.own import keep_fitting

if TYPE_CHECKING:
    from neurocontrast.evaluation.study import Study


def make_components(study: Study) -> ProbeModel | Notice | None:
    """Return the study's estimator on the block of components; None for features of one block."""
    if not study.own_blocks:
        return None
    block = study.own_blocks[1]
    whose = "the encoder"
    if study.members:
        whose = "each member"
    rival = Rival(
        "components",
        f"{study.size_of_block(block.name)} principal components of {whose}",
        "a linear model of the same scans",
        lacks="the network",
    )
    model = ProbeModel("components", study.design(block=block.name), study.estimator, rival=rival)
    return keep_fitting(study, model)
