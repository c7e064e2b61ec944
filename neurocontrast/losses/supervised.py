"""Losses of a label: SupCon, SINCERE, ε-SupInfoNCE, and the triplet loss."""

from __future__ import annotations

import torch
from torch import Tensor

from neurocontrast.losses.core import Pool, by_anchors, distances, positives_against_negatives, similar_to
from neurocontrast.losses.objective import LossSettings, Objective
from neurocontrast.losses.yaware import YAwareInfoNCE
from neurocontrast.settings import Column, NonNegative, Positive

__all__ = ["SINCERE", "EpsilonSupInfoNCE", "SupCon", "Triplet"]


class SupCon(YAwareInfoNCE):
    """SupCon (L_out): scans of one label attract, all scans repel.

    mean_i Σ_{p∈P_i} (1/n_i) [ −s_ip + log Σ_{j≠i} exp s_ij ], P_i the n_i other embeddings of the anchor's label, its
    twin among them (Khosla et al. 2020, eq. 2, without the hidden factor of the released code). This is
    `YAwareInfoNCE` with a `Categorical` kernel. It also repels scans of one label from each other, which
    `SINCERE` does not.

    Parameters
    ----------
    label : str
        A categorical metadata column.
    temperature : float
        Temperature τ. Small: the hardest negatives decide.

    Examples
    --------
    >>> import torch
    >>> SupCon("label", temperature=1.0)(torch.eye(2), torch.eye(2), {"label": torch.tensor([0, 1])})
    tensor(0.5514)
    """

    title = "SupCon"
    citation = "Khosla P, Teterwak P, Wang C, et al. Supervised contrastive learning. NeurIPS 2020."

    class Settings(LossSettings):
        label: Column
        temperature: Positive = 0.1


class EpsilonSupInfoNCE(Objective):
    """Epsilon-SupInfoNCE: scans of one label attract until they are closer than those of other labels by a margin.

    mean_i Σ_{p∈P_i} (1/n_i) [ −s_ip + log( exp(s_ip − ε) + Σ_{j∈N_i} exp s_ij ) ], P_i the n_i other embeddings of
    the anchor's label (its twin among them), N_i those of another label (Barbano et al. 2023). ε is subtracted
    from the similarity after its division by τ. Without any other label in the batch the loss is −ε.

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
        temperature: Positive = 0.1
        epsilon: NonNegative = 0.25

    def parts(self, pool: Pool) -> dict[str, Tensor]:
        sums, n_negatives = positives_against_negatives(pool, self.scale, self.kernel, self.epsilon)
        n_positives = pool.n_candidates - n_negatives
        parts = {"contrast": pool.mean(sums / n_positives.clamp_min(1), n_positives)}
        margin = sums.new_full((1, pool.n_samples), -self.epsilon)
        return {**parts, "margin": pool.mean(margin, n_positives)} if self.epsilon else parts


class SINCERE(EpsilonSupInfoNCE):
    """SINCERE: scans of one label attract, scans of different labels repel, and no pair does both.

    mean_i Σ_{p∈P_i} (1/n_i) [ −s_ip + log( exp s_ip + Σ_{j∈N_i} exp s_ij ) ] (Feeney and Hughes 2023), P_i and
    N_i as in `EpsilonSupInfoNCE`. The gradient on a pair of one label is never positive, so that, unlike with
    `SupCon`, classes are not pushed apart from within. The KL divergence of positives from negatives is at least
    mean_i log #N_i − L (theorem 3).

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
        temperature: Positive = 0.1


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
    citation = (
        "Schroff F, Kalenichenko D, Philbin J. FaceNet: a unified embedding for face recognition and clustering. "
        "CVPR 2015."
    )

    class Settings(LossSettings):
        label: Column
        margin: NonNegative = 0.2

    def parts(self, pool: Pool) -> dict[str, Tensor]:
        # Where the set of active triplets is known, their sum is linear in the distances: each counts once for every
        # active triplet in which it pulls, minus once for every one in which it pushes.
        same, n_views = similar_to(pool, self.kernel), len(pool.rows)

        def of_block(rows: Tensor, cols: Tensor, i: slice) -> tuple[Tensor, Tensor]:
            apart = distances(rows.flatten(0, 1), cols.flatten(0, 1))
            with torch.no_grad():
                roles = _roles(same(i, slice(None)), n_views, i.start)
                counts, active = _counts(apart.detach(), *roles, self.margin)
            totals = (counts * apart).sum(1) + self.margin * active
            return totals.view(n_views, -1), active.view(n_views, -1)

        totals, n_triplets = by_anchors(pool, of_block)
        return {"triplet": totals.sum() / n_triplets.sum().clamp_min(1)}


def _roles(same: Tensor, n_views: int, offset: int) -> tuple[Tensor, Tensor]:
    """Say which candidates are positives of each anchor and which negatives, (V·n_i, V·n), from w of the samples."""
    alike = (same > 0).repeat(n_views, n_views)
    anchor = torch.arange(same.shape[0], device=same.device) + offset
    views = torch.arange(n_views, device=same.device) * same.shape[1]
    itself = (views.unsqueeze(1) + anchor).view(-1, 1) == torch.arange(alike.shape[1], device=same.device)
    return alike & ~itself, ~alike


def _counts(distances: Tensor, positive: Tensor, negative: Tensor, margin: float) -> tuple[Tensor, Tensor]:
    """Return how often each distance counts in the sum, and the number of active triplets of each anchor."""
    reach = (distances + margin).masked_fill_(~positive, -torch.inf)
    barrier, order = distances.masked_fill(~negative, torch.inf).sort(1)
    pulls = torch.searchsorted(barrier, reach)
    # A positive reaches the negatives of rank below its number of pulls.
    ends = torch.zeros(len(pulls), pulls.shape[1] + 1, dtype=pulls.dtype, device=pulls.device)
    ends.scatter_add_(1, pulls, torch.ones_like(pulls))
    pushes = pulls.shape[1] - ends[:, :-1].cumsum(1)
    counts = pulls.scatter_add(1, order, -pushes)
    return counts.to(distances.dtype), pulls.sum(1).to(distances.dtype)
