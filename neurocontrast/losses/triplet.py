"""The triplet loss over every triplet of the batch, without ever listing them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from neurocontrast.kernels import Block, Categorical, Kernel
from neurocontrast.losses.core import Pool
from neurocontrast.losses.objective import Objective, check_number

__all__ = ["Triplet"]

_ALL = slice(None)
_DISTANCES_AT_ONCE = 2**20


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
    """

    def __init__(self, label: str, *, margin: float = 0.2) -> None:
        super().__init__()
        self.kernel: Categorical = Categorical(label)
        self.label = label
        self.margin = check_number("margin", margin, at_least=0.0)

    @property
    def positives(self) -> list[Kernel]:
        """The kernel of its label."""
        return [self.kernel]

    def parts(self, pool: Pool) -> dict[str, Tensor]:
        """The one part, ``triplet``."""
        same = self.kernel.bind(pool.row_metadata, pool.col_metadata, dtype=pool.rows.dtype)
        total, n_triplets = _Triplets.apply(pool.rows, pool.cols, same, self.margin, pool.offset)
        return {"triplet": pool.total(total) / pool.total(n_triplets).clamp_min(1)}

    def extra_repr(self) -> str:
        """Show the label and margin."""
        return f"'{self.label}', margin={self.margin}"


class _Triplets(torch.autograd.Function):
    """Sum of the positive triplet losses of all anchors, and their number; the gradient is made on the way.

    Where the set of active triplets is known, their sum is linear in the distances: each counts once for
    every active triplet in which it pulls, minus once for every one in which it pushes.
    """

    @staticmethod
    def forward(ctx: Any, rows: Tensor, cols: Tensor, same: Block, margin: float, offset: int) -> tuple[Tensor, Tensor]:
        n_views, n_rows, d = rows.shape
        step = max(1, _DISTANCES_AT_ONCE // (n_views * n_views * cols.shape[1]))
        candidates = cols.reshape(-1, d)
        of_rows, of_cols = torch.zeros_like(rows), torch.zeros_like(candidates)
        total, n_triplets = rows.new_zeros(()), rows.new_zeros(())
        for start in range(0, n_rows, step):
            i = slice(start, min(start + step, n_rows))
            anchors = rows[:, i].reshape(-1, d)
            distances = _distances(anchors, candidates)
            counts, active = _counts(distances, *_roles(same(i, _ALL), n_views, offset + start), margin)
            n_triplets += active
            total += (counts * distances).sum() + margin * active
            slopes = counts.div_(distances).masked_fill_(distances == 0, 0).neg_()
            of_rows[:, i] = (slopes @ candidates).view(n_views, -1, d)
            of_cols.addmm_(slopes.T, anchors)
        ctx.save_for_backward(of_rows, of_cols.view(cols.shape))
        ctx.mark_non_differentiable(n_triplets)
        return total, n_triplets

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        of_rows, of_cols = ctx.saved_tensors
        return gradients[0] * of_rows, gradients[0] * of_cols, None, None, None


def _distances(anchors: Tensor, candidates: Tensor) -> Tensor:
    """L2 distances of unit vectors; 0 below what rounding can tell apart."""
    squared = (anchors @ candidates.T).mul_(-2).add_(2)
    return squared.masked_fill_(squared <= 4 * torch.finfo(squared.dtype).eps, 0).sqrt_()


def _roles(same: Tensor, n_views: int, offset: int) -> tuple[Tensor, Tensor]:
    """Say which candidates are positives of each anchor and which negatives, (V·n_i, V·n), from w of the samples."""
    alike = (same > 0).repeat(n_views, n_views)
    anchor = torch.arange(same.shape[0], device=same.device) + offset
    views = torch.arange(n_views, device=same.device) * same.shape[1]
    itself = (views.unsqueeze(1) + anchor).view(-1, 1) == torch.arange(alike.shape[1], device=same.device)
    return alike & ~itself, ~alike


def _counts(distances: Tensor, positive: Tensor, negative: Tensor, margin: float) -> tuple[Tensor, Tensor]:
    """Return how often each distance counts in the sum, and the number of active triplets."""
    reach = (distances + margin).masked_fill_(~positive, -torch.inf)
    barrier, order = distances.masked_fill(~negative, torch.inf).sort(1)
    pulls = torch.searchsorted(barrier, reach)
    # A positive reaches the negatives of rank below its number of pulls.
    ends = torch.zeros(len(pulls), pulls.shape[1] + 1, dtype=pulls.dtype, device=pulls.device)
    ends.scatter_add_(1, pulls, torch.ones_like(pulls))
    pushes = pulls.shape[1] - ends[:, :-1].cumsum(1)
    counts = pulls.scatter_add(1, order, -pushes)
    return counts.to(distances.dtype), pulls.sum().to(distances.dtype)
