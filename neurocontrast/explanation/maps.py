"""What differences in score come from: parts of each scan, or measures, are replaced, and subjects compared."""

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
"""The score of a scan and the part of each block of features, (1 + n_blocks,)."""
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

    Attributes
    ----------
    blocks : dict of str to int
        Number of features of each block that the encoder names (``network``, ``components``);
        empty for features of one block.

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
        """Block of the features of an encoder that names none: linear components, or a network."""
        settings = getattr(self.encoder, "settings", None)
        if getattr(settings, "is_linear", False):
            return "components"
        return "network"

    def forward(self, volumes: torch.Tensor) -> torch.Tensor:
        """Return the score (n,) of each volume, in float64: occlusions change its last digits."""
        return self.contributions(volumes)[:, 0]

    def contributions(self, volumes: torch.Tensor) -> torch.Tensor:
        """Return the score of each volume, and the part of each block (n, 1 + n_blocks)."""
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
    """Read scans by the encoder of a score, which may be a member of a run.

    Attributes
    ----------
    score : LinearScore
        Encoder and probe.
    images : Images
        Preprocessed scans, as the encoder takes them.
    """

    score: LinearScore
    images: Images


@dataclass(frozen=True)
class ScanShares:
    """Maps of the shares of places in the differences in score between subjects.

    Attributes
    ----------
    share : array (D, H, W)
        Of the whole score.
    scores : list of float
        Score of each scan.
    by_block : dict of str to array (D, H, W)
        Share that comes by each block of features; the maps of all blocks add up to `share`. Empty
        for features of one block.
    block_shares : dict of str to float
        Share of each block in the differences in score; they add up to 1.
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
    """Map the places in the brain by their share of the differences in score between subjects.

    A map (D, H, W), smoothed, is the regression of the subjects' maps on their scores: which share
    of the differences in score between subjects comes with what is there. An average over subjects
    would show the edge of the brain first, at which a network looks in everybody. Of an encoder
    with several blocks of features each block has a map too: of its part of the score.

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
    """Map the places in the brain by their share of the differences in the mean score of members.

    The map of a subject is the mean of the members' maps, which add up to the mean score as those
    of one encoder do. See `explain_scans`.
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
            # The subjects of a lattice are compared with one another.
            away = _away_from_mean(np.array(scores))
            products = products + np.tensordot(away, np.stack(maps), axes=1)
            squares = squares + float(away @ away)
    if not squares > 0:
        raise DataError("all chosen scans have the same score: there is no difference to explain.")
    sigma = [settings.smooth_mm / FWHM_PER_SIGMA / step for step in spacing_mm]
    smoothed = ndimage.gaussian_filter(products / squares, [0, *sigma], mode="constant")
    share, *of_blocks = smoothed.astype(np.float32)
    of_subjects = np.stack(contributions)
    names = names_of_blocks(map(attrgetter("score"), members))
    return ScanShares(
        share=share,
        scores=of_subjects[:, 0].tolist(),
        by_block=dict(zip(names, of_blocks, strict=True)),
        block_shares=shares_of_blocks(names, of_subjects),
    )


def names_of_blocks(scores: Iterable[LinearScore]) -> list[str]:
    """Return the names of the blocks of any member; none where no member has several."""
    names = dict[str, int]()
    for score in scores:
        names |= score.blocks
    return list(names)


def align(
    values: npt.NDArray[np.floating], score: LinearScore, names: Sequence[str]
) -> npt.NDArray[np.floating]:
    """Put values (1 + n_blocks, …) of a score and its blocks in the order of all members' blocks.

    A member of one block has all its features in the block that they are of.
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


def _check_finite(number: int, carried: Map, whole: Contributions) -> None:
    """Refuse a scan whose score is not finite, whole or with a patch replaced."""
    if np.isfinite(whole).all() and np.isfinite(carried).all():
        return
    raise DataError(
        f"the score of scan {number + 1} of those chosen is not finite. Look at it with "
        "`neurocontrast check`."
    )


def _patch_size(patch_mm: float, spacing_mm: Sequence[float]) -> Size:
    """Return the sides of a patch in voxels; refuse a patch smaller than a voxel."""
    if patch_mm < max(spacing_mm):
        raise ConfigError(
            f"explanation.patch_mm: a patch of {patch_mm:g} mm is smaller than a voxel of "
            f"{max(spacing_mm):g} mm. Give a larger one."
        )
    first, second, third = (max(1, round(patch_mm / step)) for step in spacing_mm)
    return first, second, third


def _away_from_mean(scores: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the distance of each score from their mean; exactly 0 where all are the same."""
    if np.ptp(scores) > 0:
        return scores - scores.mean()
    return np.zeros_like(scores)


def shares_of_blocks(
    names: Sequence[str], contributions: npt.NDArray[np.float64]
) -> dict[str, float]:
    """Return the share of each block in the differences in score, of contributions (n, 1 + n_blocks)."""
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
    """Return the mean of the members' maps of a scan and of their contributions; see `occlude`."""
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
    """Return the maps of a scan and its contributions, as `occlude` does."""
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
) -> tuple[Map, Contributions]:
    """Map how much of a volume's score each patch carries (Zeiler & Fergus 2014).

    The maps (1 + n_blocks, D, H, W), of the score and of each block's part, have in each patch the
    contribution of the scan minus that with the patch set to `fill` (C, 1, 1, 1): positive where
    what is there speaks for a higher score. They are 0 outside all patches. The contributions of
    the whole scan (1 + n_blocks,) are returned too.
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
