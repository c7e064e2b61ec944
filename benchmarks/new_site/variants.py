"""The variants of the recipe that `new_site.py` compares: a shipped configuration, and what is changed in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

__all__ = ["CONFIGS", "VARIANTS", "Variant"]

CONFIGS = Path(__file__).resolve().parents[2] / "configs" / "brain"
DEFAULT = yaml.safe_load((CONFIGS / "yaware.yaml").read_text())
BRAIN: dict[str, Any] = {f"data.{key}": DEFAULT["data"][key] for key in ("normalise", "erode_mm")}
VIEWS: dict[str, Any] = {f"augment.{name}": chosen for name, chosen in DEFAULT["augment"].items()}
"""The two halves of the default recipe, each by itself: what is done to scans, and the views."""

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
    "across": Variant(
        "y-Aware across sites, batches of all sites, eroded brain, views",
        "yaware_across_sites",
        ALL,
    ),
    "across-no-head": Variant("… and no head", "yaware_across_sites", {**ALL, **FEATURES}),
    "fair-no-head": Variant(
        "conditional A+U + fair CCL-K, no head", "conditional_fair", {**ALL, **FEATURES}
    ),
    "no-head": Variant("y-Aware, no head, eroded brain, views", settings={**ALL, **FEATURES}),
}
