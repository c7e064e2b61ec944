"""Explain the score of a linear probe by brain regions, or by regional measures."""

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
    """Settings of `explain`, which replaces parts of a person's data one by one, to compare scores.

    A part is a patch of the scan, which is filled with `fill`, or one regional measure, which is
    set to its mean. The score is that of a linear probe.
    """

    n_subjects: int = Field(20, ge=2)
    """Largest number of subjects to explain: equally many of each class, or spread over the range
    of the predicted number. Regional measures are explained over all subjects unless a number is
    given."""
    positive: str | None = None
    """Class whose score is explained if there are several classes; by default the positive class of
    the evaluation if there are two."""
    patch_mm: float = Field(20.0, gt=0, le=100)
    """Side of the cubes of a scan that are replaced, in millimetres. Regional measures are replaced
    by their means: `patch_mm`, `fill` and `smooth_mm` are refused for measures."""
    fill: Literal["mean", "background"] = "mean"
    """Value that replaces a cube: the mean of the scan's brain, or the scan's background."""
    smooth_mm: float = Field(8.0, ge=0, le=50)
    """Full width at half maximum of the Gaussian that smooths the maps, in millimetres; 0 for
    none."""
    batch_size: int = Field(16, ge=1)
    """Number of volumes that pass the encoder together; maps do not depend on the number."""
    accelerator: Literal["auto", "cpu", "cuda"] = "auto"
    """Device. ``auto`` uses a GPU if there is one."""
    seed: int = Field(0, ge=0)
    """Seed of the random choice of subjects."""
