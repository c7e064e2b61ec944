"""Losses that choose or correct their negatives: debiased, hard-negative, and fair InfoNCE."""

from __future__ import annotations

import math
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from neurocontrast.losses.core import Pool, log_sum_exp, similar_to
from neurocontrast.losses.objective import LossSettings, Objective
from neurocontrast.losses.tiles import LINEAR_FROM
from neurocontrast.settings import Column, NonNegative, Positive

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
        Temperature τ. The paper's 0.5 suits it: at a small τ the correction mostly hits its floor.
    positive_prior : float
        Prior τ⁺ in [0, 1): the probability that a random scan is of the anchor's class; 0 gives `NTXent`.

    Examples
    --------
    >>> import torch
    >>> DebiasedInfoNCE()(torch.eye(2), torch.eye(2))
    tensor(0.0756)
    """

    title = "debiased InfoNCE"
    citation = "Chuang C-Y, Robinson J, Lin Y-C, Torralba A, Jegelka S. Debiased contrastive learning. NeurIPS 2020."

    class Settings(LossSettings):
        temperature: Positive = 0.5
        positive_prior: Annotated[float, Field(ge=0, lt=1)] = 0.1

    def parts(self, pool: Pool) -> dict[str, Tensor]:
        scale = self.scale
        twins = pool.twins(scale)
        if pool.n_samples == 1:
            return {"contrast": pool.mean(twins * 0)}
        gaps = self._corrected(pool, twins, scale) - twins
        return {"contrast": pool.mean(functional.softplus(gaps, threshold=LINEAR_FROM))}

    def log_negatives(self, pool: Pool, scale: float) -> Tensor:
        """Log of the sum over the negatives, (2, n)."""
        return log_sum_exp(pool, scale, excluded="sample")[0]

    def _corrected(self, pool: Pool, twins: Tensor, scale: float) -> Tensor:
        """Return log G_i."""
        negatives = self.log_negatives(pool, scale)
        log_n = math.log(pool.n_candidates - 1)
        floor = log_n - 1 / self.temperature
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
        Temperature τ.
    positive_prior : float
        Prior τ⁺ in [0, 1), see `DebiasedInfoNCE`.
    concentration : float
        Concentration β ≥ 0: 0 gives `DebiasedInfoNCE`; larger cares only for the hardest negatives.

    Examples
    --------
    >>> import torch
    >>> HardNegativeInfoNCE()(torch.eye(2), torch.eye(2))
    tensor(0.0756)
    """

    title = "InfoNCE with hard negatives"
    citation = "Robinson J, Chuang C-Y, Sra S, Jegelka S. Contrastive learning with hard negative samples. ICLR 2021."

    class Settings(LossSettings):
        temperature: Positive = 0.5
        positive_prior: Annotated[float, Field(ge=0, lt=1)] = 0.1
        concentration: NonNegative = 1.0

    def log_negatives(self, pool: Pool, scale: float) -> Tensor:
        if self.concentration == 0:
            return super().log_negatives(pool, scale)
        raised, _ = log_sum_exp(pool, (1 + self.concentration) * scale, excluded="sample")
        importance, _ = log_sum_exp(pool, self.concentration * scale, excluded="sample")
        return raised - importance + math.log(pool.n_candidates - 1)


class FairInfoNCE(Objective):
    """Fair-InfoNCE: NT-Xent whose negatives come only from the anchor's cluster, both views.

    mean_i [ −s_{i,twin(i)} + log Σ_{j≠i, c_j=c_i} exp s_ij ] (Tsai et al. 2022, equation 4, in batches of several
    clusters; the paper draws each batch from one, which is `InfoNCE` with ``training.sampling: one-group``). To tell
    scans apart within a cluster the cluster itself is of no use, so it is forgotten: choose a sensitive or nuisance
    variable such as the site.

    Parameters
    ----------
    cluster : str
        A categorical metadata column.
    temperature : float
        Temperature τ. Small: the hardest negatives decide.

    Examples
    --------
    >>> import torch
    >>> FairInfoNCE("site", temperature=1.0)(torch.eye(2), torch.eye(2), {"site": torch.tensor([0, 0])})
    tensor(0.5514)
    """

    title = "fair InfoNCE"
    citation = (
        "Ma MQ, Tsai Y-HH, Liang PP, et al. Conditional contrastive learning for improving fairness in "
        "self-supervised learning. arXiv:2106.02866, 2021."
    )
    n_views = (2, None)

    class Settings(LossSettings):
        cluster: Column
        temperature: Positive = 0.1

    def parts(self, pool: Pool) -> dict[str, Tensor]:
        scale = self.scale
        sums, _ = log_sum_exp(pool, scale, similar_to(pool, self.kernel))
        return {"alignment": -pool.mean(pool.twins(scale)), "uniformity": pool.mean(sums)}
