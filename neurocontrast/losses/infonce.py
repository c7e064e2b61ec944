"""InfoNCE across views, and NT-Xent over the pool of both views."""

from __future__ import annotations

import math
from itertools import combinations

from torch import Tensor
from torch.nn.functional import softplus

from neurocontrast.losses.core import Pool, log_sum_exp, log_sum_exp_both_ways
from neurocontrast.losses.objective import LossSettings, Objective
from neurocontrast.losses.tiles import LINEAR_FROM
from neurocontrast.settings import Positive

__all__ = ["InfoNCE", "NTXent"]


class InfoNCE(Objective):
    r"""InfoNCE (CLIP's loss): find the other view of a sample among the other views of all samples.

    L = mean_i [ −s(z1_i, z2_i) + log Σ_j exp s(z1_i, z2_j) ], s = <·, ·>/τ, averaged over both directions (van den Oord
    et al. 2018, eq. 4; Radford et al. 2021). Two encoders may make the two views: nothing within one view is compared.
    With more than two views, the mean over all pairs of views (Tian et al. 2020). The mutual information of the views
    is at least log n − L. Choose it when views come from different modalities or encoders; for two augmentations of one
    image `NTXent` uses each batch more fully.

    Parameters
    ----------
    temperature : float
        Temperature τ. Small: the hardest negatives decide. Large: all count alike.
    symmetric : bool
        Average both directions. False: only the earlier view looks for the later one.
    normalise : bool
        Divide embeddings by their norm, so that s is a cosine over τ. False: raw inner products, as a critic that can
        take any value, such as the logarithm of a density ratio, needs.

    Examples
    --------
    >>> import torch
    >>> loss = InfoNCE(temperature=0.1)
    >>> loss(torch.eye(2, 3), torch.ones(2, 3))
    tensor(0.6931)
    """

    title = "InfoNCE"
    citation = (
        "van den Oord A, Li Y, Vinyals O. Representation learning with contrastive predictive coding. "
        "arXiv:1807.03748, 2018."
    )
    n_views = (2, None)

    class Settings(LossSettings):
        temperature: Positive = 0.1
        symmetric: bool = True
        normalise: bool = True

    def parts(self, pool: Pool) -> dict[str, Tensor]:
        scale = self.scale
        pairs = list(combinations(range(pool.rows.shape[0]), 2))
        twins = [pool.alignment(scale, a, b) for a, b in pairs]
        sums = [pool.mean(log_sums) for a, b in pairs for log_sums in self._log_sums(pool, a, b, scale)]
        return {
            "alignment": sum(twins[1:], twins[0]) * (-1 / len(twins)),
            "uniformity": sum(sums[1:], sums[0]) * (1 / len(sums)),
        }

    def _log_sums(self, pool: Pool, a: int, b: int, scale: float) -> tuple[Tensor, ...]:
        if self.symmetric:
            return log_sum_exp_both_ways(pool.between(a, b), scale)
        return log_sum_exp(pool.between(a, b), scale, excluded=None)[:1]


class NTXent(Objective):
    r"""NT-Xent, the loss of SimCLR: find the twin among all 2n − 1 other embeddings of the batch.

    L = mean_i [ −s_{i,twin(i)} + log Σ_{j≠i} exp s_ij ] over the pool of 2n embeddings (Chen et al. 2020, eq. 1); with
    more views the mean over an anchor's other views takes the place of the twin. Pulls the views of a scan together and
    pushes all other scans away, whatever their metadata. Choose it as the baseline that knows nothing of the subjects.
    The mutual information of the views is at least log n − L.

    Parameters
    ----------
    temperature : float
        Temperature τ. Small: the hardest negatives decide. Large: all count alike.

    Examples
    --------
    >>> import torch
    >>> NTXent(temperature=0.5)(torch.eye(2, 3), torch.eye(2, 3))
    tensor(0.2395)
    """

    title = "NT-Xent (SimCLR)"
    citation = (
        "Chen T, Kornblith S, Norouzi M, Hinton G. A simple framework for contrastive learning of visual "
        "representations. ICML 2020."
    )
    n_views = (2, None)

    def value(self, pool: Pool) -> Tensor:
        scale = self.scale
        twins = pool.twins(scale)
        if len(pool.rows) > 2:
            return pool.mean(log_sum_exp(pool, scale)[0] - twins)
        # −s + log-sum-exp in one piece keeps its digits where the loss is close to 0.
        others, _ = log_sum_exp(pool, scale, excluded="sample")
        return pool.mean(softplus(others - twins, threshold=LINEAR_FROM))

    def parts(self, pool: Pool) -> dict[str, Tensor]:
        scale = self.scale
        log_candidates = math.log(pool.n_candidates)
        return {
            "alignment": -pool.mean(pool.twins(scale)),
            "uniformity": pool.mean(log_sum_exp(pool, scale)[0]) - log_candidates,
            "log_candidates": pool.rows.new_full((), log_candidates),
        }
