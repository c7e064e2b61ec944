"""What a user can say about explaining a prediction."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from neurocontrast.settings import Settings

__all__ = ["ExplanationSettings"]


class ExplanationSettings(Settings):
    """How it is found out where in the brain the encoder and the probe look.

    Parameters
    ----------
    method : {'occlusion', 'gradient'}
        ``occlusion`` replaces patch after patch and notes how the score changes; ``gradient`` is many times faster,
        and tells only of small changes.
    n_subjects : int
        Subjects to average over, at most: as many of each class, or spread over the predicted number.
    positive : str or None
        Of several classes, the one that is explained; of two, the evaluation's.
    patch_mm : float
        Side of the cubes that are replaced.
    fill : {'mean', 'background'}
        What they are replaced by: the mean of the scan's own brain, or its background.
    n_noisy : int
        Gradients a scan, each with noise added to it, that are averaged (SmoothGrad); 1 for none.
    noise : float
        Standard deviation of that noise, as a part of the voxels' own within the brain.
    smooth_mm : float
        Full width at half maximum of the Gaussian that the average maps are smoothed with; 0 for none.
    batch_size : int
        Volumes that pass the encoder together; the maps do not depend on it.
    accelerator : {'auto', 'cpu', 'cuda'}
        ``auto`` takes a GPU where there is one.
    devices : int
        Processes that share the subjects, as of `neurocontrast.embedding.EmbeddingSettings`.
    seed : int
        Of the choice of subjects and of the noise.
    """

    method: Literal["occlusion", "gradient"] = "occlusion"
    n_subjects: int = Field(20, ge=2)
    positive: str | None = None
    patch_mm: float = Field(20.0, gt=0, le=100)
    fill: Literal["mean", "background"] = "mean"
    n_noisy: int = Field(8, ge=1)
    noise: float = Field(0.1, ge=0, le=1)
    smooth_mm: float = Field(8.0, ge=0, le=50)
    batch_size: int = Field(16, ge=1)
    accelerator: Literal["auto", "cpu", "cuda"] = "auto"
    devices: int = Field(1, ge=1)
    seed: int = Field(0, ge=0)
