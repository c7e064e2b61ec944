"""How many scans of a batch have a scan of another site in it that the objective calls alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from neurocontrast.kernels import Kernel
from neurocontrast.training.sampling import Sampler

__all__ = ["count_cross_site_positives", "cross_site_sentence"]

_ALIKE = 0.5
"""Two scans are alike from this weight of a kernel on, as a part of the largest it can have."""
_EPOCHS_COUNTED = 3
_MOST_SITES_NAMED = 5


def count_cross_site_positives(
    sampler: Sampler, kernels: Sequence[Kernel], metadata: Mapping[str, torch.Tensor], sites: np.ndarray
) -> dict[str, Any] | None:
    """Count anchors with such a scan in the first three epochs; None without a kernel that attracts, or a second site.

    `kernels` are fitted, and `metadata` has their columns, one row a scan. A scan of unknown site (None) counts as of
    no other site. The result has the ``share`` of anchors, overall and by site, and how often a site's scans are drawn.
    """
    n_scans = Counter(sites[list(sampler.rows)])
    n_scans.pop(None, 0)
    if not kernels or len(n_scans) < 2:
        return None
    drawn: Counter[str] = Counter()
    found: Counter[str] = Counter()
    for epoch in range(_EPOCHS_COUNTED):
        for batch in sampler.batches(epoch):
            here, columns = sites[batch], {name: column[batch] for name, column in metadata.items()}
            known = here != None  # noqa: E711 - element by element
            apart = (here[:, None] != here) & known[:, None] & known
            weights = [kernel(columns) > _ALIKE * kernel.supremum_over(columns) for kernel in kernels]
            drawn.update(here[known])
            found.update(here[(apart & torch.stack(weights).any(0).numpy()).any(axis=1)])
    by_site = [
        {
            "site": site,
            "n_scans": n_scans[site],
            "draws_per_epoch": drawn[site] / _EPOCHS_COUNTED,
            "share": found[site] / max(drawn[site], 1),
        }
        for site in sorted(n_scans)
    ]
    n_anchors = sum(drawn.values())
    share = sum(found.values()) / n_anchors
    counted = {"weight_above": _ALIKE, "n_epochs": _EPOCHS_COUNTED, "n_anchors": n_anchors}
    return {**counted, "share": share, "sites": by_site}


def cross_site_sentence(found: Mapping[str, Any]) -> str:
    """Return what `count_cross_site_positives` found in a line or two."""
    shown = sorted(found["sites"], key=lambda each: float(each["share"]))
    left_out = f"; {len(shown) - _MOST_SITES_NAMED} more sites lie above" if len(shown) > _MOST_SITES_NAMED else ""
    named = "; ".join(
        f"{each['site']} {each['share']:.0%}, each of its {each['n_scans']} scans drawn "
        f"{each['draws_per_epoch'] / each['n_scans']:.2g} times an epoch"
        for each in shown[:_MOST_SITES_NAMED]
    )
    return (
        f"{found['share']:.0%} of the scans of a batch have a scan of another site in it that is alike (a weight above "
        f"{found['weight_above']:g} of the objective's kernel): {named}{left_out}."
    )
