"""From the configuration to objects."""

from __future__ import annotations

from functools import reduce
from operator import mul
from typing import Any

from neurocontrast import kernels, losses
from neurocontrast.config.objectives import KernelSettings, ObjectiveSettings, Single, SumSettings

__all__ = ["build_kernel", "build_objective"]

_KERNELS: dict[str, type[kernels.Kernel]] = {
    "gaussian": kernels.Gaussian,
    "laplacian": kernels.Laplacian,
    "cosine": kernels.Cosine,
    "linear": kernels.Linear,
    "polynomial": kernels.Polynomial,
    "categorical": kernels.Categorical,
    "different": kernels.Different,
}
_LOSSES: dict[str, Any] = {
    "infonce": losses.InfoNCE,
    "ntxent": losses.NTXent,
    "yaware": losses.YAwareInfoNCE,
    "conditional": losses.ConditionalAlignmentUniformity,
    "conditional_alignment": losses.ConditionalAlignment,
    "conditional_uniformity": losses.ConditionalUniformity,
    "global_uniformity": losses.GlobalUniformity,
    "alignment_uniformity": losses.AlignmentUniformity,
    "supcon": losses.SupCon,
    "sincere": losses.SINCERE,
    "epsilon_supinfonce": losses.EpsilonSupInfoNCE,
    "debiased": losses.DebiasedInfoNCE,
    "hard_negative": losses.HardNegativeInfoNCE,
    "fair_infonce": losses.FairInfoNCE,
    "triplet": losses.Triplet,
    "weakly_supervised_cclk": losses.WeaklySupervisedCCLK,
    "fair_cclk": losses.FairCCLK,
    "hard_negative_cclk": losses.HardNegativeCCLK,
}


def build_kernel(factors: KernelSettings) -> kernels.Kernel:
    """Return the product of the factors."""
    built = [_KERNELS[factor.type](**factor.model_dump(exclude={"type"})) for factor in factors]
    return reduce(mul, built)


def build_objective(settings: ObjectiveSettings) -> losses.Objective | losses.SumOfObjectives:
    """Return the loss that the ``objective`` section describes."""
    if isinstance(settings, SumSettings):
        parts = {name: _build_single(part) for name, part in settings.objectives.items()}
        return losses.SumOfObjectives(parts, weights=settings.weights)
    return _build_single(settings)


def _build_single(settings: Single) -> losses.Objective:
    keys = settings.model_dump(exclude={"loss", "kernel", "negatives"})
    for name in ("kernel", "negatives"):
        factors = getattr(settings, name, None)
        if factors is not None:
            keys[name] = build_kernel(factors)
    objective: losses.Objective = _LOSSES[settings.loss](**keys)
    return objective
