"""Rank-N-Contrast: embeddings in the order of a continuous column."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from neurocontrast.exceptions import DataError
from neurocontrast.kernels import Kind, Metadata
from neurocontrast.losses.core import EMPTY, Pairs, Pool, distances
from neurocontrast.losses.objective import LossSettings, Objective, Temperature, check_complete
from neurocontrast.settings import Column


class RankNContrast(Objective):
    """Rank-N-Contrast: an anchor is nearer to a scan than to all scans that are further away in a continuous column.

    mean_i mean_{j≠i} [ −s_ij + log Σ_{k≠i: d_ik ≥ d_ij} exp s_ik ] over the pool of 2n embeddings (Zha et al. 2023,
    equations 1 and 2), with s_ij = −‖z_i − z_j‖/τ and d_ij = ``|y_i − y_j|``. Each other embedding j is the positive in
    turn, its negatives are those at least as far from the anchor in y. Only the order of the distances counts, so there
    is no bandwidth. The distances of an anchor are sorted once: O(n² log n) time, O(n) memory.

    Choose it to predict one continuous variable such as the age. Embeddings have unit norm as in every loss, while the
    paper's have any: a temperature of 2 is theirs, and lower ones may suit unit vectors better.

    Parameters
    ----------
    column : str
        A continuous metadata column, (n,), without missing values.
    temperature : float
        Temperature τ, in units of the distance of two unit vectors (at most 2). Small: the nearest negatives decide.

    Examples
    --------
    >>> import torch
    >>> RankNContrast("age")(torch.eye(3), torch.eye(3), {"age": torch.tensor([20.0, 30.0, 60.0])})
    tensor(1.0496)
    """

    title = "Rank-N-Contrast"
    citation = (
        "Zha K, Cao P, Son J, Yang Y, Katabi D. Rank-N-Contrast: learning continuous representations for regression. "
        "NeurIPS 2023."
    )

    class Settings(LossSettings):
        column: Column
        temperature: Temperature = 2.0

    n_views = (1, None)

    @property
    def scale(self) -> float:
        """1: distances are divided by the temperature, not similarities."""
        return 1.0

    @property
    def columns(self) -> dict[str, Kind]:
        return {self.column: "continuous"}

    def check(self, metadata: Metadata, *, names: Sequence[str] | None = None) -> None:
        """Refuse missing or infinite values, and vectors."""
        check_complete(metadata, self.column, "continuous", names=names)

    def parts(self, pool: Pool) -> dict[str, Tensor]:
        y = pool.metadata[self.column]
        if y.ndim != 1:
            raise DataError(f"metadata['{self.column}'] must be one number a sample, (n,), got {tuple(y.shape)}.")
        if y.device.type == "cpu":
            self.check(pool.metadata)

        def of_anchors(pairs: Pairs, temperature: Tensor) -> tuple[Tensor]:
            apart = (y[pairs.samples].unsqueeze(1) - y).abs()
            return (_sum_over_positives(distances(pairs.s) / -temperature, apart, pairs.itself),)

        (totals,) = pool.each_anchor(of_anchors, torch.as_tensor(self.tau, dtype=pool.anchors.dtype))
        # On an accelerator nothing asks for missing values: they make the loss NaN.
        return {"contrast": pool.mean(totals) / max(1, pool.n_candidates) + 0 * y.sum()}


def _sum_over_positives(similarities: Tensor, apart: Tensor, itself: Tensor) -> Tensor:
    """Return Σ_j ( −s_ij + log Σ_{k: d_ik ≥ d_ij} exp s_ik ) of anchors, (V, n_i).

    Of similarities (V, n_i, V, n), of the distances of their samples in y, (n_i, n), and of which pairs are an anchor
    with itself.
    """
    n_views = len(similarities)
    pulled = similarities.masked_fill(itself, 0).sum((2, 3))
    of_samples = similarities.masked_fill(itself, EMPTY).logsumexp(2)
    # From the nearest sample in y to the furthest: the negatives are the sample, its equals, and all behind.
    ordered, order = apart.sort(1)
    first_equal = torch.searchsorted(ordered, ordered)
    behind = of_samples.gather(2, order.expand_as(of_samples)).flip(2).logcumsumexp(2).flip(2)
    # The anchor's own sample has one view fewer, and all others are at least as far.
    sums = n_views * behind.gather(2, first_equal.expand_as(behind)).sum(2) - behind[..., 0]
    return sums - pulled
