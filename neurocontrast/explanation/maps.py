"""What differences in score come from: parts of each scan, or measures, are replaced, and subjects compared."""

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import groupby, product

import numpy as np
import numpy.typing as npt
import torch
from scipy import ndimage
from torch import nn

from neurocontrast.data.batches import Images
from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.explanation import ExplanationSettings
from neurocontrast.parallel.devices import usable_accelerator
from neurocontrast.progress import SILENT, Progress
from neurocontrast.transforms.images import corner_median
from neurocontrast.transforms.preprocessing import FWHM_PER_SIGMA

Map = npt.NDArray[np.float32]
Patch = tuple[slice, ...]
Size = tuple[int, int, int]

SUBJECTS_A_LATTICE = 4
"""Fewest successive subjects whose patches are in the same places and are compared with one another."""

FARTHEST_MM = 20.0
"""A place that is farther from every centre has the distance in its name."""
_MIDLINE_MM = 4.0
_BRAIN_LEVEL = 0.1
"""Part of the way from the background to the brightest voxels from which on a voxel is part of the head."""
_CONSTANT_MIN = 0.05
"""Voxels that share one value to the last digit from which on it is a constant background, not noise."""
_SHIFTS = (0.8191725133961645, 0.6710436067037893, 0.5497004779019703)
"""Powers of the inverse of 1.2207…, the root of x⁴ = x + 1: multiples of them fill a cube evenly."""


class LinearScore(nn.Module):
    """A frozen encoder with a linear probe on its features, as one differentiable function.

    Parameters
    ----------
    encoder : torch.nn.Module
        Maps volumes (n, C, D, H, W) to features (n, p); put in evaluation mode and frozen.
    weights : array (p,)
        Of the features as they are, not standardised.
    intercept : float
        Added to the weighted sum.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from neurocontrast.explanation import LinearScore
    >>> LinearScore(torch.nn.Flatten(), np.ones(8), 0.5)(torch.ones(1, 1, 2, 2, 2))
    tensor([8.5000], dtype=torch.float64)
    """

    weights: torch.Tensor

    def __init__(
        self, encoder: nn.Module, weights: npt.NDArray[np.float64], intercept: float
    ) -> None:
        super().__init__()
        self.encoder = encoder.eval().requires_grad_(False)
        self.register_buffer("weights", torch.as_tensor(weights, dtype=torch.float64))
        self.intercept = float(intercept)

    def forward(self, volumes: torch.Tensor) -> torch.Tensor:
        """Return the score (n,) of each volume, in float64: occlusions change its last digits."""
        return self.encoder(volumes).double() @ self.weights + self.intercept


def explain_scans(
    score: LinearScore,
    images: Images,
    rows: Sequence[int],
    *,
    settings: ExplanationSettings,
    spacing_mm: Sequence[float],
    progress: Progress = SILENT,
) -> tuple[Map, list[float]]:
    """Map what the differences between the scores of scans come from; return the map, and the scores.

    The map (D, H, W), smoothed, is the regression of the subjects' maps on their scores: which
    share of the differences in score between subjects comes with what is there. An average over
    subjects would show the edge of the brain first, at which a network looks in everybody.

    Parameters
    ----------
    score : LinearScore
        Encoder and probe.
    images : Images
        Preprocessed scans, all on one grid.
    rows : sequence of int
        The scans, one a subject, at least two; subjects who follow each other are compared, so let
        them differ.
    settings : ExplanationSettings
        How.
    spacing_mm : sequence of float
        Of the grid, along each axis.
    progress : Progress
        Shows every batch.
    """
    if settings.patch_mm < max(spacing_mm):
        raise ConfigError(
            f"explanation.patch_mm: a patch of {settings.patch_mm:g} mm is smaller than a voxel of "
            f"{max(spacing_mm):g} mm. Give a larger one."
        )
    first, second, third = (max(1, round(settings.patch_mm / step)) for step in spacing_mm)
    size = first, second, third
    score = score.to(usable_accelerator(settings.accelerator, section="explanation"))
    n_lattices = max(1, len(rows) // SUBJECTS_A_LATTICE)
    found = list[float]()
    products = np.zeros(())
    squares = 0.0
    with progress.task("Explaining", len(rows), "subjects") as task:
        for lattice, group in groupby(
            range(len(rows)), key=lambda number: number * n_lattices // len(rows)
        ):
            maps = []
            scores = []
            offset = offset_of(lattice, size)
            for number in group:
                own, whole = _explain(
                    score, torch.as_tensor(images[rows[number]]["image"]), settings, size, offset
                )
                if not (np.isfinite(whole) and np.isfinite(own).all()):
                    which = f"the score of scan {number + 1} of those chosen is not finite"
                    raise DataError(f"{which}. Look at it with `neurocontrast check`.")
                maps.append(own)
                scores.append(whole)
                task.advance(1, score=whole)
            found += scores
            # The subjects of a lattice are compared with one another.
            away = (
                np.array(scores) - np.mean(scores) if np.ptp(scores) > 0 else np.zeros(len(scores))
            )
            products = products + np.tensordot(away, np.stack(maps), axes=1)
            squares = squares + float(away @ away)
    if not squares > 0:
        raise DataError("all chosen scans have the same score: there is no difference to explain.")
    sigma = [settings.smooth_mm / FWHM_PER_SIGMA / step for step in spacing_mm]
    return ndimage.gaussian_filter(products / squares, sigma, mode="constant").astype(
        np.float32
    ), found


@torch.no_grad()
def explain_measures(
    score: LinearScore,
    values: npt.NDArray[np.float32],
    draws: Iterable[npt.NDArray[np.float64]],
    *,
    settings: ExplanationSettings,
    progress: Progress = SILENT,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], list[float]]:
    """Return the share of each measure in the differences in score, its 95 % interval (2, n_measures), and the scores.

    A measure carries what a score loses where it is set to the mean of the people learned from. As
    in the maps of `explain_scans`, the share is the regression of what it carries on the score; of
    a linear encoder they add up to 1. `values` are standardised measures (n, n_measures); `draws`
    are arrays (n_resamples, n), which say how often each subject is drawn in a resample.
    """
    score = score.to(usable_accelerator(settings.accelerator, section="explanation"))
    samples = torch.from_numpy(values).to(score.weights.device)[..., None]
    whole = score(samples).cpu().numpy()
    carried = np.empty(values.shape)
    with progress.task("Explaining", values.shape[1], "measures") as task:
        for place in range(values.shape[1]):
            without = samples.clone()
            without[:, place] = 0.0
            carried[:, place] = whole - score(without).cpu().numpy()
            task.advance()
    if not np.isfinite(carried).all() or not np.ptp(whole) > 0:
        raise DataError(
            "all chosen subjects have the same score, or one that is not finite: nothing can be explained."
        )

    def shares(weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        away = whole - (weights @ whole / weights.sum(axis=1))[:, None]
        squares = (weights * away**2).sum(axis=1, keepdims=True)
        return (weights * away) @ carried / np.where(squares > 0, squares, np.nan)

    drawn = np.vstack(list(map(shares, draws)))
    return (
        shares(np.ones((1, len(whole))))[0],
        np.nanpercentile(drawn, (2.5, 97.5), axis=0),
        whole.tolist(),
    )


def _explain(
    score: LinearScore,
    volume: torch.Tensor,
    settings: ExplanationSettings,
    size: Size,
    offset: Size,
) -> tuple[Map, float]:
    """Return the map of a scan, and its score."""
    backgrounds, brains = zip(*map(brain_of, volume.numpy()), strict=True)
    brain = np.logical_or.reduce(brains)
    fill = (
        volume[:, torch.from_numpy(brain)].mean(1)
        if settings.fill == "mean"
        else torch.tensor(backgrounds)
    )
    fill, there = (
        each.float().to(score.weights.device) for each in (fill.reshape(-1, 1, 1, 1), volume)
    )
    return occlude(
        score, there, patches_of(brain, size, offset), fill=fill, batch_size=settings.batch_size
    )


def offset_of(number: int, size: Size) -> Size:
    """Return where a lattice of patches begins; differing lattices tell places apart within a patch."""
    first, second, third = (
        int(number * shift % 1 * n) for shift, n in zip(_SHIFTS, size, strict=True)
    )
    return first, second, third


def patches_of(mask: npt.NDArray[np.bool_], size: Size, offset: Size) -> list[Patch]:
    """Return the patches of a lattice that hold any voxel of the mask; each voxel is in one at most."""
    axes = [
        [slice(max(0, start), min(n, start + side)) for start in range(-first, n, side)]
        for n, side, first in zip(mask.shape, size, offset, strict=True)
    ]
    return [patch for patch in product(*axes) if mask[patch].any()]


@torch.no_grad()
def occlude(
    score: LinearScore,
    volume: torch.Tensor,
    patches: list[Patch],
    *,
    fill: torch.Tensor,
    batch_size: int,
) -> tuple[Map, float]:
    """Return a map of how much of a volume's score each patch carries, and the score (Zeiler & Fergus 2014).

    The map has in each patch the score of the scan minus that with the patch set to `fill` (C, 1,
    1, 1): positive where what is there speaks for a higher score. It is 0 outside all patches.
    """
    whole = float(score(volume[None])[0])
    found = np.zeros(volume.shape[1:], dtype=np.float32)
    for start in range(0, len(patches), batch_size):
        some = patches[start : start + batch_size]
        occluded = volume.expand(len(some), *volume.shape).clone()
        for made, patch in zip(occluded, some, strict=True):
            made[(slice(None), *patch)] = fill
        for patch, without in zip(some, score(occluded).tolist(), strict=True):
            found[patch] = whole - without
    return found, whole


def brain_of(voxels: Map) -> tuple[float, npt.NDArray[np.bool_]]:
    """Return a preprocessed scan's background, and the voxels that are brain or head.

    Where the background is one constant, as around a skull-stripped brain, whatever differs from it
    is brain: normalised inside the brain, fluid is darker than the background's 0. Elsewhere what
    is brighter is.
    """
    background = corner_median(voxels)
    differs = voxels != background
    if _CONSTANT_MIN < 1 - differs.mean() < 1:
        return background, differs
    bright = float(np.percentile(voxels, 99))
    brain = voxels > background + _BRAIN_LEVEL * (bright - background)
    return background, brain if brain.any() else np.ones_like(brain)


def find_peaks(
    values: Map, *, distance: Sequence[int], n_most: int = 5
) -> list[tuple[int, int, int]]:
    """Return the voxels where a map's size is largest within `distance` of them, the largest first."""
    size = np.abs(values)
    window = [2 * max(1, n) + 1 for n in distance]
    top = (ndimage.maximum_filter(size, window, mode="constant") == size) & (size > 0)
    places = np.argwhere(top)
    order = np.argsort(-size[top], kind="stable")[:n_most]
    return [(int(x), int(y), int(z)) for x, y, z in places[order]]


def name_of_place(x: float, y: float, z: float) -> str:
    """Name a place in MNI space (mm): "right hippocampus", or "22 mm from left hippocampus" if none is nearer.

    The centres are those of Dosenbach et al. (2010) for cortex, deep grey matter and cerebellum,
    and those of Seitzman et al. (2020) for hippocampus and amygdala.
    """
    centres, names = _regions()
    distances = np.linalg.norm(centres - (x, y, z), axis=1)
    nearest = int(distances.argmin())
    away = f"{distances[nearest]:.0f} mm from " if distances[nearest] > FARTHEST_MM else ""
    side = "" if abs(x) < _MIDLINE_MM else "left " if x < 0 else "right "
    return f"{away}{side}{names[nearest]}"


@cache
def _regions() -> tuple[npt.NDArray[np.float64], Sequence[str]]:
    from nilearn import datasets  # takes seconds; nothing is downloaded

    cortex = datasets.fetch_coords_dosenbach_2010()
    deep = datasets.fetch_coords_seitzman_2018()
    missing = np.isin(deep.regions, ("hippocampus", "amygdala"))
    names = [str(label).rpartition(" ")[0] for label in cortex.labels] + [
        str(name) for name in deep.regions[missing]
    ]
    return np.vstack(
        [cortex.rois.to_numpy(dtype=float), deep.rois.to_numpy(dtype=float)[missing]]
    ), names
