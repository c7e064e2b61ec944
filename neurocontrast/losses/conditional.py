"""Conditional alignment, conditional uniformity and their sum: metadata say who attracts, and who repels."""

from __future__ import annotations

import torch
from torch import Tensor

from neurocontrast.kernels import Kernel
from neurocontrast.kernels.factors import KernelSettings
from neurocontrast.losses.core import Pool, dissimilar_to, log_sum_exp, similar_to, weighted_similarity
from neurocontrast.losses.objective import LossSettings, Objective
from neurocontrast.settings import NonNegative, Positive

__all__ = ["ConditionalAlignment", "ConditionalAlignmentUniformity", "ConditionalUniformity", "conditional_alignment"]

_PAPER = (
    "Dufumier B, Gori P, Victor J, Grigis A, Duchesnay E. Conditional alignment and uniformity for contrastive "
    "learning with continuous proxy labels. arXiv:2111.05643, 2021."
)


def conditional_alignment(pool: Pool, kernel: Kernel, scale: float) -> Tensor:
    """Return −mean_i Σ_j (w_ij / Σ_k w_ik) s_ij; an anchor without any weight counts 0."""
    return -pool.mean(weighted_similarity(pool, scale, similar_to(pool, kernel)))


def conditional_uniformity(pool: Pool, kernel: Kernel, scale: float, negatives: Kernel | None = None) -> Tensor:
    """Return log mean_i Σ_j (d_ij / Σ_k d_ik) exp s_ij, d = (‖w‖∞ − w) v, over anchors that have a dissimilar sample.

    This is the formula of the class, for d_ij / Σ_k d_ik = (‖w‖∞ − w_ij) / (M (‖w‖∞ − Ẑ_i)) where v is 1.
    """
    sums, mass = log_sum_exp(pool, scale, dissimilar_to(pool, kernel, negatives))
    n_anchors = pool.rows.shape[0] * pool.total((mass > 0).to(mass.dtype))
    smallest = torch.finfo(mass.dtype).tiny
    value = pool.log_total(sums - mass.clamp_min(smallest).log_()) - n_anchors.clamp_min(1).log_()
    return torch.where(n_anchors > 0, value, 0.0)


class ConditionalAlignment(Objective):
    """Conditional alignment: pull scans together as far as their metadata are alike.

    −mean_i Σ_{j≠i} (w_ij / Σ_k w_ik) s_ij (Dufumier et al. 2021, eq. 2, left term). Alone it collapses: use it
    with a uniformity.

    Parameters
    ----------
    kernel : Kernel
        Kernel w ≥ 0 between scans; each anchor's weights are normalised to sum to 1.
    temperature : float
        Temperature τ: the term scales with 1/τ.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.kernels import Gaussian
    >>> loss = ConditionalAlignment(Gaussian("age", sigma=5.0), temperature=1.0)
    >>> loss(torch.eye(2), torch.eye(2), {"age": torch.tensor([20.0, 60.0])})
    tensor(-1.)
    """

    title = "conditional alignment"
    citation = _PAPER

    class Settings(LossSettings):
        kernel: KernelSettings
        temperature: Positive = 0.1

    @property
    def positives(self) -> list[Kernel]:
        """Its kernel."""
        return [self.kernel]

    def parts(self, pool: Pool) -> dict[str, Tensor]:
        """The one part, ``alignment``."""
        return {"alignment": conditional_alignment(pool, self.kernel, 1 / self.temperature)}


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
        Kernel w ≥ 0 between scans.
    temperature : float
        Temperature τ. Small: only the nearest dissimilar pairs are pushed. Large: all alike.
    negatives : Kernel, optional
        Kernel v ≥ 0 between scans: which of those that differ are pushed apart. None: all.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.kernels import Categorical
    >>> loss = ConditionalUniformity(Categorical("sex"), temperature=1.0)
    >>> loss(torch.eye(2), torch.eye(2), {"sex": torch.tensor([0, 1])})
    tensor(0.)
    """

    title = "conditional uniformity"
    citation = _PAPER

    class Settings(LossSettings):
        kernel: KernelSettings
        temperature: Positive = 0.1
        negatives: KernelSettings | None = None

    def parts(self, pool: Pool) -> dict[str, Tensor]:
        """The one part, ``uniformity``."""
        return {"uniformity": conditional_uniformity(pool, self.kernel, 1 / self.temperature, self.negatives)}


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
        Kernel w ≥ 0 between scans, such as ``Gaussian("age", sigma=5.0) * Categorical("sex")``.
    temperature : float
        Temperature τ of both parts.
    uniformity_weight : float
        Weight λ ≥ 0. Larger: embeddings spread out more; too small: they collapse.
    negatives : Kernel, optional
        Kernel v ≥ 0 between scans, such as ``Categorical("site")``; see `ConditionalUniformity`. None: all repel.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.kernels import Gaussian
    >>> loss = ConditionalAlignmentUniformity(Gaussian("age", sigma=5.0), temperature=1.0)
    >>> loss(torch.eye(2), torch.eye(2), {"age": torch.tensor([20.0, 60.0])})
    tensor(-1.)
    """

    title = "conditional alignment + uniformity"

    class Settings(LossSettings):
        kernel: KernelSettings
        temperature: Positive = 0.1
        uniformity_weight: NonNegative = 1.0
        negatives: KernelSettings | None = None

    @property
    def positives(self) -> list[Kernel]:
        """Its kernel."""
        return [self.kernel]

    def parts(self, pool: Pool) -> dict[str, Tensor]:
        """``alignment``, and ``uniformity`` times its weight."""
        alignment = conditional_alignment(pool, self.kernel, 1 / self.temperature)
        return {"alignment": alignment, "uniformity": self.uniformity_weight * super().parts(pool)["uniformity"]}
