"""Losses of alignment and uniformity, without metadata or conditional on metadata."""

import math

import torch
from torch import Tensor

from neurocontrast.kernels import Kernel
from neurocontrast.kernels.factors import KernelLike
from neurocontrast.losses.core import Pool
from neurocontrast.losses.objective import Objective, Temperature
from neurocontrast.losses.pairs import Pairs
from neurocontrast.settings import NonNegative, Positive, checked

_WANG_ISOLA = (
    "Wang T, Isola P. Understanding contrastive representation learning through alignment and "
    "uniformity on the hypersphere. ICML 2020."
)
_DUFUMIER = (
    "Dufumier B, Gori P, Victor J, Grigis A, Duchesnay E. Conditional alignment and uniformity for "
    "contrastive learning with continuous proxy labels. arXiv:2111.05643, 2021."
)


class AlignmentUniformity(Objective):
    """Alignment and uniformity on the hypersphere, without metadata.

    E‖z1 − z2‖^α + λ · (U(z1) + U(z2))/2, U(z) = log E_{i<j} exp(−t‖z_i − z_j‖²) (Wang and Isola
    2020), with z1 and z2 the embeddings of the two views of the scans of a batch, and i and j two
    scans. Choose the loss to weigh attraction and repulsion freely; with τ = 1/(2t), `NTXent` is
    similar.

    Parameters
    ----------
    alpha : float, default 2.0
        Exponent α > 0 of the distance between the two views; with a larger α, distant pairs count
        more.
    t : float, default 2.0
        Scale t > 0 of the repulsion; with a larger t, only the nearest scans repel.
    uniformity_weight : float, default 1.0
        Weight λ ≥ 0 of the uniformity.

    Examples
    --------
    >>> import torch
    >>> AlignmentUniformity().terms(torch.eye(2), -torch.eye(2))
    {'alignment': tensor(4.), 'uniformity': tensor(-4.)}
    """

    title = "alignment + uniformity"
    citation = _WANG_ISOLA
    of_anchors = False

    @checked
    def __init__(
        self,
        *,
        alpha: Positive = 2.0,
        t: Positive = 2.0,
        uniformity_weight: NonNegative = 1.0,
    ) -> None:
        super().__init__()
        self.alpha = alpha
        self.t = t
        self.uniformity_weight = uniformity_weight

    @property
    def scale(self) -> float:
        """Factor 2t by which inner products of embeddings are multiplied, in place of 1/τ."""
        # −t‖z_i − z_j‖² = 2t <z_i, z_j> − 2t.
        return 2 * self.t

    def parts(self, pool: Pool) -> dict[str, Tensor]:
        squared = (pool.anchors[0] - pool.anchors[1]).square().sum(1)
        differ = squared > 0
        distances = torch.where(differ, torch.where(differ, squared, 1.0) ** (self.alpha / 2), 0.0)
        return {
            "alignment": pool.mean(distances.unsqueeze(0)),
            "uniformity": self.uniformity_weight * self._uniformity(pool),
        }

    def _uniformity(self, pool: Pool) -> Tensor:
        n = pool.n_samples
        if n == 1:
            return pool.anchors.sum() * 0
        (sums,) = pool.between([(0, 0), (1, 1)]).each_anchor(lambda pairs: (pairs.log_sum_exp(),))
        first, second = map(pool.log_mean_exp, sums.split(1))
        return (first + second) / 2 - 2 * self.t - math.log(n - 1)


class GlobalUniformity(Objective):
    """Global uniformity: push all scans apart, independent of metadata.

    mean_i log (1/M) Σ_{j≠i} exp s_ij over the M other embeddings j of the batch (Dufumier et al.
    2021, eq. 2, right term), with s_ij = <z_i, z_j>/τ the similarity of two embeddings. The loss
    has no positives: add a loss that aligns scans, such as `ConditionalAlignment`.

    Parameters
    ----------
    temperature : float, default 0.1
        Temperature τ. With a small τ only the nearest scans repel, with a large τ all scans repel
        equally.

    Examples
    --------
    >>> import torch
    >>> GlobalUniformity(temperature=1.0)(torch.eye(2), -torch.eye(2))
    tensor(-0.2366)
    """

    title = "uniformity"
    citation = _WANG_ISOLA
    n_views = (2, None)

    @checked
    def __init__(self, *, temperature: Temperature = 0.1) -> None:
        super().__init__(temperature=temperature)

    def parts(self, pool: Pool) -> dict[str, Tensor]:
        (sums,) = pool.each_anchor(lambda pairs: (pairs.log_sum_exp(),))
        return {"uniformity": pool.mean(sums - math.log(pool.n_candidates))}


class ConditionalAlignment(Objective):
    """Conditional alignment: pull scans together in proportion to the similarity of metadata.

    −mean_i Σ_{j≠i} (w_ij / Σ_k w_ik) s_ij (Dufumier et al. 2021, eq. 2, left term), with s_ij =
    <z_i, z_j>/τ the similarity of two embeddings of the batch, and w_ij the weight of their scans.
    An anchor i whose weights are all 0 has the value 0. If the batch has two or more views of each
    scan, this 0 is part of the mean; if the batch has a single view, the mean leaves the anchor
    out. Alone, the loss collapses the representation: add a uniformity, such as `GlobalUniformity`.

    Parameters
    ----------
    kernel : Kernel
        Kernel w ≥ 0 between scans; each anchor's weights are normalised to sum to 1.
    temperature : float, default 0.1
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
    citation = _DUFUMIER
    n_views = (1, None)
    kernel: Kernel

    @checked
    def __init__(self, kernel: KernelLike, *, temperature: Temperature = 0.1) -> None:
        super().__init__(kernel=kernel, temperature=temperature)

    def parts(self, pool: Pool) -> dict[str, Tensor]:
        def of_anchors(pairs: Pairs) -> tuple[Tensor, Tensor]:
            w = pairs.weights(self.kernel)
            return pairs.mean(w), pairs.mass(w)

        similarity, mass = pool.each_anchor(of_anchors)
        return {"alignment": -pool.mean(similarity, mass)}


class ConditionalUniformity(Objective):
    """Conditional uniformity: push scans apart in proportion to the difference of metadata.

    log [ 1/(2n·M) Σ_i Σ_{j≠i} ( (‖w‖∞ − w_ij) / (‖w‖∞ − Ẑ_i) ) exp s_ij ], Ẑ_i = (1/M) Σ_{j≠i} w_ij
    (Dufumier et al. 2021, the estimator below eq. 4). Here i and j are two of the 2n embeddings of
    n scans in two views, M = 2n − 1 is the number of other embeddings, s_ij = <z_i, z_j>/τ their
    similarity, and ‖w‖∞ the largest weight of the kernel. The logarithm is outside both sums, so
    that the most crowded anchors i of the batch decide. Scans with equal metadata do not repel. An
    anchor with no dissimilar scan is left out; the loss is 0 if all anchors are left out.

    With ``negatives``, a second kernel v, d_ij = (‖w‖∞ − w_ij) v_ij takes the place of ‖w‖∞ − w_ij:
    log [ 1/n_a Σ_i Σ_{j≠i} ( d_ij / Σ_{k≠i} d_ik ) exp s_ij ] over the n_a anchors with Σ_k d_ik >
    0. With v the `Categorical` kernel on the site, scans of different age are pushed apart within a
    site only: differences of age are learnt from brains of one scanner, and the loss does not fall
    when sites are told apart.

    Parameters
    ----------
    kernel : Kernel
        Kernel w ≥ 0 between scans.
    temperature : float, default 0.1
        Temperature τ. With a small τ only the nearest dissimilar pairs repel, with a large τ all
        dissimilar pairs repel equally.
    negatives : Kernel, optional
        Kernel v ≥ 0 between scans, a further weight of the repulsion between two scans; 1 by
        default.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.kernels import Categorical
    >>> loss = ConditionalUniformity(Categorical("sex"), temperature=1.0)
    >>> loss(torch.eye(2), torch.eye(2), {"sex": torch.tensor([0, 1])})
    tensor(0.)
    """

    title = "conditional uniformity"
    citation = _DUFUMIER
    of_anchors = False
    n_views = (1, None)
    kernel: Kernel

    @checked
    def __init__(
        self,
        kernel: KernelLike,
        *,
        temperature: Temperature = 0.1,
        negatives: KernelLike | None = None,
    ) -> None:
        super().__init__(kernel=kernel, negatives=negatives, temperature=temperature)

    def parts(self, pool: Pool) -> dict[str, Tensor]:
        return {"uniformity": _uniformity(pool, *pool.each_anchor(self.repulsion))}

    def repulsion(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """Return log Σ_j d_ij exp s_ij and Σ_j d_ij of each anchor i in `pairs`, each (V, n_i).

        The repulsion weights d are computed by `differences`.
        """
        d = self.differences(pairs)
        return pairs.log_sum_exp(d), pairs.mass(d)

    def differences(self, pairs: Pairs) -> Tensor:
        """Return the repulsion weights d = (‖w‖∞ − w) v of anchors with all samples, (n_i, n).

        The n_i samples are those whose views are the anchors of `pairs`, a block of the batch; n
        are all samples of the batch. The kernels w and v are `kernel` and `negatives` of this loss;
        v is 1 without `negatives`.
        """
        d = pairs.unlikeness(self.kernel)
        if self.negatives is not None:
            d = d * pairs.weights(self.negatives)
        return d


def _uniformity(pool: Pool, sums: Tensor, mass: Tensor) -> Tensor:
    """Return log mean_i Σ_j (d_ij / Σ_k d_ik) exp s_ij over the anchors i with Σ_k d_ik > 0.

    Inputs are `sums`, log Σ_j d_ij exp s_ij, and `mass`, Σ_k d_ik, of all anchors. Without any such
    anchor the value is 0. Here d_ij are the repulsion weights; without a second kernel, d_ij / Σ_k
    d_ik is (‖w‖∞ − w_ij) / (M (‖w‖∞ − Ẑ_i)) in the formula of `ConditionalUniformity`.
    """
    return pool.log_mean_exp(sums - mass.clamp_min(torch.finfo(mass.dtype).tiny).log(), mass)


class ConditionalAlignmentUniformity(ConditionalUniformity):
    """Conditional alignment and uniformity: similar scans attract, only dissimilar scans repel.

    −mean_i Σ_{j≠i} (w_ij / Σ_k w_ik) s_ij + λ log [ 1/(2n·M) Σ_i Σ_{j≠i} ( (‖w‖∞ − w_ij) / (‖w‖∞ −
    Ẑ_i) ) exp s_ij ] (Dufumier et al. 2021, eq. 4). Here i and j are two of the 2n embeddings of n
    scans in two views, M = 2n − 1 is the number of other embeddings, s_ij = <z_i, z_j>/τ their
    similarity, Ẑ_i = (1/M) Σ_{j≠i} w_ij the mean weight of an embedding, and ‖w‖∞ the largest
    weight of the kernel. Unlike `YAwareInfoNCE`, the loss never pushes scans of equal metadata
    apart. Choose the loss when metadata should organise the representation and a batch has many
    similar scans.

    If ``kernel`` has the factor `Different` on the site, all pairs of one site repel with full
    weight, even pairs of similar age. To attract by one kernel and repel by another, add
    `ConditionalAlignment` and `ConditionalUniformity` in a `SumOfObjectives`.

    Parameters
    ----------
    kernel : Kernel
        Kernel w ≥ 0 between scans, such as ``Gaussian("age", sigma=5.0) * Categorical("sex")``.
    temperature : float, default 0.1
        Temperature τ of both parts.
    uniformity_weight : float, default 1.0
        Weight λ ≥ 0 of the uniformity. With a larger λ embeddings spread out more; with too small a
        λ embeddings collapse.
    negatives : Kernel, optional
        Kernel v ≥ 0 between scans, such as ``Categorical("site")``; see `ConditionalUniformity`. By
        default all dissimilar scans repel.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.kernels import Gaussian
    >>> loss = ConditionalAlignmentUniformity(Gaussian("age", sigma=5.0), temperature=1.0)
    >>> loss(torch.eye(2), torch.eye(2), {"age": torch.tensor([20.0, 60.0])})
    tensor(-1.)
    """

    title = "conditional alignment + uniformity"

    @checked
    def __init__(
        self,
        kernel: KernelLike,
        *,
        temperature: Temperature = 0.1,
        uniformity_weight: NonNegative = 1.0,
        negatives: KernelLike | None = None,
    ) -> None:
        super().__init__(kernel, temperature=temperature, negatives=negatives)
        self.uniformity_weight = uniformity_weight

    def parts(self, pool: Pool) -> dict[str, Tensor]:
        def of_anchors(pairs: Pairs) -> tuple[Tensor, ...]:
            w = pairs.weights(self.kernel)
            d = self.differences(pairs)
            return *pairs.mean_and_log_sum_exp(w, d), pairs.mass(d), pairs.mass(w)

        similarity, sums, mass, positives = pool.each_anchor(of_anchors)
        uniformity = _uniformity(pool, sums, mass)
        if self.uniformity_weight != 1:
            uniformity = self.uniformity_weight * uniformity
        return {"alignment": -pool.mean(similarity, positives), "uniformity": uniformity}
