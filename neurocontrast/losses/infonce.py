"""InfoNCE across two views, NT-Xent over all views, and variants with other negatives."""

import math
from dataclasses import replace
from itertools import permutations
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from neurocontrast.kernels import Categorical, Kernel
from neurocontrast.losses.core import Pool
from neurocontrast.losses.objective import Objective, Temperature
from neurocontrast.losses.pairs import Pairs
from neurocontrast.losses.reductions import softplus_of
from neurocontrast.settings import Column, NonNegative, checked

_Prior = Annotated[float, Field(ge=0, lt=1)]


class InfoNCE(Objective):
    r"""InfoNCE (CLIP's loss): find the other view of a sample among the other views of all samples.

    L = mean_i [ −s(z1_i, z2_i) + log Σ_j exp s(z1_i, z2_j) ], s = <·, ·>/τ, averaged over both
    directions (van den Oord et al. 2018, eq. 4; Radford et al. 2021). Two encoders may make the two
    views: nothing within one view is compared. With more than two views, the mean over all pairs of
    views (Tian et al. 2020). The mutual information of the views is at least log n − L, the `bound`
    in the metrics of training. Choose the loss when views come from different modalities or
    encoders; for two augmentations of one image, `NTXent` compares more pairs of each batch.

    Parameters
    ----------
    temperature : float, default 0.1
        Temperature τ. With a small τ the hardest negatives decide, with a large τ all negatives
        count alike.
    symmetric : bool, default True
        Whether to average both directions; with False, only the earlier view is compared with the
        later views.
    normalise : bool, default True
        Whether to divide embeddings by their norm, so that s is a cosine over τ. With False, s are
        raw inner products, which can take any value, as the logarithm of a density ratio does.

    Examples
    --------
    >>> import torch
    >>> loss = InfoNCE(temperature=0.1)
    >>> loss(torch.eye(2, 3), torch.ones(2, 3))
    tensor(0.6931)
    """

    title = "InfoNCE"
    citation = (
        "van den Oord A, Li Y, Vinyals O. Representation learning with contrastive predictive "
        "coding. arXiv:1807.03748, 2018."
    )
    n_views = (2, None)

    @checked
    def __init__(
        self, *, temperature: Temperature = 0.1, symmetric: bool = True, normalise: bool = True
    ) -> None:
        super().__init__(temperature=temperature)
        self.symmetric = symmetric
        self.normalise = normalise

    def value(self, pool: Pool) -> Tensor:
        (values,) = self.directions(pool).each_anchor(lambda pairs: (pairs.find_twin(),))
        return pool.mean(values)

    def directions(self, pool: Pool) -> Pool:
        """Return a `Pool` in which two views at a time are compared, one pair after another.

        A `Pool` holds embeddings of a batch, and `pool` has the embeddings of all views. The result
        has an entry for each ordered pair of different views: in the pair (first, second), each
        embedding of the first view is compared with all embeddings of the second. Two views make
        the pairs (0, 1) and (1, 0). If `symmetric` is False, only pairs whose second view is the
        later one are made.
        """
        directions = []
        for first, second in permutations(range(pool.n_views), 2):
            if self.symmetric or first < second:
                directions.append((first, second))
        return pool.between(directions)

    def parts(self, pool: Pool) -> dict[str, Tensor]:
        twins, sums = self.directions(pool).each_anchor(
            lambda pairs: (pairs.twins(), pairs.log_sum_exp())
        )
        pool.figures["bound"] = math.log(pool.n_samples) - pool.mean(sums - twins)
        return {"alignment": -pool.mean(twins), "uniformity": pool.mean(sums)}


class NTXent(Objective):
    r"""NT-Xent, SimCLR's loss: find a scan's second view among all 2n − 1 other embeddings.

    L = mean_i [ −s_{i,twin(i)} + log Σ_{j≠i} exp s_ij ] over the 2n embeddings of a batch, where
    s_ij = <z_i, z_j>/τ is the similarity of two embeddings, and twin(i) is the other view of
    embedding i's scan (Chen et al. 2020, eq. 1). With more than two views, the mean over an
    embedding's other views takes the place of the twin. The loss pulls the views of a scan together
    and pushes all other scans away, independent of metadata. Choose the loss as a baseline without
    metadata. The mutual information of the views is at least log n − L, the `bound` in the metrics
    of training.

    Parameters
    ----------
    temperature : float, default 0.1
        Temperature τ. With a small τ the hardest negatives decide, with a large τ all negatives
        count alike.

    Examples
    --------
    >>> import torch
    >>> NTXent(temperature=0.5)(torch.eye(2, 3), torch.eye(2, 3))
    tensor(0.2395)
    """

    title = "NT-Xent (SimCLR)"
    citation = (
        "Chen T, Kornblith S, Norouzi M, Hinton G. A simple framework for contrastive learning of "
        "visual representations. ICML 2020."
    )
    n_views = (2, None)

    @checked
    def __init__(self, *, temperature: Temperature = 0.1) -> None:
        super().__init__(temperature=temperature)

    def value(self, pool: Pool) -> Tensor:
        def contrast(pairs: Pairs) -> tuple[Tensor]:
            if pool.n_views > 2:
                return (pairs.log_sum_exp() - pairs.twins(),)
            return (pairs.find_twin(),)

        return pool.mean(pool.each_anchor(contrast)[0])

    def parts(self, pool: Pool) -> dict[str, Tensor]:
        twins, sums = pool.each_anchor(lambda pairs: (pairs.twins(), pairs.log_sum_exp()))
        log_candidates = math.log(pool.n_candidates)
        pool.figures["bound"] = math.log(pool.n_samples) - pool.mean(sums - twins)
        return {
            "alignment": -pool.mean(twins),
            "uniformity": pool.mean(sums - log_candidates),
            "log_candidates": pool.mean(torch.full_like(sums, log_candidates)),
        }


class DebiasedInfoNCE(Objective):
    """Debiased InfoNCE: NT-Xent corrected for negatives that belong to the anchor's unknown class.

    mean_i −log( e^{s⁺} / (e^{s⁺} + G_i) ), G_i = max{ (Σ_negatives e^{s_ij} − N τ⁺ e^{s⁺}) / (1 −
    τ⁺), N e^{−1/τ} }, s_ij = <z_i, z_j>/τ the similarity of two embeddings, s⁺ the similarity with
    the other view of the same scan, N = 2n − 2 negatives, the embeddings of all other scans (Chuang
    et al. 2020, with one positive). The loss is computed with logarithms, so that its value is
    finite for a small τ.

    Choose the loss without labels, if random negatives often share the anchor's unknown class.

    Parameters
    ----------
    temperature : float, default 0.5
        Temperature τ. The paper uses 0.5; with a small τ the correction mostly reaches its lower
        limit.
    positive_prior : float, default 0.1
        Prior τ⁺ in [0, 1), the probability that a random scan is of the anchor's class; with 0 the
        loss is `NTXent`.

    Examples
    --------
    >>> import torch
    >>> DebiasedInfoNCE()(torch.eye(2), torch.eye(2))
    tensor(0.0756)
    """

    title = "debiased InfoNCE"
    citation = (
        "Chuang C-Y, Robinson J, Lin Y-C, Torralba A, Jegelka S. Debiased contrastive learning. "
        "NeurIPS 2020."
    )

    @checked
    def __init__(self, *, temperature: Temperature = 0.5, positive_prior: _Prior = 0.1) -> None:
        super().__init__(temperature=temperature)
        self.positive_prior = positive_prior

    def parts(self, pool: Pool) -> dict[str, Tensor]:
        twins, negatives = pool.each_anchor(
            lambda pairs: (pairs.twins(), self.log_negatives(pairs))
        )
        if pool.n_samples == 1:
            return {"contrast": pool.mean(twins * 0)}
        log_n = math.log(pool.n_candidates - 1)
        # log G_i, with Σ − N τ⁺ e^{s⁺} = Σ (1 − e^excess).
        corrected = negatives
        if self.positive_prior > 0:
            excess = twins + (log_n + math.log(self.positive_prior)) - negatives
            kept = torch.log(-torch.expm1(torch.where(excess < 0, excess, -1.0)))
            corrected = negatives + kept - math.log1p(-self.positive_prior)
            corrected = torch.where(excess < 0, corrected, -torch.inf)
        corrected = corrected.clamp_min(log_n - 1 / self.tau)
        return {"contrast": pool.mean(softplus_of(corrected - twins))}

    def log_negatives(self, pairs: Pairs) -> Tensor:
        """Return log Σ_j e^{s_ij} over the negatives j of each anchor i, (2, n_i), uncorrected.

        Negatives are all views of other samples. `HardNegativeInfoNCE` weights the sum.
        """
        return pairs.log_sum_exp(without="sample")


class HardNegativeInfoNCE(DebiasedInfoNCE):
    """Hard-negative InfoNCE: `DebiasedInfoNCE` in which close negatives count more.

    In the formula of `DebiasedInfoNCE`, Σ_negatives e^{s_ij} is replaced by Σ b_ij e^{s_ij} /
    mean_j b_ij with b_ij = e^{β s_ij}; the importance weights b carry gradient, as in the released
    code (Robinson et al. 2021).

    Choose the loss without labels, if most negatives are easy and training stalls.

    Parameters
    ----------
    temperature : float, default 0.5
        Temperature τ.
    positive_prior : float, default 0.1
        Prior τ⁺ in [0, 1), see `DebiasedInfoNCE`.
    concentration : float, default 1.0
        Concentration β ≥ 0; with 0 the loss is `DebiasedInfoNCE`, with a large β only the hardest
        negatives count.

    Examples
    --------
    >>> import torch
    >>> HardNegativeInfoNCE()(torch.eye(2), torch.eye(2))
    tensor(0.0756)
    """

    title = "InfoNCE with hard negatives"
    citation = (
        "Robinson J, Chuang C-Y, Sra S, Jegelka S. Contrastive learning with hard negative "
        "samples. ICLR 2021."
    )

    @checked
    def __init__(
        self,
        *,
        temperature: Temperature = 0.5,
        positive_prior: _Prior = 0.1,
        concentration: NonNegative = 1.0,
    ) -> None:
        super().__init__(temperature=temperature, positive_prior=positive_prior)
        self.concentration = concentration

    def log_negatives(self, pairs: Pairs) -> Tensor:
        n_negatives = max(1, pairs.pool.n_candidates - 1)
        raised = replace(pairs, s=(1 + self.concentration) * pairs.s).log_sum_exp(without="sample")
        importance = replace(pairs, s=self.concentration * pairs.s).log_sum_exp(without="sample")
        return raised - importance + math.log(n_negatives)


class FairInfoNCE(Objective):
    """Fair-InfoNCE: NT-Xent with negatives of the anchor's cluster alone, to forget the cluster.

    mean_i [ −s_{i,twin(i)} + log Σ_{j≠i, c_j=c_i} exp s_ij ], where s_ij = <z_i, z_j>/τ is the
    similarity of two embeddings, twin(i) the other view of embedding i's scan and c_i the cluster.
    It is equation 4 of Tsai et al. 2022, after Ma et al. 2021 (arXiv:2106.02866, cited there as
    Tsai et al. 2021c). Here batches have several clusters; Tsai et al. 2022 draw each batch from
    one, which is `InfoNCE` with ``training.sampling: one-group``. Knowing the cluster does not help
    to tell scans of one cluster apart, so that embeddings forget the cluster: choose a sensitive or
    nuisance variable such as the site.

    Parameters
    ----------
    cluster : str
        A categorical metadata column, whose categories are the clusters.
    temperature : float, default 0.1
        Temperature τ. With a small τ the hardest negatives decide.

    Examples
    --------
    >>> import torch
    >>> loss = FairInfoNCE("site", temperature=1.0)
    >>> loss(torch.eye(2), torch.eye(2), {"site": torch.tensor([0, 0])})
    tensor(0.5514)
    """

    title = "fair InfoNCE"
    citation = (
        "Ma MQ, Tsai Y-HH, Liang PP, et al. Conditional contrastive learning for improving "
        "fairness in self-supervised learning. arXiv:2106.02866, 2021."
    )
    n_views = (2, None)
    kernel: Kernel

    @checked
    def __init__(self, cluster: Column, *, temperature: Temperature = 0.1) -> None:
        super().__init__(kernel=Categorical(cluster), temperature=temperature)
        self.cluster = cluster

    def value(self, pool: Pool) -> Tensor:
        if pool.n_views != 2:
            return super().value(pool)

        def contrast(pairs: Pairs) -> tuple[Tensor]:
            return (pairs.find_twin(pairs.weights(self.kernel)),)

        return pool.mean(pool.each_anchor(contrast)[0])

    def parts(self, pool: Pool) -> dict[str, Tensor]:
        def similarities(pairs: Pairs) -> tuple[Tensor, Tensor]:
            return pairs.twins(), pairs.log_sum_exp(pairs.weights(self.kernel))

        twins, sums = pool.each_anchor(similarities)
        return {"alignment": -pool.mean(twins), "uniformity": pool.mean(sums)}
