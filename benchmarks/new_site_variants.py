"""The variants of the recipe that `new_site.py` compares: a shipped configuration, and what is changed in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["VARIANTS", "Variant"]

BRAIN = {"data.normalise": "zscore-brain", "data.erode_mm": 6.0}
VIEWS: dict[str, Any] = {
    "augment.blur": None,
    "augment.noise": None,
    "augment.affine": {"translation_voxels": [-0.5, 0.5]},
    "augment.contrast": {},
    "augment.histogram": {},
    "augment.bias_field": {},
    "augment.sharpness": {},
    "augment.resolution": {"factor": [1.0, 1.7]},
    "augment.ghosting": {},
    "augment.rician": {"sigma": [0.005, 0.03]},
    "augment.tight_mask": {"depth_voxels": [0.3, 1.0], "variation_voxels": 0.3},
    "augment.mask_edge": {"depth_voxels": [-0.4, 0.4], "variation_voxels": 0.3},
}
"""The operations that imitate a site, those with lengths in voxels milder than by default: these voxels are of 5 mm."""

ALL: dict[str, Any] = {**BRAIN, **VIEWS}
FEATURES = {"encoder.projection": []}


@dataclass(frozen=True)
class Variant:
    """A configuration of ``configs/brain``, settings changed in it, and what stands in the table."""

    label: str
    recipe: str = "yaware_plain"
    settings: dict[str, Any] = field(default_factory=dict)
    features: str = "trained"
    """``trained``; ``untrained``: the initial weights; ``pca``: principal components of the input itself."""


VARIANTS = {
    "pca": Variant("PCA-60 of voxels", features="pca"),
    "pca-input": Variant("PCA-60 of voxels, eroded brain", features="pca", settings=BRAIN),
    "untrained-input": Variant("untrained, eroded brain", features="untrained", settings=BRAIN),
    "before": Variant("y-Aware, as the default was"),
    "input": Variant("y-Aware, eroded brain", settings=BRAIN),
    "views": Variant("y-Aware, views", settings=VIEWS),
    "input-views": Variant("**y-Aware, eroded brain, views: the default now**", settings=ALL),
    "conditional": Variant("conditional A+U, eroded brain, views", "conditional", ALL),
    "fair": Variant("… + fair CCL-K on the site, batches of all sites", "conditional_fair", ALL),
    "across": Variant("y-Aware across sites, batches of all sites, eroded brain, views", "yaware_across_sites", ALL),
    "across-no-head": Variant("… and no head", "yaware_across_sites", {**ALL, **FEATURES}),
    "fair-no-head": Variant("conditional A+U + fair CCL-K, no head", "conditional_fair", {**ALL, **FEATURES}),
    "no-head": Variant("y-Aware, no head, eroded brain, views", settings={**ALL, **FEATURES}),
}
