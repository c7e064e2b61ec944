"""The embedding, with the probe that the settings name or the user's own estimator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neurocontrast.evaluation.models.model import ProbeModel

if TYPE_CHECKING:
    from neurocontrast.evaluation.planning import Study

__all__ = ["make"]


def make(study: Study) -> ProbeModel:
    """Return the model that the evaluation is about."""
    return ProbeModel("embedding", study.design(), study.estimator)
