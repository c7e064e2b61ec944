"""Losses of a label that repel other labels only: SINCERE, ε-SupInfoNCE, and the triplet loss."""

from __future__ import annotations

import torch
from torch import Tensor

from neurocontrast.losses.core import Pairs, Pool, distances, softplus_of
from neurocontrast.losses.objective import LossSettings, Objective, Temperature
from neurocontrast.settings import Column, NonNegative


class EpsilonSupInfoNCE(Objective):
    """Epsilon-SupInfoNCE: scans of one label attract until they are closer than those of other labels by a margin.

    mean_i Σ_{p∈P_i} (1/n_i) [ −s_ip + log( exp(s_ip − ε) + Σ_{j∈N_i} exp s_ij ) ], P_i the n_i other embeddings of
    the anchor's label (its twin among them), N_i those of another label (Barbano et al. 2023). ε is subtracted
    from the similarity after its division by τ. Without any other label in the batch the loss is −ε. The mean over the
    positives is that of the released code, while the paper's equation has their sum.

    Parameters
    ----------
    label : str
        A categorical metadata column.
    temperature : float
        Temperature τ. Small: the hardest negatives decide.
    epsilon : float
        Margin ε ≥ 0, the margin between positives and negatives; larger keeps pulling for longer.

    Examples
    --------
    >>> import torch
    >>> EpsilonSupInfoNCE("label", temperature=1.0)(torch.eye(2), torch.eye(2), {"label": torch.tensor([0, 1])})
    tensor(0.4151)
    """

    title = "ε-SupInfoNCE"
    citation = (
        "Barbano CA, Dufumier B, Tartaglione E, Grangetto M, Gori P. Unbiased supervised contrastive learning. "
        "ICLR 2023."
    )
    n_views = (1, None)
    epsilon: float = 0.0

    class Settings(LossSettings):
        label: Column
        temperature: Temperature = 0.1
        epsilon: NonNegative = 0.25

    def parts(self, pool: Pool) -> dict[str, Tensor]:
        def contrast(pairs: Pairs) -> tuple[Tensor, Tensor]:
            same = pairs.weights(self.kernel)
            negatives = pairs.log_sum_exp(1 - same)  # L_i = log Σ_{j∈N_i} exp s_ij
            # −s_ip + log(exp(s_ip − ε) + exp L_i) = log(1 + exp(L_i + ε − s_ip)) − ε of each positive p.
            of_positives = softplus_of(negatives[..., None, None] + self.epsilon - pairs.s)
            summed = (of_positives * same.unsqueeze(1)).masked_fill(pairs.itself, 0).sum((2, 3))
            return summed / pairs.mass(same).clamp_min(1), pairs.mass(same)

        values, n_positives = pool.each_anchor(contrast)
        n_negatives = pool.n_candidates - n_positives
        if not self.epsilon:
            pool.figures["bound"] = pool.mean((n_negatives + 1).log() - values, n_positives)
        parts = {"contrast": pool.mean(values, n_positives)}
        margin = torch.full_like(values, -self.epsilon)
        return {**parts, "margin": pool.mean(margin, n_positives)} if self.epsilon else parts


class SINCERE(EpsilonSupInfoNCE):
    """SINCERE: scans of one label attract, scans of different labels repel, and no pair does both.

    mean_i Σ_{p∈P_i} (1/n_i) [ −s_ip + log( exp s_ip + Σ_{j∈N_i} exp s_ij ) ] (Feeney and Hughes 2023), P_i and
    N_i as in `EpsilonSupInfoNCE`. The gradient on a pair of one label is never positive, so that, unlike with
    `SupCon`, classes are not pushed apart from within. The KL divergence of positives from negatives is at least
    mean_i log(#N_i + 1) − L, the `bound` in the metrics of training (theorem 3 has the looser log #N_i).

    Parameters
    ----------
    label : str
        A categorical metadata column.
    temperature : float
        Temperature τ. Small: the hardest negatives decide.

    Examples
    --------
    >>> import torch
    >>> SINCERE("label", temperature=1.0)(torch.eye(2), torch.eye(2), {"label": torch.tensor([0, 1])})
    tensor(0.5514)
    """

    title = "SINCERE"
    citation = (
        "Feeney P, Hughes MC. SINCERE: supervised information noise-contrastive estimation revisited. "
        "arXiv:2309.14277, 2023."
    )

    class Settings(LossSettings):
        label: Column
        temperature: Temperature = 0.1


class Triplet(Objective):
    """Triplet loss: an anchor nearer to its own label than to any other, by a margin.

    Over all triplets of an anchor a, another embedding p of its label and an embedding q of another label,
    the mean of d(a, p) − d(a, q) + margin over those where it is above 0, with d the L2 distance of
    normalised embeddings (Schroff et al. 2015). Zero when no triplet is left.

    The number of triplets grows with the cube of the batch; here the distances of an anchor are sorted
    instead, which gives the same value and gradient in O(n² log n) time and O(n) memory.

    It uses distances alone: no temperature, no normaliser, and satisfied triplets stop to count. `SupCon` or
    `SINCERE` usually learn better embeddings; this one is the baseline.

    Parameters
    ----------
    label : str
        Categorical metadata column.
    margin : float
        At least 0, in units of distance (at most 2). Larger: more triplets count, classes further apart.

    Examples
    --------
    >>> import torch
    >>> Triplet("label")(torch.eye(2), torch.ones(2, 2), {"label": torch.tensor([0, 1])})
    tensor(0.4551)
    """

    title = "triplet loss"
    n_views = (1, None)
    of_anchors = False
    citation = (
        "Schroff F, Kalenichenko D, Philbin J. FaceNet: a unified embedding for face recognition and clustering. "
        "CVPR 2015."
    )

    class Settings(LossSettings):
        label: Column
        margin: NonNegative = 0.2

    def parts(self, pool: Pool) -> dict[str, Tensor]:
        def of_anchors(pairs: Pairs) -> tuple[Tensor, Tensor]:
            apart = distances(pairs.s).flatten(2)
            same = pairs.weights(self.kernel)
            alike = (same > 0).unsqueeze(1).expand_as(pairs.s)
            # The sum over active triplets is linear in the distances: each counts once for every active triplet in
            # which it pulls, minus once for every one in which it pushes.
            counts, n_active = _counts(
                apart.detach(), (alike & ~pairs.itself).flatten(2), ~alike.flatten(2), self.margin
            )
            # Weights that are NaN, of a label missing on an accelerator, stay.
            return (counts * apart).sum(2) + self.margin * n_active + 0 * pairs.mass(same), n_active

        totals, n_triplets = pool.each_anchor(of_anchors)
        weights = 1 if pool.sample_weights is None else pool.sample_weights.to(totals)
        n_active = (weights * n_triplets).sum()
        return {"triplet": (weights * totals).sum() / torch.where(n_active > 0, n_active, 1)}


@torch.no_grad()
def _counts(distances: Tensor, positive: Tensor, negative: Tensor, margin: float) -> tuple[Tensor, Tensor]:
    """Return how often each distance (V, n_i, N) counts in the sum, and the active triplets, (V, n_i)."""
    reach = (distances + margin).masked_fill_(~positive, -torch.inf)
    barrier, order = distances.masked_fill(~negative, torch.inf).sort(2)
    pulls = torch.searchsorted(barrier, reach)
    # A positive reaches the negatives of rank below its number of pulls.
    ends = pulls.new_zeros(*pulls.shape[:2], pulls.shape[2] + 1)
    ends.scatter_add_(2, pulls, torch.ones_like(pulls))
    pushes = pulls.shape[2] - ends[..., :-1].cumsum(2)
    counts = pulls.scatter_add(2, order, -pushes)
    return counts.to(distances.dtype), pulls.sum(2).to(distances.dtype)
