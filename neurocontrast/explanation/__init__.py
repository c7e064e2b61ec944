"""Explain a probe's score by places of the brain, or by regional measures."""

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
    """Settings of `explain`: patches of scans, or regional measures, are replaced one by one."""

    n_subjects: int = Field(20, ge=2)
    """Largest number of subjects: as many of each class, or spread over the predicted number.
    Regional measures are explained over all subjects unless a number is given."""
    positive: str | None = None
    """Class that is explained, of several classes; of two classes, the positive one of the
    evaluation."""
    patch_mm: float = Field(20.0, gt=0, le=100)
    """Side of the cubes that are replaced in scans. Regional measures are replaced by their means:
    `patch_mm`, `fill` and `smooth_mm` are refused there."""
    fill: Literal["mean", "background"] = "mean"
    """Value that replaces a cube: the mean of the scan's brain, or the scan's background."""
    smooth_mm: float = Field(8.0, ge=0, le=50)
    """Full width at half maximum of the Gaussian that smooths the maps; 0 for none."""
    batch_size: int = Field(16, ge=1)
    """Volumes that pass the encoder together; the maps do not depend on it."""
    accelerator: Literal["auto", "cpu", "cuda"] = "auto"
    """``auto`` takes a GPU where there is one."""
    seed: int = Field(0, ge=0)
    """Seed of the choice of subjects."""
