"""y-Aware InfoNCE and its two halves: conditional alignment and global uniformity."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from neurocontrast.exceptions import ConfigError
from neurocontrast.kernels import Kernel
from neurocontrast.losses.core import (
    Pool,
    candidates_of,
    log_sum_exp,
    similar_to,
    weighted_log_sum_exp,
    weighted_similarity,
)
from neurocontrast.losses.fused import log_sums_and_chances, pool_gradient, pool_similarities, shares
from neurocontrast.losses.objective import Objective
from neurocontrast.losses.tiles import EMPTY, weight_mass

__all__ = ["ConditionalAlignment", "GlobalUniformity", "YAwareInfoNCE"]


def conditional_alignment(pool: Pool, kernel: Kernel, scale: float) -> Tensor:
    """Return −mean_i Σ_j (w_ij / Σ_k w_ik) s_ij; an anchor without any weight counts 0."""
    return -pool.mean(weighted_similarity(pool, scale, similar_to(pool, kernel)))


def check_kernel(kernel: Kernel, name: str = "kernel") -> Kernel:
    """Return the kernel, or raise a ConfigError that says what one looks like."""
    if not isinstance(kernel, Kernel):
        raise ConfigError(
            f"{name} must be a kernel on metadata such as Gaussian('age', sigma=5.0), got {type(kernel).__name__}."
        )
    return kernel


class ConditionalAlignment(Objective):
    """Conditional alignment: pull scans together as far as their metadata are alike.

    −mean_i Σ_{j≠i} (w_ij / Σ_k w_ik) s_ij (Dufumier et al. 2021, eq. 2, left term). Alone it collapses: use it
    with a uniformity.

    Parameters
    ----------
    kernel : Kernel
        w ≥ 0 between scans; each anchor's weights are normalised to sum to 1.
    temperature : float
        τ: the term scales with 1/τ.
    tile : int, optional
        See `Objective`.
    """

    def __init__(self, kernel: Kernel, *, temperature: float = 0.1, tile: int | None = None) -> None:
        super().__init__(temperature=temperature, tile=tile)
        self.kernel: Kernel = check_kernel(kernel)

    @property
    def positives(self) -> list[Kernel]:
        """Its kernel."""
        return [self.kernel]

    def parts(self, pool: Pool) -> dict[str, Tensor]:
        """The one part, ``alignment``."""
        return {"alignment": conditional_alignment(pool, self.kernel, 1 / self.temperature)}

    def closed_form(self, pool: Pool) -> tuple[Tensor, Tensor]:
        """With shares ŵ_ij = w_ij / Σ_k w_ik: ∂/∂s = −ŵ."""
        factor = -0.5 / (self.temperature * pool.n_samples)
        gradient = pool_gradient(shares(similar_to(pool, self.kernel)), pool.rows, factor)
        return 0.5 * torch.dot(gradient.view(-1), pool.rows.view(-1)), gradient


class GlobalUniformity(Objective):
    """Global uniformity: push all scans apart, whatever their metadata.

    mean_i log (1/M) Σ_{j≠i} exp s_ij (Dufumier et al. 2021, eq. 2, right term). It has no positive: use it with an
    alignment.

    Parameters
    ----------
    temperature : float
        τ. Small: only the nearest are pushed. Large: all alike.
    tile : int, optional
        See `Objective`.
    """

    def parts(self, pool: Pool) -> dict[str, Tensor]:
        """The one part, ``uniformity``."""
        sums = log_sum_exp(pool, 1 / self.temperature)
        return {"uniformity": pool.mean(sums) - math.log(pool.n_candidates)}

    def closed_form(self, pool: Pool) -> tuple[Tensor, Tensor]:
        """∂/∂s = softmax."""
        scale = 1 / self.temperature
        sums, chances = log_sums_and_chances(pool_similarities(pool.rows, scale))
        value = sums.mean().sub_(math.log(pool.n_candidates))
        return value, pool_gradient(chances, pool.rows, 0.5 * scale / pool.n_samples)


class YAwareInfoNCE(ConditionalAlignment):
    """y-Aware InfoNCE: scans attract as far as their metadata are alike, and all repel.

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
        w ≥ 0 between scans, such as ``Gaussian("age", sigma=5.0) * Categorical("sex")``. Wider kernels pull more
        scans together and make the representation smoother in the metadata.
    temperature : float
        τ. Small: the hardest negatives decide, and alignment weighs more.
    negatives : Kernel, optional
        v ≥ 0 between scans, such as ``Categorical("site")``: which are an anchor's negatives, and how much. None: all.
    tile : int, optional
        See `Objective`.
    """

    def __init__(
        self, kernel: Kernel, *, temperature: float = 0.1, negatives: Kernel | None = None, tile: int | None = None
    ) -> None:
        super().__init__(kernel, temperature=temperature, tile=tile)
        self.negatives = None if negatives is None else check_kernel(negatives, "negatives")
        _ = self.columns

    def value(self, pool: Pool) -> Tensor:
        """The loss: log M cancels."""
        sums, _ = self._log_sums(pool)
        return pool.mean(sums) + conditional_alignment(pool, self.kernel, 1 / self.temperature)

    def parts(self, pool: Pool) -> dict[str, Tensor]:
        """Conditional alignment, global uniformity, and log M; with ``negatives``, M is the mass Σ_j b_ij."""
        sums, mass = self._log_sums(pool)
        log_candidates = pool.rows.new_full((), math.log(pool.n_candidates)) if mass is None else pool.mean(mass.log())
        return {
            **super().parts(pool),
            "uniformity": pool.mean(sums) - log_candidates,
            "log_candidates": log_candidates,
        }

    def _log_sums(self, pool: Pool) -> tuple[Tensor, Tensor | None]:
        """Log-sum-exp of every anchor, and its mass where there are negatives; an anchor without any counts 0."""
        scale = 1 / self.temperature
        if self.negatives is None:
            return log_sum_exp(pool, scale), None
        sums, mass = weighted_log_sum_exp(pool, scale, candidates_of(pool, self.kernel, self.negatives))
        return torch.where(mass > 0, sums, 0), torch.where(mass > 0, mass, 1)

    def closed_form(self, pool: Pool) -> tuple[Tensor, Tensor]:
        """With shares ŵ_ij = w_ij / Σ_k w_ik: ∂/∂s = softmax − ŵ; with negatives, softmax of s + log b."""
        scale, n_anchors = 1 / self.temperature, 2 * pool.n_samples
        pulled = shares(similar_to(pool, self.kernel))
        scores = pool_similarities(pool.rows, scale)
        alignment = torch.dot(pulled.view(-1), scores.view(-1))
        sums, chances = log_sums_and_chances(scores) if self.negatives is None else self._among(pool, scores)
        return (sums.sum() - alignment) / n_anchors, pool_gradient(chances.sub_(pulled), pool.rows, scale / n_anchors)

    def _among(self, pool: Pool, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Log-sum-exp over weighted candidates and its ∂/∂s, of a small pool; scores are used up."""
        assert self.negatives is not None
        n = pool.n_samples
        weights = candidates_of(pool, self.kernel, self.negatives)(slice(None), slice(None))
        none = (weight_mass(weights, 2, 0) <= 0).repeat(2)
        scores.view(2, n, 2, n).add_(weights.log_().clamp_min_(EMPTY).unsqueeze(1))
        sums, chances = log_sums_and_chances(scores)
        return sums.masked_fill_(none, 0), chances.masked_fill_(none.unsqueeze(1), 0)
