"""Where in the brain a frozen encoder and its probe look: maps of what a scan's score depends on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from neurocontrast.lazy import lazy_exports
from neurocontrast.settings import Settings

if TYPE_CHECKING:
    from neurocontrast.explanation.maps import LinearScore, explain_scans

__all__ = ["ExplanationSettings", "LinearScore", "explain_scans"]

# Loaded when asked for: reading a configuration needs the settings alone, and no torch.
__getattr__ = lazy_exports(__name__, {"maps": ["LinearScore", "explain_scans"]})


class ExplanationSettings(Settings):
    """Settings of the maps of what a score depends on: patch after patch of a scan is replaced."""

    n_subjects: int = Field(20, ge=2)
    """Subjects to average over, at most: as many of each class, or spread over the predicted number. Of regional
    measures all, unless it is given."""
    positive: str | None = None
    """Of several classes, the one that is explained; of two, the evaluation's."""
    patch_mm: float = Field(20.0, gt=0, le=100)
    """Side of the cubes that are replaced. A regional measure is replaced by its mean: this, `fill` and `smooth_mm` are
    refused there."""
    fill: Literal["mean", "background"] = "mean"
    """What replaces a cube: the mean of the scan's own brain, or its background."""
    smooth_mm: float = Field(8.0, ge=0, le=50)
    """Full width at half maximum of the Gaussian that the average maps are smoothed with; 0 for none."""
    batch_size: int = Field(16, ge=1)
    """Volumes that pass the encoder together; the maps do not depend on it."""
    accelerator: Literal["auto", "cpu", "cuda"] = "auto"
    """``auto`` takes a GPU where there is one."""
    seed: int = Field(0, ge=0)
    """Seed of the choice of subjects."""
