"""Alignment and uniformity on the hypersphere, without metadata."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from neurocontrast.losses.core import Pool, log_sum_exp
from neurocontrast.losses.objective import LossSettings, Objective
from neurocontrast.settings import NonNegative, Positive

__all__ = ["AlignmentUniformity"]


class AlignmentUniformity(Objective):
    """Alignment and uniformity on the hypersphere, without metadata.

    E‖z1 − z2‖^α + λ · (U(z1) + U(z2))/2, U(z) = log E_{i<j} exp(−t‖z_i − z_j‖²) (Wang and Isola 2020).
    Choose it to weigh the two forces freely; near `NTXent` with τ = 1/(2t).

    Parameters
    ----------
    alpha : float
        Exponent α > 0: the power of the distance of the two views; larger cares more for the worst pairs.
    t : float
        Scale t > 0: sharpness of the repulsion; larger pushes only the nearest.
    uniformity_weight : float
        Weight λ ≥ 0.

    Examples
    --------
    >>> import torch
    >>> AlignmentUniformity().terms(torch.eye(2), -torch.eye(2))
    {'alignment': tensor(4.), 'uniformity': tensor(-4.)}
    """

    title = "alignment + uniformity"
    citation = (
        "Wang T, Isola P. Understanding contrastive representation learning through alignment and uniformity on the "
        "hypersphere. ICML 2020."
    )

    class Settings(LossSettings):
        alpha: Positive = 2.0
        t: Positive = 2.0
        uniformity_weight: NonNegative = 1.0

    def parts(self, pool: Pool) -> dict[str, Tensor]:
        """``alignment``, and ``uniformity`` times its weight; the uniformity of one sample is 0."""
        squared = (pool.rows[0] - pool.rows[1]).square().sum(1)
        differ = squared > 0
        distances = torch.where(differ, torch.where(differ, squared, 1.0) ** (self.alpha / 2), 0.0)
        uniformity = (self._uniformity(pool.between(0, 0)) + self._uniformity(pool.between(1, 1))) / 2
        return {"alignment": pool.mean(distances), "uniformity": self.uniformity_weight * uniformity}

    def _uniformity(self, pool: Pool) -> Tensor:
        n = pool.n_samples
        if n == 1:
            return pool.rows.sum() * 0
        sums, _ = log_sum_exp(pool, 2 * self.t)
        return pool.log_total(sums) - 2 * self.t - math.log(n * (n - 1))
