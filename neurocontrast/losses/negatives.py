"""Losses that choose or correct their negatives: debiased, hard-negative, and fair InfoNCE."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from neurocontrast.exceptions import ConfigError
from neurocontrast.kernels import Categorical
from neurocontrast.losses.core import Pool, log_sum_exp, similar_to, weighted_log_sum_exp
from neurocontrast.losses.objective import Objective, check_number
from neurocontrast.losses.tiles import LINEAR_FROM

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

    def negatives(self, pool: Pool, scale: float) -> Tensor:
        """Log of the sum over the negatives, (2, n)."""
        return log_sum_exp(pool, scale, excluded="sample")

    def _corrected(self, pool: Pool, twins: Tensor, scale: float) -> Tensor:
        """The log of G_i."""
        negatives = self.negatives(pool, scale)
        log_n = math.log(pool.n_candidates - 1)
        floor = log_n - scale
        if self.positive_prior == 0:
            return negatives.clamp_min(floor)
        excess = twins + (log_n + math.log(self.positive_prior)) - negatives
        room = excess < 0
        kept = torch.log(-torch.expm1(torch.where(room, excess, -1.0)))
        corrected = negatives + kept - math.log1p(-self.positive_prior)
        return torch.where(room, corrected, -torch.inf).clamp_min(floor)


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

    def negatives(self, pool: Pool, scale: float) -> Tensor:
        """Log of the reweighted sum over the negatives, (2, n)."""
        if self.concentration == 0:
            return super().negatives(pool, scale)
        raised = log_sum_exp(pool, (1 + self.concentration) * scale, excluded="sample")
        importance = log_sum_exp(pool, self.concentration * scale, excluded="sample")
        return raised - importance + math.log(pool.n_candidates - 1)


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
