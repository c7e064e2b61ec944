"""Map brain regions behind differences in score between subjects, by occlusion of patches.

`monai.visualize.OcclusionSensitivity` (MONAI 1.6) does not fit this task. On a brain at 4 mm with
patches of 20 mm, MONAI makes 1200 forward passes, although only 465 patches contain brain. MONAI's
last patch along an axis overlaps the patch before, so that the contributions to a linear score add
up to 89,218 instead of 78,974. MONAI also fills all channels with one number, starts the lattice of
patches at the same corner for all subjects, and rounds scores to float32.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby, product
from operator import attrgetter

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
Contributions = npt.NDArray[np.float64]
"""Score of a scan, and the part of the score from each block of features, (1 + n_blocks,)."""
Patch = tuple[slice, ...]
Size = tuple[int, int, int]

SUBJECTS_A_LATTICE = 4
"""Smallest number of successive subjects explained with the same lattice of patches, before the
lattice is shifted."""

FARTHEST_MM = 20.0
"""Distance from a peak to the nearest region's centre, in mm, above which the peak's name contains
the distance."""
_MIDLINE_MM = 4.0
"""Distance from the midline, in mm, below which a peak is neither left nor right."""
_BRAIN_LEVEL = 0.1
"""Smallest brightness of a head voxel, on a scale from the background (0) to the 99th percentile
(1)."""
_CONSTANT_MIN = 0.05
"""Smallest share of voxels of one value at which the value counts as a constant background."""
_SHIFTS = (0.8191725133961645, 0.6710436067037893, 0.5497004779019703)
"""Shifts of a lattice of patches along each axis, as a share of a patch.

The numbers are powers of 1 / 1.2207…, the root of x⁴ = x + 1, whose multiples modulo 1 fill a cube
evenly.
"""


class LinearScore(nn.Module):
    """Score of a linear probe on a trained encoder's features, as one differentiable function.

    Parameters
    ----------
    encoder : torch.nn.Module
        Network from volumes (n, C, D, H, W) to features (n, p), put in evaluation mode and frozen.
    weights : array (p,)
        Probe's weight of each feature, for features that are not standardised.
    intercept : float
        Intercept of the probe, added to the weighted sum of features.

    Attributes
    ----------
    blocks : dict of str to int
        Number of features of each block, network and linear components; empty if there is one
        block.

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
        self.blocks: dict[str, int] = dict(getattr(encoder, "blocks", {}))

    @property
    def only_block(self) -> str:
        """Name of the group of all features, if `blocks` has none: ``components`` or ``network``.

        Features of a linear encoder are linear components of the samples, features of others are of
        a network.
        """
        settings = getattr(self.encoder, "settings", None)
        if getattr(settings, "is_linear", False):
            return "components"
        return "network"

    def forward(self, volumes: torch.Tensor) -> torch.Tensor:
        """Compute the probe's score of each of the n `volumes`; return the scores (n,) in float64.

        In float32, rounding would hide the small change of the score after one patch of a scan is
        replaced.
        """
        return self.contributions(volumes)[:, 0]

    def contributions(self, volumes: torch.Tensor) -> torch.Tensor:
        """Compute the score of each volume, and the part of the score from each block of features.

        Parameters
        ----------
        volumes : tensor (n, C, D, H, W)
            Preprocessed scans.

        Returns
        -------
        tensor (n, 1 + n_blocks)
            Score, followed by the part of each block, in float64; if there is one block, the score
            alone.
        """
        features = self.encoder(volumes).double()
        columns = [features @ self.weights + self.intercept]
        sizes = list(self.blocks.values())
        if sizes:
            of_blocks = zip(features.split(sizes, dim=1), self.weights.split(sizes), strict=True)
            for block, weights in of_blocks:
                columns.append(block @ weights)
        return torch.stack(columns, dim=1)


@dataclass(frozen=True, eq=False)
class ScoredScans:
    """Score of one encoder and its linear probe, with the scans that the encoder reads.

    The encoder may be a member of a run of several encoders.

    Attributes
    ----------
    score : LinearScore
        Encoder with a linear probe.
    images : Images
        Scans, preprocessed for the encoder.
    """

    score: LinearScore
    images: Images


@dataclass(frozen=True)
class ScanShares:
    """Maps of the share of each brain location in the differences in score between subjects.

    Attributes
    ----------
    share : array (D, H, W)
        For each voxel, the share of the patch that contains the voxel in the differences of the
        score, smoothed.
    scores : list of float
        Score of each scan.
    by_block : dict of str to array (D, H, W)
        Share by way of each block of features (network, linear components); the maps of all blocks
        add up to `share`. Empty if there is one block.
    block_shares : dict of str to float
        Share of each block in the differences in score; the shares add up to 1.
    """

    share: Map
    scores: list[float]
    by_block: dict[str, Map]
    block_shares: dict[str, float]


def explain_scans(
    score: LinearScore,
    images: Images,
    rows: Sequence[int],
    *,
    settings: ExplanationSettings,
    spacing_mm: Sequence[float],
    progress: Progress = SILENT,
) -> ScanShares:
    """Map the share of each brain location in the differences in score between subjects.

    The map is the voxelwise regression of the subjects' occlusion maps (Zeiler & Fergus 2014) on
    the scores, smoothed. An average of occlusion maps would mainly show the edge of the brain, on
    which a network's score depends in all people.

    Parameters
    ----------
    score : LinearScore
        Encoder with a linear probe.
    images : Images
        Preprocessed scans, all on one grid.
    rows : sequence of int
        Numbers of the scans, one for each subject, at least two. Successive subjects are compared
        with one another, so that subjects of different classes or values should alternate.
    settings : ExplanationSettings
        Size and fill value of patches, smoothing and batch size.
    spacing_mm : sequence of float
        Distance of voxels along each axis.
    progress : Progress
        Receives progress messages, one for each subject.

    Returns
    -------
    ScanShares
        Map for the score, and for each block of features if there are several.

    Raises
    ------
    ConfigError
        If a patch is smaller than a voxel.
    DataError
        If a score is not finite, or all scores are the same.
    """
    return explain_mean_of_scans(
        [ScoredScans(score, images)],
        rows,
        settings=settings,
        spacing_mm=spacing_mm,
        progress=progress,
    )


def explain_mean_of_scans(
    members: Sequence[ScoredScans],
    rows: Sequence[int],
    *,
    settings: ExplanationSettings,
    spacing_mm: Sequence[float],
    progress: Progress = SILENT,
) -> ScanShares:
    """Map the share of each brain location in differences of a run's score between subjects.

    The score of a subject is the mean of the scores by the encoders of the run, the `members`. A
    subject's occlusion map is the mean of the members' occlusion maps. Parameters, map and errors
    are as in `explain_scans`.
    """
    size = _patch_size(settings.patch_mm, spacing_mm)
    for member in members:
        member.score.to(usable_accelerator(settings.accelerator, section="explanation"))
    n_lattices = max(1, len(rows) // SUBJECTS_A_LATTICE)
    contributions = list[Contributions]()
    products = np.zeros(())
    squares = 0.0
    with progress.task("Explaining", len(rows), "subjects") as task:
        for lattice, group in groupby(
            range(len(rows)), key=lambda number: number * n_lattices // len(rows)
        ):
            maps = list[Map]()
            scores = list[float]()
            offset = offset_of(lattice, size)
            for number in group:
                carried, whole = _explain_mean(members, rows[number], settings, size, offset)
                _check_finite(number, carried, whole)
                maps.append(carried)
                scores.append(float(whole[0]))
                contributions.append(whole)
                task.advance(1, score=scores[-1])
            away = _away_from_mean(np.array(scores))
            products = products + np.tensordot(away, np.stack(maps), axes=1)
            squares = squares + float(away @ away)
    if not squares > 0:
        raise DataError("all chosen scans have the same score: there is no difference to explain.")
    share, *of_blocks = _smooth(products / squares, settings.smooth_mm, spacing_mm)
    of_subjects = np.stack(contributions)
    names = names_of_blocks(map(attrgetter("score"), members))
    return ScanShares(
        share=share,
        scores=of_subjects[:, 0].tolist(),
        by_block=dict(zip(names, of_blocks, strict=True)),
        block_shares=shares_of_blocks(names, of_subjects),
    )


def names_of_blocks(scores: Iterable[LinearScore]) -> list[str]:
    """Return the names of all blocks of features that any encoder of a run has, each name once.

    A block is the network's features or those of linear components. `scores` holds a `LinearScore`
    for each encoder, which names the encoder's blocks. The list is empty if each encoder has a
    single block.
    """
    names = dict[str, int]()
    for score in scores:
        names |= score.blocks
    return list(names)


def align(
    values: npt.NDArray[np.floating], score: LinearScore, names: Sequence[str]
) -> npt.NDArray[np.floating]:
    """Arrange an encoder's score and feature blocks in the order `names` of all blocks of a run.

    `values` have the shape (1 + n_blocks, …), the score first, and so has the result. If the
    encoder has a single block, its score is the part of this block; the part of a block that an
    encoder lacks is 0.
    """
    if list(score.blocks) == list(names):
        return values
    of_block = dict(zip(score.blocks, values[1:], strict=True))
    if not score.blocks:
        of_block[score.only_block] = values[0]
    aligned = [values[0]]
    for name in names:
        aligned.append(of_block.get(name, np.zeros_like(values[0])))
    return np.stack(aligned)


def _smooth(
    maps: npt.NDArray[np.float64], smooth_mm: float, spacing_mm: Sequence[float]
) -> npt.NDArray[np.float32]:
    """Smooth occlusion maps (n, D, H, W) by a Gaussian.

    `smooth_mm` is the full width at half maximum, and `spacing_mm` the distance of voxels along
    each axis.
    """
    sigma = [0.0]  # across maps
    for step in spacing_mm:
        sigma.append(smooth_mm / FWHM_PER_SIGMA / step)
    return ndimage.gaussian_filter(maps, sigma, mode="constant").astype(np.float32)


def _check_finite(number: int, carried: Map, whole: Contributions) -> None:
    """Refuse a scan if its score, or a score after replacing a patch of the scan, is not finite.

    `whole` has the score, and `carried` the scan's occlusion maps: the changes of the score after
    each replacement. `number` is the position of the scan among the chosen scans.
    """
    if np.isfinite(whole).all() and np.isfinite(carried).all():
        return
    raise DataError(
        f"the score of scan {number + 1} of those chosen is not finite. Look at it with "
        "`neurocontrast check`."
    )


def _patch_size(patch_mm: float, spacing_mm: Sequence[float]) -> Size:
    """Return the sides in voxels of a patch of `patch_mm`; refuse a patch smaller than a voxel.

    `spacing_mm` is the distance of voxels along each axis.
    """
    if patch_mm < max(spacing_mm):
        raise ConfigError(
            f"explanation.patch_mm: a patch of {patch_mm:g} mm is smaller than a voxel of "
            f"{max(spacing_mm):g} mm. Give a larger one."
        )
    depth, height, width = spacing_mm
    return (
        max(1, round(patch_mm / depth)),
        max(1, round(patch_mm / height)),
        max(1, round(patch_mm / width)),
    )


def _away_from_mean(scores: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return each score minus the mean score; exactly 0 if all scores are equal."""
    if np.ptp(scores) > 0:
        return scores - scores.mean()
    return np.zeros_like(scores)


def shares_of_blocks(
    names: Sequence[str], contributions: npt.NDArray[np.float64]
) -> dict[str, float]:
    """Return name of a block of features → share in the differences in score between scans.

    The share of a block is the slope of the regression, over scans, of the block's part of the
    score on the score; the shares of all blocks add up to 1.

    Parameters
    ----------
    names : sequence of str
        Names of the blocks.
    contributions : array (n, 1 + n_blocks)
        Score of each scan, and the part of the score from each block.
    """
    away = _away_from_mean(contributions[:, 0])
    shares = away @ contributions[:, 1:] / (away @ away)
    return dict(zip(names, shares.tolist(), strict=True))


def _explain_mean(
    members: Sequence[ScoredScans],
    row: int,
    settings: ExplanationSettings,
    size: Size,
    offset: Size,
) -> tuple[Map, Contributions]:
    """Return a scan's occlusion maps and contributions, as means over the encoders of a run.

    `row` is the number of the scan. Contributions are one array: the score, then the part of it
    from each block of features (network, linear components). Patches have sides of `size` voxels,
    and their lattice begins `offset` voxels before the volume's edge.
    """
    names = names_of_blocks(map(attrgetter("score"), members))
    maps = []
    contributions = []
    for member in members:
        volume = torch.as_tensor(member.images[row]["image"])
        carried, whole = _explain(member.score, volume, settings, size, offset)
        maps.append(align(carried, member.score, names))
        contributions.append(align(whole, member.score, names))
    return np.mean(maps, axis=0), np.mean(contributions, axis=0)


def _explain(
    score: LinearScore,
    volume: torch.Tensor,
    settings: ExplanationSettings,
    size: Size,
    offset: Size,
) -> tuple[Map, Contributions]:
    """Return a scan's occlusion maps and contributions, for one encoder.

    `volume` is the preprocessed scan. Contributions are one array: the score, then the part of it
    from each block of features (network, linear components). Patches have sides of `size` voxels,
    and their lattice begins `offset` voxels before the volume's edge.
    """
    backgrounds, brains = zip(*map(brain_of, volume.numpy()), strict=True)
    brain = np.logical_or.reduce(brains)
    fill = torch.tensor(backgrounds)
    if settings.fill == "mean":
        fill = volume[:, torch.from_numpy(brain)].mean(1)
    device = score.weights.device
    return occlude(
        score,
        volume.float().to(device),
        patches_of(brain, size, offset),
        fill=fill.reshape(-1, 1, 1, 1).float().to(device),
        batch_size=settings.batch_size,
    )


def offset_of(number: int, size: Size) -> Size:
    """Return how far before the volume's edge a lattice of patches begins, in voxels by axis.

    A lattice is a division of the volume into patches that do not overlap; `number` is the number
    of the lattice. `size` has the sides of a patch in voxels; the offset along an axis is at least
    0 and below the side. Lattices with different offsets locate differences within a patch.
    """
    depth, height, width = size
    return (
        int(number * _SHIFTS[0] % 1 * depth),
        int(number * _SHIFTS[1] % 1 * height),
        int(number * _SHIFTS[2] % 1 * width),
    )


def patches_of(mask: npt.NDArray[np.bool_], size: Size, offset: Size) -> list[Patch]:
    """Return the patches of a lattice that contain at least one voxel of the brain's mask.

    A lattice divides the volume into patches that do not overlap. Patches at the edges of the
    volume are smaller than `size`. The first patch begins `offset` voxels before the volume's edge.
    """
    axes = []
    for n, side, first in zip(mask.shape, size, offset, strict=True):
        intervals = []
        for start in range(-first, n, side):
            intervals.append(slice(max(0, start), min(n, start + side)))
        axes.append(intervals)
    return [patch for patch in product(*axes) if mask[patch].any()]


@torch.no_grad()
def occlude(
    score: LinearScore,
    volume: torch.Tensor,
    patches: list[Patch],
    *,
    fill: torch.Tensor,
    batch_size: int,
) -> tuple[Map, Contributions]:
    """Map the part of a volume's score that each patch contributes (Zeiler & Fergus 2014).

    Parameters
    ----------
    score : LinearScore
        Encoder with a linear probe.
    volume : tensor (C, D, H, W)
        Preprocessed scan.
    patches : list of tuple of slice
        Boxes of voxels to replace, one after another.
    fill : tensor (C, 1, 1, 1)
        Value for replaced voxels of each channel.
    batch_size : int
        Number of volumes that pass the encoder together.

    Returns
    -------
    maps : array (1 + n_blocks, D, H, W)
        For the score and the part of each block of features: the value of the whole scan minus the
        value after replacing the patch, positive where the patch raises the score; 0 outside all
        patches.
    contributions : array (1 + n_blocks,)
        Score of the whole scan, and the part of the score from each block.
    """
    whole = score.contributions(volume[None])[0].cpu().numpy()
    maps = np.zeros((len(whole), *volume.shape[1:]), dtype=np.float32)
    for start in range(0, len(patches), batch_size):
        batch = patches[start : start + batch_size]
        occluded = volume.expand(len(batch), *volume.shape).clone()
        for copy, patch in zip(occluded, batch, strict=True):
            copy[(slice(None), *patch)] = fill
        without = score.contributions(occluded).cpu().numpy()
        for patch, change in zip(batch, whole - without, strict=True):
            maps[(slice(None), *patch)] = change[:, None, None, None]
    return maps, whole


def brain_of(voxels: Map) -> tuple[float, npt.NDArray[np.bool_]]:
    """Return a preprocessed scan's background intensity, and the mask of brain or head.

    `voxels` is one channel of the scan. In a skull-stripped scan the background is one constant,
    and all voxels of another value are brain, because after normalisation within the brain fluid
    may be darker than the background. In other scans, voxels clearly brighter than the background
    are head.
    """
    background = corner_median(voxels)
    differs = voxels != background
    if _CONSTANT_MIN < 1 - differs.mean() < 1:
        return background, differs
    bright = float(np.percentile(voxels, 99))
    head = voxels > background + _BRAIN_LEVEL * (bright - background)
    if not head.any():
        head = np.ones_like(head)
    return background, head


def find_peaks(
    values: Map, *, distance: Sequence[int], n_most: int = 5
) -> list[tuple[int, int, int]]:
    """Return the voxels (x, y, z) at which a map is farther from 0 than around, largest first.

    No voxel within `distance` of such a peak has a larger absolute value.

    Parameters
    ----------
    values : array (D, H, W)
        Map with positive and negative values.
    distance : sequence of int
        Half width of the surroundings along each axis, in voxels.
    n_most : int
        Largest number of peaks to return.
    """
    size = np.abs(values)
    window = []
    for n in distance:
        window.append(2 * max(1, n) + 1)
    is_peak = (ndimage.maximum_filter(size, window, mode="constant") == size) & (size > 0)
    order = np.argsort(-size[is_peak], kind="stable")[:n_most]
    peaks = []
    for x, y, z in np.argwhere(is_peak)[order].tolist():
        peaks.append((x, y, z))
    return peaks


def name_of_place(x: float, y: float, z: float) -> str:
    """Name a point in MNI space by the nearest brain region, such as "right hippocampus".

    Far from all regions the name contains the distance: "22 mm from left hippocampus". The centres
    of regions are from Dosenbach et al. (2010) for cortex, deep grey matter and cerebellum, and
    from Seitzman et al. (2020) for hippocampus and amygdala.

    Parameters
    ----------
    x, y, z : float
        MNI coordinates in mm.
    """
    centres, names = _regions()
    distances = np.linalg.norm(centres - (x, y, z), axis=1)
    nearest = int(distances.argmin())
    name = f"{_side_of(x)}{names[nearest]}"
    if distances[nearest] > FARTHEST_MM:
        return f"{distances[nearest]:.0f} mm from {name}"
    return name


def _side_of(x: float) -> str:
    """Return "left " or "right " for an MNI coordinate x in mm, or "" near the midline."""
    if abs(x) < _MIDLINE_MM:
        return ""
    if x < 0:
        return "left "
    return "right "


@cache
def _regions() -> tuple[npt.NDArray[np.float64], Sequence[str]]:
    """Return the centres (n, 3) of brain regions in MNI space (mm), and the regions' names."""
    from nilearn import datasets  # takes seconds; nothing is downloaded

    cortex = datasets.fetch_coords_dosenbach_2010()
    deep = datasets.fetch_coords_seitzman_2018()
    is_missing = np.isin(deep.regions, ("hippocampus", "amygdala"))
    names = []
    for label in cortex.labels:
        names.append(str(label).rpartition(" ")[0])
    names += map(str, deep.regions[is_missing])
    of_cortex = cortex.rois.to_numpy(dtype=float)
    of_deep = deep.rois.to_numpy(dtype=float)[is_missing]
    return np.vstack([of_cortex, of_deep]), names
