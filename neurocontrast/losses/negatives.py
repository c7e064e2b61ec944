"""Losses that choose or correct their negatives: debiased, hard-negative, and fair InfoNCE."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from neurocontrast.exceptions import ConfigError
from neurocontrast.kernels import Categorical
from neurocontrast.losses.core import Pool, log_sum_exp, similar_to, weighted_log_sum_exp
from neurocontrast.losses.fused import find_twins, log_sums_and_chances, pool_gradient, pool_similarities
from neurocontrast.losses.objective import Objective, check_number
from neurocontrast.losses.tiles import EMPTY, LINEAR_FROM

__all__ = ["DebiasedInfoNCE", "FairInfoNCE", "HardNegativeInfoNCE"]


class DebiasedInfoNCE(Objective):
    """Debiased InfoNCE: NT-Xent whose negatives are corrected for those that are in truth positives.

    mean_i −log( e^{s⁺} / (e^{s⁺} + G_i) ), G_i = max{ (Σ_negatives e^{s_ij} − N τ⁺ e^{s⁺}) / (1 − τ⁺), N e^{−1/τ} },
    s⁺ the similarity with the twin, N = 2n − 2 negatives (Chuang et al. 2020, with one positive). Kept
    in log space, so that a small τ stays finite.

    Choose it without labels, when random negatives often share the anchor's (unknown) class.

    Parameters
    ----------
    temperature : float
        τ. The paper's 0.5 suits it: at a small τ the correction mostly hits its floor.
    positive_prior : float
        τ⁺ in [0, 1): the probability that a random scan is of the anchor's class; 0 gives `NTXent`.
    tile : int, optional
        See `Objective`.
    """

    def __init__(self, *, temperature: float = 0.5, positive_prior: float = 0.1, tile: int | None = None) -> None:
        super().__init__(temperature=temperature, tile=tile)
        self.positive_prior = check_number("positive_prior", positive_prior, at_least=0.0)
        if self.positive_prior >= 1:
            raise ConfigError(f"positive_prior must be a probability below 1, got {positive_prior!r}.")

    def parts(self, pool: Pool) -> dict[str, Tensor]:
        """The one part, ``contrast``."""
        scale = 1 / self.temperature
        twins = pool.twins(scale)
        if pool.n_samples == 1:
            return {"contrast": pool.mean(twins * 0)}
        gaps = self._corrected(pool, twins, scale) - twins
        return {"contrast": pool.mean(functional.softplus(gaps, threshold=LINEAR_FROM))}

    def log_negatives(self, pool: Pool, scale: float) -> Tensor:
        """Log of the sum over the negatives, (2, n)."""
        return log_sum_exp(pool, scale, excluded="sample")

    def _corrected(self, pool: Pool, twins: Tensor, scale: float) -> Tensor:
        """The log of G_i."""
        negatives = self.log_negatives(pool, scale)
        log_n = math.log(pool.n_candidates - 1)
        floor = log_n - scale
        if self.positive_prior == 0:
            return negatives.clamp_min(floor)
        excess = twins + (log_n + math.log(self.positive_prior)) - negatives
        room = excess < 0
        kept = torch.log(-torch.expm1(torch.where(room, excess, -1.0)))
        corrected = negatives + kept - math.log1p(-self.positive_prior)
        return torch.where(room, corrected, -torch.inf).clamp_min(floor)

    def closed_form(self, pool: Pool) -> tuple[Tensor, Tensor]:
        """With G = (e^L − N τ⁺ e^{s⁺})/(1 − τ⁺) = e^L r/(1 − τ⁺): ∂log G/∂L = 1/r, ∂log G/∂s⁺ = 1 − 1/r."""
        scale, n = 1 / self.temperature, pool.n_samples
        if n == 1:
            return pool.rows.new_zeros(()), torch.zeros_like(pool.rows)
        log_n = math.log(pool.n_candidates - 1)
        log_prior = math.log(self.positive_prior) if self.positive_prior else -math.inf
        scores = pool_similarities(pool.rows, scale)
        twins = scores.diagonal(n).repeat(2)
        scores.view(2, n, 2, n).diagonal(0, 1, 3).fill_(EMPTY)
        negatives, slopes = self.negatives_and_slopes(scores)
        excess = twins + (log_n + log_prior) - negatives
        room = excess < 0
        remaining = excess.masked_fill_(~room, -1).expm1_().neg_()
        corrected = negatives.add_(remaining.log()).sub_(math.log1p(-self.positive_prior))
        floor = log_n - scale
        active = room.logical_and_(corrected >= floor)
        gaps = corrected.masked_fill_(~active, floor).sub_(twins)
        above = gaps.sigmoid()
        of_negatives = (above / remaining).mul_(active)
        of_twins = above.masked_fill_(active, 0).add_(of_negatives)
        slopes.mul_(of_negatives.unsqueeze(1)).diagonal(n).sub_(of_twins[:n] + of_twins[n:])
        value = functional.softplus(gaps, threshold=LINEAR_FROM).mean()
        return value, pool_gradient(slopes, pool.rows, 0.5 * scale / n)

    def negatives_and_slopes(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Log of the sum over the negatives, (N,), and its ∂/∂s, (N, N)."""
        return log_sums_and_chances(scores)


class HardNegativeInfoNCE(DebiasedInfoNCE):
    """Hard-negative InfoNCE: `DebiasedInfoNCE` in which close negatives count more.

    As there, with Σ_negatives e^{s_ij} replaced by Σ b_ij e^{s_ij} / mean_j b_ij, b_ij = e^{β s_ij}; the importance
    weights b carry gradient, as in the released code (Robinson et al. 2021).

    Choose it without labels, when most negatives are easy and training stalls.

    Parameters
    ----------
    temperature : float
        τ.
    positive_prior : float
        τ⁺ in [0, 1), see `DebiasedInfoNCE`.
    concentration : float
        β ≥ 0: 0 gives `DebiasedInfoNCE`; larger cares only for the hardest negatives.
    tile : int, optional
        See `Objective`.
    """

    def __init__(
        self,
        *,
        temperature: float = 0.5,
        positive_prior: float = 0.1,
        concentration: float = 1.0,
        tile: int | None = None,
    ) -> None:
        super().__init__(temperature=temperature, positive_prior=positive_prior, tile=tile)
        self.concentration = check_number("concentration", concentration, at_least=0.0)

    def log_negatives(self, pool: Pool, scale: float) -> Tensor:
        """Log of the reweighted sum over the negatives, (2, n)."""
        if self.concentration == 0:
            return super().log_negatives(pool, scale)
        raised = log_sum_exp(pool, (1 + self.concentration) * scale, excluded="sample")
        importance = log_sum_exp(pool, self.concentration * scale, excluded="sample")
        return raised - importance + math.log(pool.n_candidates - 1)

    def negatives_and_slopes(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Log of the reweighted sum over the negatives, (N,), and its ∂/∂s, (N, N)."""
        beta = self.concentration
        if beta == 0:
            return super().negatives_and_slopes(scores)
        raised, slopes = log_sums_and_chances(scores * (1 + beta))
        importance, weights = log_sums_and_chances(scores * beta)
        return raised - importance + math.log(len(scores) - 2), slopes.mul_(1 + beta).sub_(weights, alpha=beta)


class FairInfoNCE(Objective):
    """Fair-InfoNCE: NT-Xent whose negatives come only from the anchor's cluster, both views.

    mean_i [ −s_{i,twin(i)} + log Σ_{j≠i, c_j=c_i} exp s_ij ] (Tsai et al. 2022, the cluster baseline of CCL-K). To
    tell scans apart within a cluster the cluster itself is of no use, so it is forgotten: choose a sensitive or
    nuisance variable such as the site.

    Parameters
    ----------
    cluster : str
        A categorical metadata column.
    temperature : float
        τ. Small: the hardest negatives decide.
    tile : int, optional
        See `Objective`.
    """

    def __init__(self, cluster: str, *, temperature: float = 0.1, tile: int | None = None) -> None:
        super().__init__(temperature=temperature, tile=tile)
        self.kernel: Categorical = Categorical(cluster)

    def parts(self, pool: Pool) -> dict[str, Tensor]:
        """Alignment of twins, and the log-sum-exp over the cluster."""
        scale = 1 / self.temperature
        sums, _ = weighted_log_sum_exp(pool, scale, similar_to(pool, self.kernel))
        return {"alignment": -pool.mean(pool.twins(scale)), "uniformity": pool.mean(sums)}

    def closed_form(self, pool: Pool) -> tuple[Tensor, Tensor]:
        """Cross-entropy of the twins among the cluster."""
        scale, n = 1 / self.temperature, pool.n_samples
        apart = similar_to(pool, self.kernel)(slice(None), slice(None)) == 0
        scores = pool_similarities(pool.rows, scale)
        scores.view(2, n, 2, n).masked_fill_(apart.unsqueeze(1), EMPTY)
        return find_twins(scores, pool.rows, scale)
