"""Alignment and uniformity: conditional on metadata, and the plain ones of Wang and Isola."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from neurocontrast.kernels import Kernel
from neurocontrast.losses.core import Pool, dissimilar_to, log_sum_exp, similar_to, weighted_log_sum_exp
from neurocontrast.losses.fused import log_sums_and_chances, pool_gradient, pool_similarities, shares
from neurocontrast.losses.objective import Objective, check_number
from neurocontrast.losses.tiles import EMPTY, weight_mass
from neurocontrast.losses.yaware import check_kernel, conditional_alignment

__all__ = ["AlignmentUniformity", "ConditionalAlignmentUniformity", "ConditionalUniformity"]


def conditional_uniformity(pool: Pool, kernel: Kernel, scale: float, negatives: Kernel | None = None) -> Tensor:
    """Return log mean_i Σ_j (d_ij / Σ_k d_ik) exp s_ij, d = (‖w‖∞ − w) v, over anchors that have a dissimilar sample.

    This is the formula of the class, for d_ij / Σ_k d_ik = (‖w‖∞ − w_ij) / (M (‖w‖∞ − Ẑ_i)) where v is 1.
    """
    sums, mass = weighted_log_sum_exp(pool, scale, dissimilar_to(pool, kernel, negatives))
    n_anchors = pool.rows.shape[0] * pool.total((mass > 0).to(mass.dtype))
    smallest = torch.finfo(mass.dtype).tiny
    value = pool.log_total(sums - mass.clamp_min(smallest).log_()) - n_anchors.clamp_min(1).log_()
    return torch.where(n_anchors > 0, value, 0.0)


def uniformity_and_slopes(
    pool: Pool, kernel: Kernel, scores: Tensor, weight: float, negatives: Kernel | None = None
) -> tuple[Tensor, Tensor]:
    """``weight`` times that, and its ∂/∂s = softmax(s + log d̂) over all pairs of a small pool; scores are used up."""
    n = pool.n_samples
    apart = dissimilar_to(pool, kernel, negatives)(slice(None), slice(None))
    mass = weight_mass(apart, 2, 0)
    n_anchors = mass.count_nonzero().to(mass.dtype).mul_(2)
    log_shares = apart.div_(mass.clamp_min_(torch.finfo(mass.dtype).tiny).unsqueeze(1)).log_().clamp_min_(EMPTY)
    scores.view(2, n, 2, n).add_(log_shares.unsqueeze(1))
    sums, chances = log_sums_and_chances(scores.view(1, -1))
    factor = n_anchors.clamp(max=1).mul_(weight)
    value = (sums[0] - n_anchors.clamp_min_(1).log_()).mul_(factor)
    return value, chances.view_as(scores).mul_(factor)


class ConditionalUniformity(Objective):
    """Conditional uniformity: push scans apart as far as their metadata differ.

    log [ 1/(2n·M) Σ_i Σ_{j≠i} ( (‖w‖∞ − w_ij) / (‖w‖∞ − Ẑ_i) ) exp s_ij ], Ẑ_i = (1/M) Σ_{j≠i} w_ij (Dufumier et al.
    2021, the estimator below eq. 4). The logarithm is outside both sums, so the most crowded anchors of the batch
    decide. Scans with equal metadata do not repel at all. An anchor with no dissimilar scan is left out; with none
    left the term is 0.

    With ``negatives``, a second kernel v, d_ij = (‖w‖∞ − w_ij) v_ij takes the place of ‖w‖∞ − w_ij:
    log [ 1/n_a Σ_i Σ_{j≠i} ( d_ij / Σ_{k≠i} d_ik ) exp s_ij ] over the n_a anchors with Σ_k d_ik > 0. With v the
    `Categorical` kernel on the site, scans of different age are pushed apart within a site only, so that the contrast
    of ages has to be learnt from brains of one scanner, and nothing is gained by telling sites apart.

    Parameters
    ----------
    kernel : Kernel
        w ≥ 0 between scans.
    temperature : float
        τ. Small: only the nearest dissimilar pairs are pushed. Large: all alike.
    negatives : Kernel, optional
        v ≥ 0 between scans: which of those that differ are pushed apart. None: all.
    tile : int, optional
        See `Objective`.
    """

    def __init__(
        self, kernel: Kernel, *, temperature: float = 0.1, negatives: Kernel | None = None, tile: int | None = None
    ) -> None:
        super().__init__(temperature=temperature, tile=tile)
        self.kernel: Kernel = check_kernel(kernel)
        self.negatives = None if negatives is None else check_kernel(negatives, "negatives")
        _ = self.columns

    def parts(self, pool: Pool) -> dict[str, Tensor]:
        """The one part, ``uniformity``."""
        return {"uniformity": conditional_uniformity(pool, self.kernel, 1 / self.temperature, self.negatives)}

    def closed_form(self, pool: Pool) -> tuple[Tensor, Tensor]:
        """∂/∂s = softmax(s + log d̂) over all pairs at once."""
        scale = 1 / self.temperature
        scores = pool_similarities(pool.rows, scale)
        value, slopes = uniformity_and_slopes(pool, self.kernel, scores, 1.0, self.negatives)
        return value, pool_gradient(slopes, pool.rows, scale)


class ConditionalAlignmentUniformity(ConditionalUniformity):
    """Conditional alignment + λ · conditional uniformity: like pulls like, only unlike repels.

    −mean_i Σ_{j≠i} (w_ij / Σ_k w_ik) s_ij + λ log [ 1/(2n·M) Σ_i Σ_{j≠i} ( (‖w‖∞ − w_ij) / (‖w‖∞ − Ẑ_i) ) exp s_ij ]
    (Dufumier et al. 2021, eq. 4). Unlike `YAwareInfoNCE` it never pushes scans of equal metadata apart. Choose it
    when metadata should organise the representation and the batch holds many alike scans.

    With a factor `Different` on the site in ``kernel``, all pairs of one site repel in full, those of like age too. To
    pull by one kernel and push by another, add `ConditionalAlignment` and `ConditionalUniformity` in a
    `SumOfObjectives`.

    Parameters
    ----------
    kernel : Kernel
        w ≥ 0 between scans, such as ``Gaussian("age", sigma=5.0) * Categorical("sex")``.
    temperature : float
        τ of both parts.
    uniformity_weight : float
        λ ≥ 0. Larger: embeddings spread out more; too small: they collapse.
    negatives : Kernel, optional
        v ≥ 0 between scans, such as ``Categorical("site")``; see `ConditionalUniformity`. None: all repel.
    tile : int, optional
        See `Objective`.
    """

    def __init__(
        self,
        kernel: Kernel,
        *,
        temperature: float = 0.1,
        uniformity_weight: float = 1.0,
        negatives: Kernel | None = None,
        tile: int | None = None,
    ) -> None:
        super().__init__(kernel, temperature=temperature, negatives=negatives, tile=tile)
        self.uniformity_weight = check_number("uniformity_weight", uniformity_weight, at_least=0.0)

    @property
    def positives(self) -> list[Kernel]:
        """Its kernel."""
        return [self.kernel]

    def parts(self, pool: Pool) -> dict[str, Tensor]:
        """``alignment``, and ``uniformity`` times its weight."""
        alignment = conditional_alignment(pool, self.kernel, 1 / self.temperature)
        return {"alignment": alignment, "uniformity": self.uniformity_weight * super().parts(pool)["uniformity"]}

    def closed_form(self, pool: Pool) -> tuple[Tensor, Tensor]:
        """With shares ŵ_ij = w_ij / Σ_k w_ik: ∂/∂s is λ times that of uniformity, − ŵ/2n."""
        scale, n_anchors = 1 / self.temperature, 2 * pool.n_samples
        pulled = shares(similar_to(pool, self.kernel)).div_(n_anchors)
        scores = pool_similarities(pool.rows, scale)
        alignment = torch.dot(pulled.view(-1), scores.view(-1))
        weight = self.uniformity_weight
        uniformity, slopes = uniformity_and_slopes(pool, self.kernel, scores, weight, self.negatives)
        return uniformity - alignment, pool_gradient(slopes.sub_(pulled), pool.rows, scale)


class AlignmentUniformity(Objective):
    """Alignment and uniformity on the hypersphere, without metadata.

    E‖z1 − z2‖^α + λ · (U(z1) + U(z2))/2, U(z) = log E_{i<j} exp(−t‖z_i − z_j‖²) (Wang and Isola 2020).
    Choose it to weigh the two forces freely; near `NTXent` with τ = 1/(2t).

    Parameters
    ----------
    alpha : float
        α > 0: the power of the distance of the two views; larger cares more for the worst pairs.
    t : float
        t > 0: sharpness of the repulsion; larger pushes only the nearest.
    uniformity_weight : float
        λ ≥ 0.
    tile : int, optional
        See `Objective`.
    """

    def __init__(
        self, *, alpha: float = 2.0, t: float = 2.0, uniformity_weight: float = 1.0, tile: int | None = None
    ) -> None:
        super().__init__(tile=tile)
        self.alpha = check_number("alpha", alpha, above=0.0)
        self.t = check_number("t", t, above=0.0)
        self.uniformity_weight = check_number("uniformity_weight", uniformity_weight, at_least=0.0)

    def parts(self, pool: Pool) -> dict[str, Tensor]:
        """``alignment``, and ``uniformity`` times its weight; the uniformity of one sample is 0."""
        squared = (pool.rows[0] - pool.rows[1]).square().sum(1)
        differ = squared > 0
        distances = torch.where(differ, torch.where(differ, squared, 1.0) ** (self.alpha / 2), 0.0)
        uniformity = (self._uniformity(pool.between(0, 0)) + self._uniformity(pool.between(1, 1))) / 2
        return {"alignment": pool.mean(distances), "uniformity": self.uniformity_weight * uniformity}

    def closed_form(self, pool: Pool) -> tuple[Tensor, Tensor]:
        """∂/∂z1 = α ‖z1 − z2‖^(α−2) (z1 − z2)/n of alignment; of uniformity ∂/∂<z_i, z_j> = λ t softmax in a view."""
        units, n = pool.rows, pool.n_samples
        difference = units[0] - units[1]
        squared = difference.square().sum(1)
        factors = squared.pow(self.alpha / 2 - 1).masked_fill_(squared == 0, 0)
        value = torch.dot(squared, factors) / n
        pull = difference.mul_(factors.mul_(self.alpha / n).unsqueeze(1))
        if n == 1:
            return value, torch.stack((pull, -pull))
        scores = torch.bmm(units, units.mT).mul_(2 * self.t)
        scores.diagonal(0, 1, 2).fill_(EMPTY)
        sums, chances = log_sums_and_chances(scores.view(2, -1))
        uniformity = sums.mean().sub_(2 * self.t + math.log(n * (n - 1)))
        gradient = torch.bmm(chances.view_as(scores), units).mul_(2 * self.t * self.uniformity_weight)
        gradient[0].add_(pull)
        gradient[1].sub_(pull)
        return value.add_(uniformity, alpha=self.uniformity_weight), gradient

    def _uniformity(self, pool: Pool) -> Tensor:
        n = pool.n_samples
        if n == 1:
            return pool.rows.sum() * 0
        sums = log_sum_exp(pool, 2 * self.t)
        return pool.log_total(sums) - 2 * self.t - math.log(n * (n - 1))

    def extra_repr(self) -> str:
        """Return the parameters, for ``print``."""
        return f"alpha={self.alpha}, t={self.t}, uniformity_weight={self.uniformity_weight}"
