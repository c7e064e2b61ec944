"""Losses of conditional contrastive learning with kernels (CCL-K) on metadata.

Weakly supervised CCL-K learns metadata, fair CCL-K forgets metadata, and CCL-K with hard negatives
contrasts similar scans.
"""

import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import torch
from pydantic import AfterValidator
from torch import Tensor

from neurocontrast.exceptions import ConfigError
from neurocontrast.kernels import Kernel, Metadata
from neurocontrast.kernels.conditional import check_condition, conditional_operator
from neurocontrast.kernels.factors import KernelLike, build_kernel
from neurocontrast.losses.core import Pool
from neurocontrast.losses.objective import Objective, Temperature
from neurocontrast.losses.pairs import Pairs
from neurocontrast.losses.reductions import softplus_of
from neurocontrast.settings import Positive, checked


def _refuse_different(factors: Any) -> Any:
    """Return the kernel of a CCL-K loss unchanged; refuse a factor `Different` with ``within`` < 1.

    `factors` is the kernel as configured, a list of settings of factors. A factor with ``type:
    different`` is the kernel `Different`, whose setting ``within`` is the weight of two scans of
    one category; with ``within`` below 1 the kernel is not positive semi-definite, and a ValueError
    is raised. A `Kernel` object is returned unchecked.
    """
    if isinstance(factors, Kernel):
        return factors
    for factor in factors:
        if factor.type == "different" and factor.within < 1:
            raise ValueError(
                "CCL-K needs a positive semi-definite kernel, and type: different is none; to "
                f"forget the site, give fair_cclk {{column: {factor.column}, type: categorical}}, "
                "and put type: different into the kernel of yaware, conditional or "
                "conditional_alignment"
            )
    return factors


_Condition = Annotated[KernelLike, AfterValidator(_refuse_different)]
_SMALLEST_WEIGHT = 1e-6
"""Smallest entry of W that is kept with ``own=False``; smaller ones become 0, as in the released
code."""


class _CCLK(Objective):
    """Base class of CCL-K losses, which compute the conditional similarity M_i of each anchor.

    M_i estimates the mean of exp(similarity) between scan i and scans with the same condition, such
    as scans of the same age or site. A subclass turns M_i into a loss by its method
    `pull_and_push`.
    """

    citation = (
        "Tsai Y-HH, Li T, Ma MQ, et al. Conditional contrastive learning with kernel. ICLR 2022."
    )
    needs_nonnegative = False

    @checked
    def __init__(
        self,
        kernel: _Condition,
        *,
        temperature: Temperature = 0.1,
        ridge: Positive = 0.01,
        symmetric: bool = False,
        own: bool = True,
    ) -> None:
        super().__init__(temperature=temperature)
        self.kernel = check_condition(build_kernel(kernel))
        self.ridge = ridge
        self.symmetric = symmetric
        self.own = own

    def value(self, pool: Pool) -> Tensor:
        pulls, pushes, *_ = self._anchors(pool)
        # −log(a / (a + b)) in one piece keeps its digits where the loss is close to 0.
        ratios = pushes - pulls
        return pool.mean(softplus_of(ratios))

    def parts(self, pool: Pool) -> dict[str, Tensor]:
        pulls, pushes, twins, clamped = self._anchors(pool)
        pool.figures["clamped"] = pool.mean(clamped)
        return {
            "alignment": -pool.mean(pulls + twins),
            "uniformity": pool.mean(torch.logaddexp(pulls, pushes) + twins),
        }

    def pull_and_push(self, mean: Tensor, rest: Tensor, n_samples: int) -> tuple[Tensor, Tensor]:
        """Return log(a / K_ii) and log(b / K_ii), the parts of the loss −log(a / (a + b)).

        a is the attraction and b the repulsion of anchor i, which each subclass defines: a = M_i
        and b = Σ_{j≠i} K_ij in `WeaklySupervisedCCLK`, a = K_ii and b = (n − 1) M_i in `FairCCLK`.
        K_ij is exp of the similarity of scan i in one view and scan j in the other view, and M_i
        estimates the mean of K_ij over scans j with the condition of scan i. The condition is a
        scan's value of the metadata, such as the age or the site. Both results are tensors (1, n).

        Parameters
        ----------
        mean : tensor (1, n)
            log(M_i / K_ii).
        rest : tensor (1, n)
            log((Σ_{j≠i} K_ij) / K_ii).
        n_samples : int
            Number of samples of the batch.
        """
        raise NotImplementedError

    def condition(self, pool: Pool, view: int) -> tuple[Kernel, Metadata]:  # noqa: ARG002
        """Return the kernel that compares conditions of scans, and the data to compare.

        The condition of a scan is its value of the metadata, such as the age or the site; for
        `HardNegativeCCLK` it is the scan's embedding in the view of number `view`. The data, from
        which the kernel is computed, are tensors by column name, a row for each scan of `pool`.
        """
        assert self.kernel is not None
        return self.kernel, pool.metadata

    def _anchors(self, pool: Pool) -> Sequence[Tensor]:
        """Return log(a / K_ii), log(b / K_ii), log K_ii, and 1 if M_i is clamped, of all anchors i.

        The loss of an anchor is −log(a / (a + b)), with a its attraction and b its repulsion, which
        a subclass defines in `pull_and_push`. K_ii is exp of the similarity of both views of scan
        i, and M_i the estimated similarity of scans with the condition of scan i, which is clamped
        to a tiny positive number if the estimate is not above 0; the last tensor is 0 for an anchor
        that is not clamped. Each tensor has a row for view 1 of `pool`, and with `symmetric` a row
        for view 2.
        """
        first = self._of_view(pool, 0)
        if not self.symmetric:
            return first
        return list(map(torch.cat, zip(first, self._of_view(pool, 1), strict=True)))

    def _of_view(self, pool: Pool, view: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the four tensors of `_anchors`, (1, n) each, for the anchors of one `view`.

        The tensors are log(a / K_ii), log(b / K_ii), log K_ii, and 1 where M_i is clamped, with
        −log(a / (a + b)) the loss of anchor i. a is the attraction of the anchor and b its
        repulsion: M_i and Σ_{j≠i} K_ij in `WeaklySupervisedCCLK`, K_ii and (n − 1) M_i in
        `FairCCLK`. The anchors are the embeddings of `view`, and are compared with the embeddings
        of the other view: K_ij is exp of the similarity of scan i in `view` and scan j in the other
        view. W is the matrix of `conditional_operator` for the conditions of the scans, and M_i =
        Σ_j W_ji K_ij.

        The terms W_ji K_ij have both signs. Before the sum they are divided by the largest |W_ji
        K_ij| of the anchor, and not by the largest K_ij: thus M_i does not vanish at a small
        temperature if all scans of the condition are far from the anchor. Similarities are taken
        minus the similarity of both views of scan i. This difference is 0 for scan i itself, and is
        set to a 0 without gradient: if the pair is nearly all of M_i, the small rest of the
        gradient is not lost in rounding.
        """
        kernel, columns = self.condition(pool, view)
        operator = conditional_operator(kernel, columns, ridge=self.ridge, dtype=pool.anchors.dtype)
        if not self.own:
            operator.fill_diagonal_(0)
            operator.masked_fill_(operator < _SMALLEST_WEIGHT, 0)
        lowest = torch.finfo(operator.dtype).min
        tiny = torch.finfo(operator.dtype).tiny

        def of_anchors(pairs: Pairs) -> tuple[Tensor, ...]:
            weights = operator[pairs.samples]
            twins = pairs.twins()
            nearer = pairs.leave_out(pairs.s - twins[..., None, None], "sample", 0)[:, :, 0]
            weighed = nearer + weights.abs().log().clamp_min(lowest)
            largest = weighed.detach().amax(2)
            summed = ((weighed - largest.unsqueeze(2)).exp() * weights.sign()).sum(2)
            mean = torch.where(summed > tiny, largest + summed.clamp_min(tiny).log(), lowest)
            floor = math.log(tiny) - twins
            clamped = mean <= floor  # false for NaN, which stays
            rest = pairs.log_sum_exp(without="sample") - twins
            return twins, torch.where(clamped, floor, mean), rest, clamped.to(mean)

        twins, mean, rest, clamped = pool.between([(view, 1 - view)]).each_anchor(of_anchors)
        return *self.pull_and_push(mean, rest, pool.n_samples), twins, clamped


class WeaklySupervisedCCLK(_CCLK):
    """Weakly supervised CCL-K: scans of similar metadata attract, weighted by a kernel regression.

    With z1 and z2 the embeddings of the two views, K_ij = exp(<z1_i, z2_j>/τ), K_Z the kernel
    matrix of the metadata, W = (K_Z + λI)⁻¹ K_Z and M_i = [K W]_ii, the loss is L = −mean_i log(
    M_i / (M_i + Σ_{j≠i} K_ij) ) (Tsai et al. 2022, eq. 7).

    M_i estimates the similarity of scan i to a random scan with the same condition, the value of
    the metadata, so that the loss works even if no two scans share a condition. Choose the loss
    over `YAwareInfoNCE` when the condition is noisy or of many dimensions. W can be negative, and
    M_i can fall to 0 or below: M_i is then replaced by the smallest positive number of the dtype
    ("clamped"), and the scan is repelled, but not attracted. If clamping is frequent (`clamped` in
    the metrics of training), give a larger ridge or bandwidth, or ``own=False``.

    Parameters
    ----------
    kernel : Kernel
        Kernel on the metadata to learn. With a narrow kernel every sample is a condition of its
        own, as in `InfoNCE`.
    temperature : float, default 0.1
        Temperature τ > 0. With a small τ only the nearest candidates count.
    ridge : float, default 0.01
        Ridge penalty λ > 0. With a small λ the weights W are sharp, but more anchors are clamped;
        with a large λ, M_i averages over many samples.
    symmetric : bool, default False
        Whether to average both directions: view 1 against view 2, and view 2 against view 1.
    own : bool, default True
        Whether M_i contains the pair of both views of scan i, as in the equations. With a narrow
        kernel, this pair is nearly all of M_i, and other pairs hardly train. With False, W_ii and
        entries of W below 1e-6 become 0, as in the released code.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.kernels import Gaussian
    >>> loss = WeaklySupervisedCCLK(Gaussian("age", sigma=5.0), temperature=1.0)
    >>> loss(torch.eye(2), torch.eye(2), {"age": torch.tensor([20.0, 60.0])})
    tensor(0.3159)
    """

    title = "weakly supervised CCL-K"

    def pull_and_push(
        self,
        mean: Tensor,
        rest: Tensor,
        n_samples: int,  # noqa: ARG002
    ) -> tuple[Tensor, Tensor]:
        return mean, rest


class FairCCLK(_CCLK):
    """Fair CCL-K: scans are contrasted with scans of the same condition, to forget the condition.

    With K_ij, W and M_i as in `WeaklySupervisedCCLK` and n scans in a batch, the loss is L =
    −mean_i log( K_ii / (K_ii + (n−1) M_i) ) (Tsai et al. 2022, eq. 8). A condition is the value of
    the metadata, such as a site.

    If the condition is the site, traces of the site do not help to tell a scan from others of the
    same site, so that the network gains nothing by encoding the site. Choose the loss, often in a
    `SumOfObjectives`, when a variable must not leak into the embedding; for categories with many
    scans in a batch `FairInfoNCE` is simpler.

    Parameters
    ----------
    kernel : Kernel
        Kernel on the metadata to forget.
    ridge : float, default 0.01
        Ridge penalty λ > 0. With a large λ, M_i and so the repulsion are smaller.
    temperature, symmetric, own
        Parameters as in `WeaklySupervisedCCLK`.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.kernels import Categorical
    >>> loss = FairCCLK(Categorical("site"), temperature=1.0)
    >>> loss(torch.eye(2), torch.eye(2), {"site": torch.tensor([0, 0])})
    tensor(0.5191)
    """

    title = "fair CCL-K"

    def pull_and_push(
        self,
        mean: Tensor,
        rest: Tensor,  # noqa: ARG002
        n_samples: int,
    ) -> tuple[Tensor, Tensor]:
        log_others = torch.finfo(mean.dtype).min
        if n_samples > 1:
            log_others = math.log(n_samples - 1)
        return torch.zeros_like(mean), mean + log_others


class HardNegativeCCLK(FairCCLK):
    """CCL-K with hard negatives: the condition of an anchor is its embedding, without gradient.

    The loss is `FairCCLK` with Z, in place of the metadata, the unit embeddings of the anchors'
    view (Tsai et al. 2022, eq. 9): each scan is contrasted with the scans that its embedding
    resembles most, by the weights W = (K_Z + λI)⁻¹ K_Z of the kernel matrix K_Z. No column of a
    table is needed. With ``on="features"``, Z are the encoder's p features of each view, which
    training gives to the loss as the metadata column "features", (n, 2p), both views side by side.

    Parameters
    ----------
    kernel : Kernel
        Kernel on the column ``"embedding"``, which the loss fills: for instance
        ``Cosine("embedding")`` or ``Gaussian("embedding", sigma=0.5)``. With a narrow kernel only
        the hardest negatives count.
    on : {"embedding", "features"}, default "embedding"
        Values on which the kernel compares scans: unit embeddings, or the encoder's features before
        the projection head, of any norm, as in the authors' experiments. A bandwidth chosen for
        features is so wide for unit embeddings that W becomes uniform.
    ridge : float, default 0.01
        Ridge penalty λ > 0. With a large λ the repulsion is smaller.
    temperature, symmetric, own
        Parameters as in `WeaklySupervisedCCLK`.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.kernels import Cosine
    >>> HardNegativeCCLK(Cosine("embedding"), temperature=1.0)(torch.eye(2), torch.eye(2))
    tensor(0.6882)
    """

    title = "CCL-K with hard negatives"

    @checked
    def __init__(
        self,
        kernel: _Condition,
        *,
        temperature: Temperature = 0.1,
        ridge: Positive = 0.01,
        symmetric: bool = False,
        own: bool = True,
        on: Literal["embedding", "features"] = "embedding",
    ) -> None:
        kernel = build_kernel(kernel)
        super().__init__(kernel, temperature=temperature, ridge=ridge, symmetric=symmetric, own=own)
        self.on = on
        if kernel.columns != {"embedding": "continuous"}:
            raise ConfigError(
                "kernel must be a continuous one on the column 'embedding' alone, for instance "
                f"Cosine('embedding'), got one on {sorted(kernel.columns)}."
            )
        if not all(getattr(factor, "fitted", True) for factor in kernel.modules()):
            raise ConfigError(
                "sigma must be a number for a kernel on 'embedding': there is no cohort to fit a "
                "rule on."
            )
        self.kernel = None
        self.embedding_kernel = kernel
        self.reads_features = on == "features"

    def condition(self, pool: Pool, view: int) -> tuple[Kernel, Metadata]:
        embedding = pool.anchors[view].detach()
        if self.reads_features:
            embedding = pool.metadata["features"].chunk(2, 1)[view]
        return self.embedding_kernel, {"embedding": embedding}
