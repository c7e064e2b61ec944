"""InfoNCE across views, and NT-Xent over the pool of both views."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import torch
from torch import Tensor

from neurocontrast.kernels import Metadata
from neurocontrast.losses.core import Pool, log_sum_exp, log_sum_exp_both_ways
from neurocontrast.losses.fused import find_twins, log_sums_and_chances, pool_similarities
from neurocontrast.losses.objective import Objective

__all__ = ["InfoNCE", "NTXent"]


class InfoNCE(Objective):
    r"""InfoNCE (CLIP's loss): find the other view of a sample among the other views of all samples.

    L = mean_i [ −s(z1_i, z2_i) + log Σ_j exp s(z1_i, z2_j) ], s = <·, ·>/τ, averaged over both directions
    (van den Oord et al. 2018, eq. 4; Radford et al. 2021). Two encoders may make the two views: nothing
    within one view is compared. With more than two views, the mean over all pairs of views (Tian et al.
    2020). It bounds mutual information from below: I(X; X⁺) ≥ log n − L, which ``bounds`` reports.

    Choose it when views come from different modalities or encoders; for two augmentations of one image
    `NTXent` uses each batch more fully.

    Parameters
    ----------
    temperature : float
        τ. Small: the hardest negatives decide. Large: all count alike.
    symmetric : bool
        Average both directions. False: only the earlier view looks for the later one.
    tile : int, optional
        See `Objective`.

    Examples
    --------
    >>> import torch
    >>> loss = InfoNCE(temperature=0.1)
    >>> loss(torch.eye(2, 3), torch.ones(2, 3))
    tensor(0.6931)
    """

    def __init__(self, *, temperature: float = 0.1, symmetric: bool = True, tile: int | None = None) -> None:
        super().__init__(temperature=temperature, tile=tile)
        self.symmetric = symmetric

    def forward(
        self, z1: Tensor | Sequence[Tensor], z2: Tensor | None = None, metadata: Metadata | None = None
    ) -> Tensor:
        """Return the loss of two views (n, d), or of a list of views given as ``z1``."""
        return super().forward(z1, z2, metadata)  # type: ignore[arg-type]

    def parts(self, pool: Pool) -> dict[str, Tensor]:
        """Alignment −s of twins, and the log-sum-exp over candidates, averaged over pairs of views."""
        scale = 1 / self.temperature
        pairs = list(combinations(range(pool.rows.shape[0]), 2))
        twins = [pool.alignment(scale, a, b) for a, b in pairs]
        sums = [pool.mean(log_sums) for a, b in pairs for log_sums in self._log_sums(pool, a, b, scale)]
        return {
            "alignment": sum(twins[1:], twins[0]) * (-1 / len(twins)),
            "uniformity": sum(sums[1:], sums[0]) * (1 / len(sums)),
        }

    def _log_sums(self, pool: Pool, a: int, b: int, scale: float) -> tuple[Tensor, ...]:
        if self.symmetric and pool.is_symmetric:
            return log_sum_exp_both_ways(pool.between(a, b), scale)
        directions = [(a, b), (b, a)] if self.symmetric else [(a, b)]
        return tuple(log_sum_exp(pool.between(x, y), scale, excluded=None) for x, y in directions)

    def pool_bounds(self, pool: Pool) -> dict[str, Tensor]:
        """``mutual_information``: log n − L, in nats."""
        parts = self.parts(pool)
        return {"mutual_information": math.log(pool.n_samples) - parts["alignment"] - parts["uniformity"]}

    def closed_form(self, pool: Pool) -> tuple[Tensor, Tensor]:
        """Cross-entropy of the twins along rows and columns of <z1_i, z2_j>/τ: ∂/∂s = softmax − 1 at twins."""
        scale, n = 1 / self.temperature, pool.n_samples
        one, other = pool.rows.unbind(0)
        scores = torch.mm(one, other.T).mul_(scale)
        sums, slopes = log_sums_and_chances(scores)
        if self.symmetric:
            backwards, chances = log_sums_and_chances(scores, dim=0)
            sums, slopes = sums.add_(backwards).mul_(0.5), slopes.add_(chances).mul_(0.5)
        value = sums.sub_(scores.diagonal()).mean()
        slopes.diagonal().sub_(1)
        slopes.mul_(scale / n)
        return value, torch.stack((slopes @ other, slopes.T @ one))


class NTXent(Objective):
    r"""NT-Xent, the loss of SimCLR: find the twin among all 2n − 1 other embeddings of the batch.

    L = mean_i [ −s_{i,twin(i)} + log Σ_{j≠i} exp s_ij ] over the pool of 2n embeddings (Chen et al. 2020,
    eq. 1). Pulls the two views of a scan together and pushes all other scans away, whatever their
    metadata. Choose it as the baseline that knows nothing of the subjects.

    Parameters
    ----------
    temperature : float
        τ. Small: the hardest negatives decide. Large: all count alike.
    tile : int, optional
        See `Objective`.
    """

    def value(self, pool: Pool) -> Tensor:
        """The loss: log M cancels."""
        scale = 1 / self.temperature
        return pool.mean(log_sum_exp(pool, scale)) - pool.alignment(scale)

    def parts(self, pool: Pool) -> dict[str, Tensor]:
        """Alignment of twins, global uniformity, and log M."""
        scale = 1 / self.temperature
        log_candidates = math.log(pool.n_candidates)
        return {
            "alignment": -pool.alignment(scale),
            "uniformity": pool.mean(log_sum_exp(pool, scale)) - log_candidates,
            "log_candidates": pool.rows.new_full((), log_candidates),
        }

    def pool_bounds(self, pool: Pool) -> dict[str, Tensor]:
        """``mutual_information``: log M − L, in nats."""
        parts = self.parts(pool)
        return {"mutual_information": -parts["alignment"] - parts["uniformity"]}

    def closed_form(self, pool: Pool) -> tuple[Tensor, Tensor]:
        """Cross-entropy of the twins among all others: ∂/∂s = softmax − 1 at twins."""
        scale = 1 / self.temperature
        return find_twins(pool_similarities(pool.rows, scale), pool.rows, scale)
