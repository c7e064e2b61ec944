"""y-Aware InfoNCE."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import softplus

from neurocontrast.kernels.factors import KernelSettings
from neurocontrast.losses.alignment_uniformity import ConditionalAlignment
from neurocontrast.losses.core import Pool, candidates_of, log_sum_exp, similarity_and_mass
from neurocontrast.losses.objective import LossSettings
from neurocontrast.losses.tiles import LINEAR_FROM
from neurocontrast.settings import Positive

__all__ = ["YAwareInfoNCE"]


class YAwareInfoNCE(ConditionalAlignment):
    """Y-Aware InfoNCE: scans attract as far as their metadata are alike, and all repel.

    mean_i Σ_{j≠i} (w_ij / Σ_k w_ik) ( −s_ij + log Σ_{k≠i} exp s_ik ) over the pool of 2n embeddings (Dufumier et al.
    2021), which is conditional alignment + global uniformity + log M. Each anchor's weights sum to 1
    (rows, not columns, are normalised: a scan of a rare age counts as much as any other).

    With ``negatives``, a second kernel v, the sum in the logarithm is over candidates of the weight
    b_ij = max(v_ij/‖v‖∞, w_ij/‖w‖∞): mean_i Σ_{j≠i} (w_ij / Σ_k w_ik) ( −s_ij + log Σ_{k≠i} b_ik exp s_ik ). A scan is
    then told from those that v makes its negatives, and from its positives, but from no other. With v the `Categorical`
    kernel on the site, nothing is gained by telling sites apart, while scans of like age attract across sites. v = 1
    everywhere is y-Aware InfoNCE again; where only the own second view is a positive, it is `FairInfoNCE`.

    Choose it when metadata such as age should shape the representation. A bandwidth near 0 gives `NTXent`, a
    categorical kernel `SupCon`. Note that it also pushes alike scans apart, a little; with
    `ConditionalAlignmentUniformity` it does not.

    Parameters
    ----------
    kernel : Kernel
        Kernel w ≥ 0 between scans, such as ``Gaussian("age", sigma=5.0) * Categorical("sex")``. Wider kernels pull more
        scans together and make the representation smoother in the metadata.
    temperature : float
        Temperature τ. Small: the hardest negatives decide, and alignment weighs more.
    negatives : Kernel, optional
        Kernel v ≥ 0 between scans, such as ``Categorical("site")``: who is a negative, and how much. None: all.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.kernels import Gaussian
    >>> loss = YAwareInfoNCE(Gaussian("age", sigma=5.0), temperature=1.0)
    >>> loss(torch.eye(2), torch.eye(2), {"age": torch.tensor([20.0, 60.0])})
    tensor(0.5514)
    """

    title = "y-Aware InfoNCE"
    citation = (
        "Dufumier B, Gori P, Victor J, et al. Contrastive learning with continuous proxy meta-data for 3D MRI "
        "classification. MICCAI 2021."
    )

    class Settings(LossSettings):
        kernel: KernelSettings
        temperature: Positive = 0.1
        negatives: KernelSettings | None = None

    def value(self, pool: Pool) -> Tensor:
        # log M cancels.
        if len(pool.rows) == 2 and self.negatives is None:
            # Both parts are 0 where the loss is, so that it keeps its digits there.
            others, _ = log_sum_exp(pool, self.scale, excluded="sample")
            nearer, _ = similarity_and_mass(pool, self.scale, self.kernel, to_twin=True)
            return pool.mean(softplus(others - pool.twins(self.scale), threshold=LINEAR_FROM) - nearer)
        similarity, positives = similarity_and_mass(pool, self.scale, self.kernel)
        return pool.mean(self._log_sums(pool)[0] - similarity, positives)

    def parts(self, pool: Pool) -> dict[str, Tensor]:
        similarity, positives = similarity_and_mass(pool, self.scale, self.kernel)
        sums, mass = self._log_sums(pool)
        log_candidates = (
            pool.rows.new_full((), math.log(max(1, pool.n_candidates)))
            if mass is None
            else pool.mean(mass.log(), positives)
        )
        return {
            "alignment": -pool.mean(similarity, positives),
            "uniformity": pool.mean(sums, positives) - log_candidates,
            "log_candidates": log_candidates,
        }

    def _log_sums(self, pool: Pool) -> tuple[Tensor, Tensor | None]:
        """Return the log-sum-exp of every anchor, and with ``negatives`` its mass Σ_j b_ij; 0 and 1 without any."""
        scale = self.scale
        if self.negatives is None:
            return log_sum_exp(pool, scale)[0], None
        sums, mass = log_sum_exp(pool, scale, candidates_of(pool, self.kernel, self.negatives))
        return torch.where(mass > 0, sums, 0), torch.where(mass > 0, mass, 1)
