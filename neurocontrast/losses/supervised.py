"""Losses of a label: SupCon, SINCERE, ε-SupInfoNCE."""

from __future__ import annotations

import torch
from torch import Tensor

from neurocontrast.kernels import Kernel
from neurocontrast.losses.core import Pool, positives_against_negatives
from neurocontrast.losses.objective import LossSettings, Objective
from neurocontrast.losses.yaware import YAwareInfoNCE
from neurocontrast.settings import Column, NonNegative, Positive

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

    mean_i (1/|P_i|) Σ_{p∈P_i} [ −s_ip + log( exp(s_ip − ε) + Σ_{j∈N_i} exp s_ij ) ], P_i the other embeddings with the
    anchor's label (its twin among them), N_i those of another label (Barbano et al. 2023). ε is subtracted
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
    epsilon: float = 0.0

    class Settings(LossSettings):
        label: Column
        temperature: Positive = 0.1
        epsilon: NonNegative = 0.25

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

    def pool_bounds(self, pool: Pool) -> dict[str, Tensor]:
        """``kl_divergence``: of positives from negatives, in nats, over the anchors that have negatives."""
        value, n_negatives = self._value_and_negatives(pool)
        has_negatives = n_negatives > 0
        logs = torch.where(has_negatives, n_negatives.clamp_min(1).log(), 0.0)
        return {"kl_divergence": pool.mean(logs) - value}
