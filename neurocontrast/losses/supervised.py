"""Losses of a label: SupCon, SINCERE, ε-SupInfoNCE."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from neurocontrast.kernels import Categorical, Kernel
from neurocontrast.losses.core import Pool, positives_against_negatives, similar_to
from neurocontrast.losses.fused import log_sums_and_chances, pool_gradient, pool_similarities, shares
from neurocontrast.losses.objective import Objective, check_number
from neurocontrast.losses.tiles import EMPTY, LINEAR_FROM
from neurocontrast.losses.yaware import YAwareInfoNCE

__all__ = ["SINCERE", "EpsilonSupInfoNCE", "SupCon"]


class SupCon(YAwareInfoNCE):
    """SupCon (L_out): scans of one label attract, all scans repel.

    mean_i (1/|P_i|) Σ_{p∈P_i} [ −s_ip + log Σ_{j≠i} exp s_ij ], P_i the other embeddings with the anchor's label, its
    twin among them (Khosla et al. 2020, eq. 2, without the hidden factor of the released code). This is
    `YAwareInfoNCE` with a `Categorical` kernel. It also repels scans of one label from each other, which
    `SINCERE` does not.

    Parameters
    ----------
    label : str
        A categorical metadata column.
    temperature : float
        τ. Small: the hardest negatives decide.
    tile : int, optional
        See `Objective`.
    """

    def __init__(self, label: str, *, temperature: float = 0.1, tile: int | None = None) -> None:
        super().__init__(Categorical(label), temperature=temperature, tile=tile)


class EpsilonSupInfoNCE(Objective):
    """ε-SupInfoNCE: scans of one label attract until they are closer than those of other labels by a margin.

    mean_i (1/|P_i|) Σ_{p∈P_i} [ −s_ip + log( exp(s_ip − ε) + Σ_{j∈N_i} exp s_ij ) ], P_i the other embeddings with the
    anchor's label (its twin among them), N_i those of another label (Barbano et al. 2023). ε is subtracted
    from the similarity after its division by τ. Without any other label in the batch the loss is −ε.

    Parameters
    ----------
    label : str
        A categorical metadata column.
    temperature : float
        τ. Small: the hardest negatives decide.
    epsilon : float
        ε ≥ 0, the margin between positives and negatives; larger keeps pulling for longer.
    tile : int, optional
        See `Objective`.
    """

    def __init__(self, label: str, *, temperature: float = 0.1, epsilon: float = 0.25, tile: int | None = None) -> None:
        super().__init__(temperature=temperature, tile=tile)
        self.kernel: Categorical = Categorical(label)
        self.epsilon = check_number("epsilon", epsilon, at_least=0.0)

    @property
    def positives(self) -> list[Kernel]:
        """The kernel of its label."""
        return [self.kernel]

    def parts(self, pool: Pool) -> dict[str, Tensor]:
        """The mean softplus(log Σ_negatives − s_ip + ε), and −ε where there is a margin."""
        value, _ = self._value_and_negatives(pool)
        parts = {"contrast": value}
        return {**parts, "margin": value.new_full((), -self.epsilon)} if self.epsilon else parts

    def _value_and_negatives(self, pool: Pool) -> tuple[Tensor, Tensor]:
        sums, n_negatives = positives_against_negatives(pool, 1 / self.temperature, self.kernel, self.epsilon)
        return pool.mean(sums / (pool.n_candidates - n_negatives)), n_negatives

    def closed_form(self, pool: Pool) -> tuple[Tensor, Tensor]:
        """With x = L_i + ε − s_ip: ∂/∂s_ip = −σ(x)/|P_i|; through L_i, ∂/∂s_ij = exp(s_ij − L_i) Σ_p σ(x)/|P_i|."""
        scale, n_anchors = 1 / self.temperature, 2 * pool.n_samples
        pulled = shares(similar_to(pool, self.kernel))
        scores = pool_similarities(pool.rows, scale)
        sums, chances = log_sums_and_chances(scores.masked_fill(pulled > 0, EMPTY))
        above = sums.add_(self.epsilon).unsqueeze(1) - scores
        contrast = torch.dot(pulled.view(-1), functional.softplus(above, threshold=LINEAR_FROM).view(-1))
        attracted = above.sigmoid_().mul_(pulled)
        slopes = chances.mul_(attracted.sum(1, keepdim=True)).sub_(attracted)
        return contrast / n_anchors - self.epsilon, pool_gradient(slopes, pool.rows, scale / n_anchors)


class SINCERE(EpsilonSupInfoNCE):
    """SINCERE: scans of one label attract, scans of different labels repel, and no pair does both.

    mean_i (1/|P_i|) Σ_{p∈P_i} [ −s_ip + log( exp s_ip + Σ_{j∈N_i} exp s_ij ) ] (Feeney and Hughes 2023), P_i and
    N_i as in `EpsilonSupInfoNCE`. The gradient on a pair of one label is never positive, so that, unlike with
    `SupCon`, classes are not pushed apart from within. ``bounds`` reports KL ≥ mean_i log|N_i| − L (theorem 3).

    Parameters
    ----------
    label : str
        A categorical metadata column.
    temperature : float
        τ. Small: the hardest negatives decide.
    tile : int, optional
        See `Objective`.
    """

    def __init__(self, label: str, *, temperature: float = 0.1, tile: int | None = None) -> None:
        super().__init__(label, temperature=temperature, epsilon=0.0, tile=tile)

    def pool_bounds(self, pool: Pool) -> dict[str, Tensor]:
        """``kl_divergence``: of positives from negatives, in nats, over the anchors that have negatives."""
        value, n_negatives = self._value_and_negatives(pool)
        has_negatives = n_negatives > 0
        logs = torch.where(has_negatives, n_negatives.clamp_min(1).log(), 0.0)
        return {"kl_divergence": pool.mean(logs) - value}
