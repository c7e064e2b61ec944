"""Conditional contrastive learning with kernels (CCL-K): weakly supervised, fair, and with hard negatives."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.kernels import Kernel, Metadata
from neurocontrast.kernels.conditional import ConditionalOperator, check_condition, check_ridge, conditional_operator
from neurocontrast.losses.core import Pool
from neurocontrast.losses.objective import Objective
from neurocontrast.losses.yaware import check_kernel

__all__ = ["FairCCLK", "HardNegativeCCLK", "WeaklySupervisedCCLK"]

_SIMILARITIES_AT_ONCE = 2**20


@dataclass(frozen=True)
class _Anchors:
    """What the losses read of each anchor, (n,) each; similarities and sums as logarithms."""

    own: Tensor
    """s_ii."""
    mean: Tensor
    """log M_i, from below at the logarithm of the dtype's tiny."""
    rest: Tensor
    """log Σ_{j≠i} K_ij; the dtype's lowest number where there is no other sample."""
    clamped: Tensor
    """Whether M_i was below the dtype's tiny."""


class _CCLK(Objective):
    """What the three losses share: log M_i of each anchor, in blocks of rows."""

    needs_nonnegative = False

    def __init__(
        self, kernel: Kernel, *, temperature: float = 0.1, ridge: float = 0.01, symmetric: bool = False
    ) -> None:
        super().__init__(temperature=temperature)
        self.kernel = check_condition(check_kernel(kernel))
        self.ridge = check_ridge(ridge)
        self.symmetric = symmetric

    def forward(self, z1: Tensor, z2: Tensor, metadata: Metadata | None = None) -> Tensor:
        """Return the loss, a scalar; see `Objective.forward`."""
        value: Tensor = self._with_pool(self._value, z1, z2, metadata)
        return value

    def diagnostics(self, z1: Tensor, z2: Tensor, metadata: Metadata | None = None) -> dict[str, Tensor]:
        """Return ``clamped_fraction``: the share of anchors whose M_i was clamped, and so has no gradient.

        Where it is not near 0 the operator is too wild for the batch: give a larger ridge or bandwidth.
        """
        with torch.no_grad():
            fractions: dict[str, Tensor] = self._with_pool(self._clamped_fraction, z1, z2, metadata)
        return fractions

    def parts(self, pool: Pool) -> dict[str, Tensor]:
        """Alignment, what is under the logarithm above the line; uniformity, what is below it."""
        both = [self._pull_and_push(anchors, pool.n_samples) for anchors in self._directions(pool)]
        pulls, pushes = (torch.stack(part) for part in zip(*both, strict=True))
        return {"alignment": -pool.mean(pulls), "uniformity": pool.mean(torch.logaddexp(pulls, pushes))}

    def extra_repr(self) -> str:
        """Show the numbers it was made with."""
        return f"{super().extra_repr()}, ridge={self.ridge}, symmetric={self.symmetric}"

    def _pull_and_push(self, anchors: _Anchors, n_samples: int) -> tuple[Tensor, Tensor]:
        """Return log a and log b of −log(a / (a + b))."""
        raise NotImplementedError

    def _operator(self, pool: Pool, view: int) -> ConditionalOperator:  # noqa: ARG002
        """Return W for the condition of the anchors of a view."""
        assert self.kernel is not None
        return conditional_operator(self.kernel, pool.col_metadata, ridge=self.ridge, dtype=pool.cols.dtype)

    def _value(self, pool: Pool) -> Tensor:
        """−log(a / (a + b)) in one piece, which keeps its digits where the loss is close to 0."""
        both = [self._pull_and_push(anchors, pool.n_samples) for anchors in self._directions(pool)]
        ratios = torch.stack([push - pull for pull, push in both])
        return pool.mean(torch.logaddexp(torch.zeros_like(ratios), ratios))

    def _clamped_fraction(self, pool: Pool) -> dict[str, Tensor]:
        clamped = torch.stack([anchors.clamped for anchors in self._directions(pool)])
        return {"clamped_fraction": pool.mean(clamped.to(pool.rows.dtype))}

    def _directions(self, pool: Pool) -> list[_Anchors]:
        """Return the anchors of view 1 against view 2, and if symmetric the other way as well."""
        if pool.cols.shape[0] != 2:
            raise DataError(f"CCL-K takes two views, got {pool.cols.shape[0]}. Leave out the others.")
        operators = [self._operator(pool, view) for view in range(2 if self.symmetric else 1)]
        return [
            _read_anchors(
                pool.rows[view], pool.cols[1 - view], operator, scale=1 / self.temperature, offset=pool.offset
            )
            for view, operator in enumerate(operators)
        ]


class WeaklySupervisedCCLK(_CCLK):
    """Weakly supervised CCL-K: attracts what a kernel on metadata says is alike (Tsai et al. 2022, eq. 7).

    With K_ij = exp(<z1_i, z2_j>/τ), W = (K_Z + λI)⁻¹ K_Z and M_i = [K W]_ii,
    L = −mean_i log( M_i / (M_i + Σ_{j≠i} K_ij) ).

    M_i stands for the similarity to a sample drawn under the condition of i, so the loss works where no two
    samples share a condition. Choose it over `YAwareInfoNCE` when the condition is noisy or of many
    dimensions; y-Aware is cheaper and its weights are never negative. W can be negative, so M_i can fall to
    0 or below: it is clamped at the dtype's tiny, and ``diagnostics`` reports the fraction clamped.

    Parameters
    ----------
    kernel : Kernel
        On the metadata to learn. A narrow one makes every sample its own condition, which is InfoNCE.
    temperature : float
        τ > 0. Small values look at the nearest candidates only.
    ridge : float
        λ > 0. Small: sharp, few clamped anchors are the price. Large: M_i averages over many samples.
    symmetric : bool
        Average both directions (view 1 against view 2, and back).

    See Also
    --------
    FairCCLK : The opposite, which forgets the metadata.
    """

    @property
    def positives(self) -> list[Kernel]:
        """Its kernel."""
        assert self.kernel is not None
        return [self.kernel]

    def _pull_and_push(self, anchors: _Anchors, n_samples: int) -> tuple[Tensor, Tensor]:  # noqa: ARG002
        return anchors.mean, anchors.rest


class FairCCLK(_CCLK):
    """Fair CCL-K: contrasts each sample with others of the same condition, which is so forgotten (eq. 8).

    With K_ij, W and M_i as in `WeaklySupervisedCCLK`, L = −mean_i log( K_ii / (K_ii + (n−1) M_i) ).

    Telling a sample from others of its own site cannot be done with what the site looks like, so nothing is
    gained from encoding the site. Choose it (often in a sum of objectives) when a variable must not leak
    into the embedding; for a categorical one with large classes in the batch `FairInfoNCE` is simpler.

    Parameters
    ----------
    kernel : Kernel
        On the metadata to forget.
    temperature : float
        τ > 0. Small values look at the nearest candidates only.
    ridge : float
        λ > 0. Large values make M_i, and so the repulsion, smaller.
    symmetric : bool
        Average both directions (view 1 against view 2, and back).
    """

    def _pull_and_push(self, anchors: _Anchors, n_samples: int) -> tuple[Tensor, Tensor]:
        n_others = math.log(n_samples - 1) if n_samples > 1 else torch.finfo(anchors.mean.dtype).min
        return anchors.own, anchors.mean + n_others


class HardNegativeCCLK(FairCCLK):
    """CCL-K with hard negatives: the condition is the embedding of the anchor itself, detached (eq. 8).

    The loss of `FairCCLK` with Z the unit embeddings of the anchors' view, so that each sample is
    contrasted with those it now resembles most. It reads no metadata.

    Parameters
    ----------
    kernel : Kernel
        On the column ``"embedding"``, which the loss fills: for instance ``Cosine("embedding")`` or
        ``Gaussian("embedding", sigma=0.5)``. A narrow one keeps to the hardest negatives.
    temperature : float
        τ > 0. Small values look at the nearest candidates only.
    ridge : float
        λ > 0. Large values make the repulsion smaller.
    symmetric : bool
        Average both directions (view 1 against view 2, and back).
    """

    def __init__(
        self, kernel: Kernel, *, temperature: float = 0.1, ridge: float = 0.01, symmetric: bool = False
    ) -> None:
        super().__init__(kernel, temperature=temperature, ridge=ridge, symmetric=symmetric)
        if kernel.columns != {"embedding": "continuous"}:
            raise ConfigError(
                "kernel must be a continuous one on the column 'embedding' alone, for instance Cosine('embedding'), "
                f"got one on {sorted(kernel.columns)}."
            )
        if not all(getattr(part, "fitted", True) for part in kernel.modules()):
            raise ConfigError(
                "sigma must be a number for a kernel on 'embedding': there is no cohort to fit a rule on."
            )
        self.kernel, self.embedding_kernel = None, kernel

    def _operator(self, pool: Pool, view: int) -> ConditionalOperator:
        condition = {"embedding": pool.cols[view].detach()}
        return conditional_operator(self.embedding_kernel, condition, ridge=self.ridge, dtype=pool.cols.dtype)


def _read_anchors(rows: Tensor, cols: Tensor, operator: ConditionalOperator, *, scale: float, offset: int) -> _Anchors:
    """Read (n, d) anchors against (m, d) candidates; anchor i has its other view at candidate offset + i."""
    return _Anchors(*_ReadAnchors.apply(rows, cols, operator, scale, offset))


class _ReadAnchors(torch.autograd.Function):
    """A block of anchors at a time, computed again for the gradient, so that no (n, m) similarities are kept.

    M_i has terms of both signs. They are scaled by the largest of |W_ji K_ij|, not of K_ij, so that a
    condition whose samples are all far from the anchor does not vanish at a small temperature. The
    gradient of log M_i is W_ji K_ij / M_i, and 0 where M_i is clamped.
    """

    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, cols: Tensor, operator: ConditionalOperator, scale: float, offset: int
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        lowest, tiny = torch.finfo(rows.dtype).min, torch.finfo(rows.dtype).tiny
        own, mean, rest = (rows.new_empty(len(rows)) for _ in range(3))
        for i in _blocks(rows, cols):
            scores, weighed, signs = _scores(rows, cols, operator, scale, i, offset)
            largest = weighed.amax(1)
            summed = weighed.sub_(largest.unsqueeze(1)).exp_().mul_(signs).sum(1)
            mean[i] = torch.where(summed > tiny, largest + summed.clamp_min(tiny).log(), lowest)
            diagonal = scores.diagonal(offset + i.start)
            own[i] = diagonal
            diagonal.fill_(lowest)
            rest[i] = scores.logsumexp(1)
        floor = math.log(tiny)
        clamped = mean < floor
        mean.clamp_min_(floor)
        ctx.save_for_backward(rows, cols, mean, rest, clamped)
        ctx.operator, ctx.scale, ctx.offset = operator, scale, offset
        ctx.mark_non_differentiable(clamped)
        return own, mean, rest, clamped

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        rows, cols, mean, rest, clamped = ctx.saved_tensors
        of_own, of_mean, of_rest = gradients[0], gradients[1].masked_fill(clamped, 0), gradients[2]
        of_rows, of_cols = torch.zeros_like(rows), torch.zeros_like(cols)
        with torch.autocast(rows.device.type, enabled=False):
            for i in _blocks(rows, cols):
                scores, weighed, signs = _scores(rows, cols, ctx.operator, ctx.scale, i, ctx.offset)
                towards_mean = weighed.sub_(mean[i].unsqueeze(1)).masked_fill_(clamped[i].unsqueeze(1), 0).exp_()
                towards_mean.mul_(signs).mul_(of_mean[i].unsqueeze(1))
                slopes = scores.sub_(rest[i].unsqueeze(1)).exp_().mul_(of_rest[i].unsqueeze(1))
                slopes.diagonal(ctx.offset + i.start).copy_(of_own[i])
                slopes.add_(towards_mean)
                of_rows[i] = slopes @ cols
                of_cols.addmm_(slopes.T, rows[i])
        return of_rows.mul_(ctx.scale), of_cols.mul_(ctx.scale), None, None, None


def _blocks(rows: Tensor, cols: Tensor) -> list[slice]:
    """Cut the anchors in blocks of a bounded number of similarities."""
    step = max(1, _SIMILARITIES_AT_ONCE // len(cols))
    return [slice(start, min(start + step, len(rows))) for start in range(0, len(rows), step)]


def _scores(
    rows: Tensor, cols: Tensor, operator: ConditionalOperator, scale: float, i: slice, offset: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return s, s + log|W| and the sign of W, of a block of anchors."""
    scores = (rows[i] * scale) @ cols.T
    weights = operator.rows(offset + i.start, offset + i.stop)
    signs = weights.sign()
    weighed = weights.abs().log_().clamp_min_(torch.finfo(scores.dtype).min).add_(scores)
    return scores, weighed, signs
