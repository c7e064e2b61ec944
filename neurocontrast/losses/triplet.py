"""The triplet loss over every triplet of the batch, without ever listing them."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from neurocontrast.kernels import Block, Categorical
from neurocontrast.losses import tiles
from neurocontrast.losses.core import Pool, similar_to
from neurocontrast.losses.objective import Objective, check_number

__all__ = ["Triplet"]

_DISTANCES_AT_ONCE = 2**22


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
        self.kernel = Categorical(label)
        self.label = label
        self.margin = check_number("margin", margin, at_least=0.0)

    def parts(self, pool: Pool) -> dict[str, Tensor]:
        """The one part, ``triplet``."""
        assert self.kernel is not None
        same = similar_to(pool, self.kernel)
        n_rows, n_embeddings = pool.rows.shape[1], pool.cols.shape[0] * pool.cols.shape[1]
        step = max(1, _DISTANCES_AT_ONCE // (pool.rows.shape[0] * n_embeddings))
        blocks = [slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]
        if len(blocks) == 1:
            sums, counts = _sum_of_triplets(pool, blocks[0], same, self.margin)
        else:
            read = [
                checkpoint(_sum_of_triplets, pool, i, same, self.margin, use_reentrant=False, preserve_rng_state=False)
                for i in blocks
            ]
            sums, counts = (torch.stack(column) for column in zip(*read, strict=True))
        return {"triplet": pool.total(sums) / pool.total(counts).clamp_min(1).to(sums.dtype)}

    def extra_repr(self) -> str:
        """Show the label and margin."""
        return f"'{self.label}', margin={self.margin}"


def _sum_of_triplets(pool: Pool, i: slice, same: Block, margin: float) -> tuple[Tensor, Tensor]:
    """Return the sum of the positive losses of the anchors of samples ``i``, and their number.

    Where the set of active triplets is known, their sum is linear in the distances: each counts once for
    every active triplet in which it pulls, minus once for every one in which it pushes.
    """
    distances = _distances(pool, i)
    with torch.no_grad():
        positive, negative = _roles(pool, i, same)
        reach = torch.where(positive, distances + margin, -torch.inf)
        barrier = torch.where(negative, distances, torch.inf)
        pulls = torch.searchsorted(barrier.sort(1).values, reach)
        pushes = reach.shape[1] - torch.searchsorted(reach.sort(1).values, barrier, right=True)
        n_triplets = pulls.sum()
        counts = (pulls - pushes).to(distances.dtype)
    return (counts * distances).sum() + margin * n_triplets.to(distances.dtype), n_triplets


def _roles(pool: Pool, i: slice, same: Block) -> tuple[Tensor, Tensor]:
    """Say which candidates are positives of the anchors of samples ``i``, and which negatives."""
    n_views = pool.rows.shape[0]
    alike = (same(i, slice(None)) > 0).unsqueeze(1).repeat(n_views, 1, n_views, 1)
    negative = ~alike
    tiles.exclude(alike, pool.offset + i.start, "self", 0.0)
    return alike.flatten(2).flatten(0, 1), negative.flatten(2).flatten(0, 1)


def _distances(pool: Pool, i: slice) -> Tensor:
    """L2 distances of unit vectors; 0 without gradient below what rounding can tell apart."""
    squared = 2 - 2 * (pool.rows[:, i].flatten(0, 1) @ pool.cols.flatten(0, 1).T)
    apart = squared > 4 * torch.finfo(squared.dtype).eps
    return squared.where(apart, 1.0).sqrt().where(apart, 0.0)
