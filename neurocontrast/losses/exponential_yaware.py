"""L^exp: y-Aware InfoNCE whose repulsion fades with likeness."""

from __future__ import annotations

from torch import Tensor

from neurocontrast.kernels.factors import KernelSettings
from neurocontrast.losses.alignment_uniformity import ConditionalAlignment
from neurocontrast.losses.core import Pool, log_sum_exp, similarity_and_mass, unlikeness
from neurocontrast.losses.objective import LossSettings
from neurocontrast.settings import Positive

__all__ = ["ExponentialYAware"]


class ExponentialYAware(ConditionalAlignment):
    """L^exp: scans attract as far as their metadata are alike, and repel as far as they differ.

    mean_i Σ_{j≠i} (w_ij / Σ_k w_ik) ( −s_ij + log Σ_{k≠i} exp( s_ik (1 − w_ik/‖w‖∞) ) ) over the pool of 2n embeddings
    (Barbano et al. 2023, the loss L^exp). It is `YAwareInfoNCE` with each similarity in the logarithm multiplied by how
    much the two scans differ: scans of equal metadata do not repel at all. The sum over k
    keeps the positive j itself; some sources leave it out.

    Choose it over `YAwareInfoNCE` to predict a continuous variable such as the age. Because the damped similarity of
    alike scans is 0 and not −∞, each adds 1 to the sum, which weakens the repulsion of the others where many are alike;
    `ConditionalAlignmentUniformity` leaves alike scans out of the sum.

    Parameters
    ----------
    kernel : Kernel
        Kernel w ≥ 0 between scans, such as ``Gaussian("age", sigma=5.0)``. Wider kernels pull more scans together and
        push fewer apart.
    temperature : float
        Temperature τ. Small: the hardest negatives decide, and alignment weighs more.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.kernels import Gaussian
    >>> loss = ExponentialYAware(Gaussian("age", sigma=5.0), temperature=1.0)
    >>> loss(torch.eye(2), torch.eye(2), {"age": torch.tensor([20.0, 60.0])})
    tensor(0.0986)
    """

    title = "exponential y-Aware (L^exp)"
    citation = (
        "Barbano CA, Dufumier B, Duchesnay E, Grangetto M, Gori P. Contrastive learning for regression in multi-site "
        "brain age prediction. ISBI 2023."
    )

    class Settings(LossSettings):
        kernel: KernelSettings
        temperature: Positive = 0.1

    def parts(self, pool: Pool) -> dict[str, Tensor]:
        sums, _ = log_sum_exp(pool, self.scale, damping=unlikeness(pool, self.kernel))
        similarity, mass = similarity_and_mass(pool, self.scale, self.kernel)
        return {"alignment": -pool.mean(similarity, mass), "uniformity": pool.mean(sums, mass)}
