"""From scans to one map: a map a subject, averaged, smoothed, with its peaks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice

import numpy as np
import numpy.typing as npt
import torch
from scipy import ndimage

from neurocontrast.collectives import Processes
from neurocontrast.data.batches import Images
from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.explanation.score import LinearScore, Map, Size, differentiate, occlude, offset_of, patches_of
from neurocontrast.explanation.settings import ExplanationSettings
from neurocontrast.machine import usable_accelerator
from neurocontrast.progress import SILENT, Progress, Task
from neurocontrast.seeds import derive_seed
from neurocontrast.transforms.normalising import FWHM_PER_SIGMA

__all__ = ["SUBJECTS_A_LATTICE", "AverageMaps", "SubjectMap", "brain_of", "explain_scans", "find_peaks"]

SUBJECTS_A_LATTICE = 4
"""At least so many subjects in a row have their patches in the same places, and are compared with one another."""

_BRAIN_LEVEL = 0.1
"""Part of the way from the background to the brightest voxels from which on a voxel is part of the head."""
_CONSTANT_MIN = 0.05
"""A background that so many voxels have to the last digit is no noise."""


@dataclass(frozen=True)
class SubjectMap:
    """One subject's part of the average: the score, and the map's largest value, its voxel, and the brain's mean."""

    score: float
    largest: float
    place: tuple[int, int, int]
    mean_absolute: float


@dataclass(frozen=True, eq=False)
class AverageMaps:
    """Maps (D, H, W) of all subjects together, smoothed.

    `share` is the regression of the subjects' maps on their scores: which part of the differences in score between
    subjects comes with what is there. `signed` and `absolute` are averages over subjects: what is there speaks for a
    higher score (or against), and how much it matters.
    """

    share: Map
    signed: Map
    absolute: Map
    subjects: list[SubjectMap]


def explain_scans(
    score: LinearScore,
    images: Images,
    rows: Sequence[int],
    *,
    settings: ExplanationSettings,
    spacing_mm: Sequence[float],
    progress: Progress = SILENT,
    device: torch.device | None = None,
    processes: Processes | None = None,
) -> AverageMaps:
    """Map what the scores of scans depend on, and what their differences come from.

    A network looks at every brain's edge, whoever it is of; an average over subjects shows that first. What tells
    subjects apart is where their maps go along with their scores.

    Parameters
    ----------
    score : LinearScore
        Encoder and probe.
    images : Images
        Preprocessed scans, all on one grid.
    rows : sequence of int
        The scans, one a subject, at least two; subjects who follow each other are compared, so let them differ.
    settings : ExplanationSettings
        How.
    spacing_mm : sequence of float
        Of the grid, along each axis.
    progress : Progress
        Shows every batch.
    device : torch.device, optional
        What to compute on; by default as `settings` say.
    processes : Processes, optional
        They share the scans; all get the maps of one process, bit for bit.

    Raises
    ------
    ConfigError
        Where the patch is smaller than a voxel, or a GPU is asked for and not there.
    DataError
        Where a score is not finite, or all are the same.
    """
    size = _patch_size(settings.patch_mm, spacing_mm)
    score = score.to(device or torch.device(usable_accelerator(settings.accelerator, section="explanation")))
    subjects: list[SubjectMap] = []
    products, signed, absolute, squares = np.zeros(()), np.zeros(()), np.zeros(()), 0.0
    with progress.task("Explaining", len(rows), "subjects") as task:
        explained = _explain_all(score, images, rows, settings, size, task, processes or Processes())
        for _, group in groupby(explained, key=lambda _: _lattice_of(len(subjects), len(rows))):
            maps, scores = [], []
            for own, own_absolute, subject in group:
                _check_finite(len(subjects) + 1, subject, own)
                maps.append(own)
                scores.append(subject.score)
                signed, absolute = signed + own, absolute + own_absolute
                subjects.append(subject)
                task.advance(1, score=subject.score)
            # The subjects of a lattice are compared with one another.
            away = np.array(scores) - np.mean(scores) if np.ptp(scores) > 0 else np.zeros(len(scores))
            products, squares = products + np.tensordot(away, np.stack(maps), axes=1), squares + float(away @ away)
    if not squares > 0:
        raise DataError("all chosen scans have the same score: there is no difference to explain.")
    sigma = [settings.smooth_mm / FWHM_PER_SIGMA / step for step in spacing_mm]
    averages = products / squares, signed / len(subjects), absolute / len(subjects)
    made = [ndimage.gaussian_filter(each, sigma, mode="constant").astype(np.float32) for each in averages]
    return AverageMaps(made[0], made[1], made[2], subjects)


def _check_finite(number: int, subject: SubjectMap, signed: Map) -> None:
    if not (np.isfinite(subject.score) and np.isfinite(signed).all()):
        raise DataError(
            f"the score of scan {number} of those chosen is not finite. Look at it with `neurocontrast check`."
        )


def _lattice_of(number: int, n_subjects: int) -> int:
    return number * max(1, n_subjects // SUBJECTS_A_LATTICE) // n_subjects


def _explain_all(
    score: LinearScore,
    images: Images,
    rows: Sequence[int],
    settings: ExplanationSettings,
    size: Size,
    task: Task,
    processes: Processes,
) -> Iterator[tuple[Map, Map, SubjectMap]]:
    """Yield every scan's maps, in order; each process makes those of every size-th scan."""
    n_passes = 0

    def advance(n: int) -> None:
        nonlocal n_passes
        n_passes += n
        task.advance(0, passes=f"{n_passes:,}")

    for start in range(0, len(rows), processes.size):
        number = min(start + processes.rank, len(rows) - 1)  # who has none left repeats the last, which is dropped
        volume = torch.as_tensor(images[rows[number]]["image"])
        seed, offset = derive_seed("explanation", settings.seed, number), _lattice_of(number, len(rows))
        patches = size, offset_of(offset, size)
        signed, absolute, figures = _explain(score, volume, settings, patches, seed=seed, advance=advance)
        maps, of_all = processes.gather(np.stack([signed, absolute])), processes.gather(figures)
        for pair, (whole, largest, x, y, z, mean) in islice(zip(maps, of_all, strict=True), len(rows) - start):
            yield *pair, SubjectMap(float(whole), float(largest), (int(x), int(y), int(z)), float(mean))


def _explain(
    score: LinearScore,
    volume: torch.Tensor,
    settings: ExplanationSettings,
    patches: tuple[Size, Size],
    *,
    seed: int,
    advance: Callable[[int], None],
) -> tuple[Map, Map, npt.NDArray[np.float64]]:
    """Return a scan's signed and absolute map, and the numbers of its `SubjectMap`."""
    of_channels = [brain_of(channel) for channel in volume.numpy()]
    brain = np.logical_or.reduce([brain for _, brain in of_channels])
    inside = volume[:, torch.from_numpy(brain)]
    backgrounds = torch.tensor([background for background, _ in of_channels])
    fill = _of_channels(inside.mean(1) if settings.fill == "mean" else backgrounds, score)
    there, batch_size = volume.to(score.weights.device), settings.batch_size
    if settings.method == "occlusion":
        boxes = patches_of(brain, *patches)
        signed, whole = occlude(score, there, boxes, fill=fill, batch_size=batch_size, advance=advance)
        absolute = np.abs(signed)
    else:
        noise_sd = _of_channels(settings.noise * inside.std(1, correction=0), score)
        options = {"n_noisy": settings.n_noisy, "batch_size": batch_size, "seed": seed}
        signed, absolute, whole = differentiate(score, there, fill=fill, noise_sd=noise_sd, advance=advance, **options)
    place = np.unravel_index(int(np.abs(signed).argmax()), signed.shape)
    return signed, absolute, np.array([whole, signed[place], *place, np.abs(signed)[brain].mean()])


def _of_channels(values: torch.Tensor, score: LinearScore) -> torch.Tensor:
    """Return one number a channel, as a volume (C, 1, 1, 1) on the device of the score."""
    return values.float().reshape(-1, 1, 1, 1).to(score.weights.device)


def brain_of(voxels: Map) -> tuple[float, npt.NDArray[np.bool_]]:
    """Return a preprocessed scan's background, and the voxels that are brain or head.

    Where the background is one constant, as around a skull-stripped brain, whatever differs from it is brain:
    normalised inside the brain, fluid is darker than the background's 0. Elsewhere what is brighter is.
    """
    background = float(np.median(voxels[tuple(slice(None, None, n - 1) for n in voxels.shape)]))
    differs = voxels != background
    if _CONSTANT_MIN < 1 - differs.mean() < 1:
        return background, differs
    bright = float(np.percentile(voxels, 99))
    brain = voxels > background + _BRAIN_LEVEL * (bright - background)
    return background, brain if brain.any() else np.ones_like(brain)


def find_peaks(values: Map, *, distance: Sequence[int], n_most: int = 5) -> list[tuple[int, int, int]]:
    """Return the voxels where a map's size is largest within `distance` of them, the largest first."""
    size = np.abs(values)
    window = [2 * max(1, n) + 1 for n in distance]
    top = (ndimage.maximum_filter(size, window, mode="constant") == size) & (size > 0)
    places = np.argwhere(top)
    order = np.argsort(-size[top], kind="stable")[:n_most]
    return [(int(x), int(y), int(z)) for x, y, z in places[order]]


def _patch_size(patch_mm: float, spacing_mm: Sequence[float]) -> Size:
    if patch_mm < max(spacing_mm):
        raise ConfigError(
            f"explanation.patch_mm: a patch of {patch_mm:g} mm is smaller than a voxel of {max(spacing_mm):g} mm. "
            "Give a larger one."
        )
    first, second, third = (max(1, round(patch_mm / step)) for step in spacing_mm)
    return first, second, third
