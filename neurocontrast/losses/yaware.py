"""Losses with kernel-weighted positives: y-Aware InfoNCE, SupCon, and exponential y-Aware."""

from dataclasses import replace

import torch
from torch import Tensor

from neurocontrast.kernels import Categorical, Kernel
from neurocontrast.kernels.factors import KernelLike
from neurocontrast.losses.core import Pool
from neurocontrast.losses.objective import Objective, Temperature
from neurocontrast.losses.pairs import Pairs
from neurocontrast.losses.reductions import EMPTY
from neurocontrast.settings import Column, checked


class YAwareInfoNCE(Objective):
    """Y-Aware InfoNCE: scans attract in proportion to similarity of metadata, and all scans repel.

    mean_i Σ_{j≠i} (w_ij / Σ_k w_ik) ( −s_ij + log Σ_{k≠i} exp s_ik ) over the 2n embeddings of a
    batch (Dufumier et al. 2021), with s_ij = <z_i, z_j>/τ the similarity of two embeddings and w_ij
    the weight of their scans. The loss is `ConditionalAlignment` + `GlobalUniformity` + log M with
    M = 2n − 1. Each anchor's weights sum to 1 (rows, not columns, are normalised: a scan of a rare
    age counts as much as any other).

    With ``negatives``, a second kernel v, the sum in the logarithm is over candidates of the weight
    b_ij = max(v_ij/‖v‖∞, w_ij/‖w‖∞): mean_i Σ_{j≠i} (w_ij / Σ_k w_ik) ( −s_ij + log Σ_{k≠i} b_ik
    exp s_ik ). A scan is then contrasted only with scans of positive v, its negatives, and with its
    positives. With v the `Categorical` kernel on the site, the loss does not fall when sites are
    told apart, while scans of similar age attract across sites. With v = 1 everywhere the loss is
    y-Aware InfoNCE without ``negatives``; if only a scan's second view is a positive, the loss is
    `FairInfoNCE`.

    Choose the loss when metadata such as age should shape the representation. With a bandwidth near
    0 the loss is `NTXent`, with a categorical kernel `SupCon`. Scans of similar metadata repel too,
    a little; with `ConditionalAlignmentUniformity` they do not.

    Parameters
    ----------
    kernel : Kernel
        Kernel w ≥ 0 between scans, such as ``Gaussian("age", sigma=5.0) * Categorical("sex")``.
        Wider kernels pull more scans together and make the representation smoother in the metadata.
    temperature : float, default 0.1
        Temperature τ. With a small τ the hardest negatives decide, and alignment weighs more.
    negatives : Kernel, optional
        Kernel v ≥ 0 between scans, such as ``Categorical("site")``, the weight of one scan as a
        negative of another; by default all scans are negatives.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.kernels import Gaussian
    >>> loss = YAwareInfoNCE(Gaussian("age", sigma=5.0), temperature=1.0)
    >>> loss(torch.eye(2), torch.eye(2), {"age": torch.tensor([20.0, 60.0])})
    tensor(0.5514)
    """

    title = "y-Aware InfoNCE"
    citation = (
        "Dufumier B, Gori P, Victor J, et al. Contrastive learning with continuous proxy meta-data "
        "for 3D MRI classification. MICCAI 2021."
    )

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

    def value(self, pool: Pool) -> Tensor:
        def contrast(pairs: Pairs) -> tuple[Tensor, Tensor]:
            w = pairs.weights(self.kernel)
            if self.negatives is None:
                return pairs.contrast(w), pairs.mass(w)
            mean, sums = pairs.mean_and_log_sum_exp(w, self._candidates(pairs, w))
            return sums - mean, pairs.mass(w)

        values, mass = pool.each_anchor(contrast)
        if self.negatives is not None or pool.n_views == 1:  # an anchor may have no candidate
            values = values.masked_fill(values <= EMPTY / 2, 0)  # NaN stays
        return pool.mean(values, mass)

    def parts(self, pool: Pool) -> dict[str, Tensor]:
        def of_anchors(pairs: Pairs) -> tuple[Tensor, ...]:
            w = pairs.weights(self.kernel)
            b = torch.ones_like(w) if self.negatives is None else self._candidates(pairs, w)
            return *pairs.mean_and_log_sum_exp(w, b), pairs.mass(b), pairs.mass(w)

        similarity, sums, n_candidates, mass = pool.each_anchor(of_anchors)
        log_candidates = pool.mean(torch.where(n_candidates <= 0, 1, n_candidates).log(), mass)
        return {
            "alignment": -pool.mean(similarity, mass),
            "uniformity": pool.mean(torch.where(n_candidates <= 0, 0, sums), mass) - log_candidates,
            "log_candidates": log_candidates,
        }

    def _candidates(self, pairs: Pairs, w: Tensor) -> Tensor:
        """Return b = max(v/‖v‖∞, w/‖w‖∞), the weight of a scan as another's candidate, (n_i, n).

        `w` are the weights of `kernel`, and v the weights of `negatives`.
        """
        assert self.negatives is not None
        v = pairs.weights(self.negatives)
        return torch.maximum(
            v / pairs.pool.supremum(self.negatives), w / pairs.pool.supremum(self.kernel)
        )


class SupCon(YAwareInfoNCE):
    """SupCon (L_out): scans of one label attract, all scans repel.

    mean_i Σ_{p∈P_i} (1/n_i) [ −s_ip + log Σ_{j≠i} exp s_ij ], where s_ij = <z_i, z_j>/τ is the
    similarity of two embeddings, and P_i are the n_i other embeddings of the anchor's label, with
    the anchor's other view (Khosla et al. 2020, eq. 2, without the factor τ/0.07 of the released
    code). The loss is `YAwareInfoNCE` with a `Categorical` kernel. Scans of one label repel each
    other too, which they do not with `SINCERE`.

    Parameters
    ----------
    label : str
        A categorical metadata column, whose categories are the labels.
    temperature : float, default 0.1
        Temperature τ. With a small τ the hardest negatives decide.

    Examples
    --------
    >>> import torch
    >>> loss = SupCon("label", temperature=1.0)
    >>> loss(torch.eye(2), torch.eye(2), {"label": torch.tensor([0, 1])})
    tensor(0.5514)
    """

    title = "SupCon"
    citation = "Khosla P, Teterwak P, Wang C, et al. Supervised contrastive learning. NeurIPS 2020."

    @checked
    def __init__(self, label: Column, *, temperature: Temperature = 0.1) -> None:
        super().__init__(Categorical(label), temperature=temperature)
        self.label = label


class ExponentialYAware(Objective):
    """L^exp: scans attract by the similarity of metadata, and repel by the difference.

    mean_i Σ_{j≠i} (w_ij / Σ_k w_ik) ( −s_ij + log Σ_{k≠i} exp( s_ik (1 − w_ik/‖w‖∞) ) ) over the 2n
    embeddings of a batch (Barbano et al. 2023, the loss L^exp), with s_ij = <z_i, z_j>/τ the
    similarity of two embeddings and w_ij the weight of their scans. The loss is `YAwareInfoNCE`
    with each similarity in the logarithm multiplied by the difference 1 − w/‖w‖∞ of the two scans'
    metadata: scans of equal metadata do not repel at all. The sum over k keeps the positive j
    itself; some sources leave it out.

    Choose the loss over `YAwareInfoNCE` to predict a continuous variable such as age. The damped
    similarity of scans with equal metadata is 0 and not −∞, so that each such scan adds 1 to the
    sum and weakens the repulsion of other scans; `ConditionalAlignmentUniformity` leaves scans of
    equal metadata out of the sum.

    Parameters
    ----------
    kernel : Kernel
        Kernel w ≥ 0 between scans, such as ``Gaussian("age", sigma=5.0)``. Wider kernels pull more
        scans together and push fewer apart.
    temperature : float, default 0.1
        Temperature τ. With a small τ the hardest negatives decide, and alignment weighs more.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.kernels import Gaussian
    >>> loss = ExponentialYAware(Gaussian("age", sigma=5.0), temperature=1.0)
    >>> loss(torch.eye(2), torch.eye(2), {"age": torch.tensor([20.0, 60.0])})
    tensor(0.0986)
    """

    title = "exponential y-Aware (L^exp)"
    citation = (
        "Barbano CA, Dufumier B, Duchesnay E, Grangetto M, Gori P. Contrastive learning for "
        "regression in multi-site brain age prediction. ISBI 2023."
    )

    n_views = (1, None)
    kernel: Kernel

    @checked
    def __init__(self, kernel: KernelLike, *, temperature: Temperature = 0.1) -> None:
        super().__init__(kernel=kernel, temperature=temperature)

    def parts(self, pool: Pool) -> dict[str, Tensor]:
        def of_anchors(pairs: Pairs) -> tuple[Tensor, ...]:
            w = pairs.weights(self.kernel)
            damping = pairs.unlikeness(self.kernel) / pool.supremum(self.kernel)
            damped = replace(pairs, s=pairs.s * damping.unsqueeze(1))
            return pairs.mean(w), damped.log_sum_exp(), pairs.mass(w)

        similarity, sums, mass = pool.each_anchor(of_anchors)
        return {"alignment": -pool.mean(similarity, mass), "uniformity": pool.mean(sums, mass)}
