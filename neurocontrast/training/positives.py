"""How many anchors have someone of another site to be alike to, in the batches that a run will have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from neurocontrast.kernels import Kernel
from neurocontrast.training.sampling import Sampler

__all__ = ["CrossSitePositives", "count_cross_site_positives"]

_ALIKE = 0.5
_EPOCHS_COUNTED = 3
_MOST_SITES_NAMED = 5


@dataclass(frozen=True)
class CrossSitePositives:
    """Anchors with a scan of another site in their batch that is alike, in the first epochs of a run.

    Parameters
    ----------
    weight_above : float
        From which weight of an objective's kernel, as a part of the largest it can have, two scans are alike here.
    n_epochs, n_anchors : int
        Epochs and scans that were counted; a scan counts as often as it is drawn.
    share : float
        Of the anchors that have one.
    sites : list of dict
        Of each ``site``: ``n_scans`` for training, ``draws_per_epoch`` of all of them, and its anchors' ``share``.
    """

    weight_above: float
    n_epochs: int
    n_anchors: int
    share: float
    sites: list[dict[str, Any]]

    def record(self) -> dict[str, Any]:
        """Return it as plain values."""
        return asdict(self)

    def sentence(self) -> str:
        """Say it in a line or two."""
        shown = sorted(self.sites, key=lambda each: float(each["share"]))
        left_out = f"; {len(shown) - _MOST_SITES_NAMED} more sites lie above" if len(shown) > _MOST_SITES_NAMED else ""
        named = "; ".join(
            f"{each['site']} {each['share']:.0%}, each of its {each['n_scans']} scans drawn "
            f"{each['draws_per_epoch'] / each['n_scans']:.2g} times an epoch"
            for each in shown[:_MOST_SITES_NAMED]
        )
        return (
            f"{self.share:.0%} of the scans of a batch have a scan of another site in it that is alike (a weight above "
            f"{self.weight_above:g} of the objective's kernel): {named}{left_out}."
        )


def count_cross_site_positives(
    sampler: Sampler, kernels: Sequence[Kernel], metadata: Mapping[str, torch.Tensor], sites: np.ndarray
) -> CrossSitePositives | None:
    """Count them in the batches of the first three epochs; None without a kernel that attracts, or a second site.

    Parameters
    ----------
    sampler : Sampler
        The run's.
    kernels : sequence of Kernel
        What attracts, fitted; two scans are alike where any of them says so.
    metadata : mapping of str to Tensor
        The columns of the kernels, one row a scan.
    sites : ndarray
        Of each scan: text, None where it is not known. Such a scan is nobody's of another site.
    """
    n_scans = Counter(sites[list(sampler.rows)])
    n_scans.pop(None, 0)
    if not kernels or len(n_scans) < 2:
        return None
    drawn: Counter[str] = Counter()
    found: Counter[str] = Counter()
    for epoch in range(_EPOCHS_COUNTED):
        for batch in sampler.batches(epoch):
            here = sites[batch]
            known = here != None  # noqa: E711 - element by element
            apart = (here[:, None] != here) & known[:, None] & known
            alike = _alike(kernels, {name: column[batch] for name, column in metadata.items()})
            drawn.update(here[known])
            found.update(here[(apart & alike).any(axis=1)])
    of_sites = [
        {
            "site": site,
            "n_scans": n_scans[site],
            "draws_per_epoch": drawn[site] / _EPOCHS_COUNTED,
            "share": found[site] / max(drawn[site], 1),
        }
        for site in sorted(n_scans)
    ]
    n_anchors = sum(drawn.values())
    return CrossSitePositives(_ALIKE, _EPOCHS_COUNTED, n_anchors, sum(found.values()) / n_anchors, of_sites)


def _alike(kernels: Sequence[Kernel], metadata: Mapping[str, torch.Tensor]) -> np.ndarray:
    alike = [kernel(metadata) > _ALIKE * kernel.supremum_over(metadata) for kernel in kernels]
    return torch.stack(alike).any(0).numpy()
