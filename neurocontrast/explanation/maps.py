"""From scans to one map: a map a subject, averaged, smoothed, with its peaks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
import numpy.typing as npt
import torch
from scipy import ndimage

from neurocontrast.collectives import Processes
from neurocontrast.data.batches import Images
from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.explanation.gradient import differentiate
from neurocontrast.explanation.occlusion import occlude, offset_of, patches_of
from neurocontrast.explanation.score import LinearScore
from neurocontrast.explanation.settings import ExplanationSettings
from neurocontrast.machine import usable_accelerator
from neurocontrast.progress import SILENT, Progress, Task
from neurocontrast.seeds import derive_seed

__all__ = ["SUBJECTS_A_LATTICE", "AverageMaps", "SubjectMap", "brain_of", "explain_scans", "find_peaks", "smooth"]

Map = npt.NDArray[np.float32]

SUBJECTS_A_LATTICE = 4
"""At least so many subjects in a row have their patches in the same places, and are compared with one another."""

_BRAIN_LEVEL = 0.1
"""Part of the way from the background to the brightest voxels from which on a voxel is part of the head."""
_CONSTANT_MIN = 0.05
"""A background that so many voxels have to the last digit is no noise."""
_FWHM_PER_SIGMA = 2.3548200450309493


@dataclass(frozen=True)
class SubjectMap:
    """One subject's part of the average.

    Parameters
    ----------
    score : float
        Of the scan as it is.
    largest : float
        The map's value of largest size.
    place : tuple of int
        The voxel where it is.
    mean_absolute : float
        Over the voxels of the brain.
    """

    score: float
    largest: float
    place: tuple[int, int, int]
    mean_absolute: float


@dataclass(eq=False)
class AverageMaps:
    """Maps of all subjects together, smoothed.

    Parameters
    ----------
    share : ndarray (D, H, W)
        Which part of the differences in score between subjects comes with what is there: the regression of the
        subjects' maps on their scores.
    signed, absolute : ndarray (D, H, W)
        Averages over subjects: what is there speaks for a higher score (or against it), and how much it matters.
    subjects : list of SubjectMap
        In the order of the scans.
    """

    share: Map
    signed: Map
    absolute: Map
    subjects: list[SubjectMap] = field(default_factory=list)


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

    A network looks at every brain's edge, whoever it is of; an average over subjects shows that
    first. What tells subjects apart is where their maps go along with their scores.

    Memory holds `batch_size` volumes with what the encoder makes of them, and a few sums; one scan is read at a time.

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
        Told about every batch.
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
    with progress.task("Explaining", len(rows), "subjects") as task:
        sums, subjects = _add_up(score, images, rows, settings, size, task, processes or Processes())
    sigma = [settings.smooth_mm / _FWHM_PER_SIGMA / step for step in spacing_mm]
    share, signed, absolute = (smooth(found, sigma) for found in sums.finish())
    return AverageMaps(share, signed, absolute, subjects)


def _add_up(
    score: LinearScore,
    images: Images,
    rows: Sequence[int],
    settings: ExplanationSettings,
    size: tuple[int, int, int],
    task: Task,
    processes: Processes,
) -> tuple[_Sums, list[SubjectMap]]:
    sums, subjects = _Sums(), []
    explained = _explain_all(score, images, rows, settings, size, task, processes)
    for number, (signed, absolute, subject) in enumerate(explained):
        if not (np.isfinite(subject.score) and np.isfinite(signed).all()):
            raise DataError(
                f"the score of scan {number + 1} of those chosen is not finite. Look at it with `neurocontrast check`."
            )
        sums.add(signed, absolute, subject.score, _lattice_of(number, len(rows)))
        subjects.append(subject)
        task.advance(1, score=subject.score)
    return sums, subjects


def _lattice_of(number: int, n_subjects: int) -> int:
    return number * max(1, n_subjects // SUBJECTS_A_LATTICE) // n_subjects


def _explain_all(
    score: LinearScore,
    images: Images,
    rows: Sequence[int],
    settings: ExplanationSettings,
    size: tuple[int, int, int],
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
        seed, lattice = derive_seed("explanation", settings.seed, number), _lattice_of(number, len(rows))
        signed, absolute, subject = _explain(score, volume, settings, size, lattice=lattice, seed=seed, advance=advance)
        maps = processes.gather(np.stack([signed, absolute]))
        figures = processes.gather(np.array([subject.score, subject.largest, *subject.place, subject.mean_absolute]))
        for pair, (whole, largest, x, y, z, mean) in islice(zip(maps, figures, strict=True), len(rows) - start):
            yield *pair, SubjectMap(float(whole), float(largest), (int(x), int(y), int(z)), float(mean))


class _Sums:
    """Sums over subjects, and over those of each lattice, in double precision."""

    def __init__(self) -> None:
        self._n, self._signed, self._absolute = 0, np.zeros(()), np.zeros(())
        self._lattice = -1
        self._n_here, self._maps, self._scores = 0, np.zeros(()), 0.0
        self._products, self._squares = np.zeros(()), 0.0

    def add(self, signed: Map, absolute: Map, score: float, lattice: int) -> None:
        """Add a subject; those of a lattice come together."""
        if lattice != self._lattice:
            self._close()
            self._lattice = lattice
        self._n, self._n_here = self._n + 1, self._n_here + 1
        self._signed, self._absolute = self._signed + signed, self._absolute + absolute
        self._maps, self._scores = self._maps + signed, self._scores + score
        self._products, self._squares = self._products + signed * np.float64(score), self._squares + score**2

    def finish(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return the share of differences in score, and both averages."""
        self._close()
        if not self._squares > 0:
            raise DataError("all chosen scans have the same score: there is no difference to explain.")
        return self._products / self._squares, self._signed / self._n, self._absolute / self._n

    def _close(self) -> None:
        """Take the means of the lattice out of products and squares: its subjects are compared with one another."""
        if self._n_here:
            self._products = self._products - self._maps * (self._scores / self._n_here)
            self._squares -= self._scores**2 / self._n_here
        self._n_here, self._maps, self._scores = 0, np.zeros(()), 0.0


def _explain(
    score: LinearScore,
    volume: torch.Tensor,
    settings: ExplanationSettings,
    size: tuple[int, int, int],
    *,
    lattice: int,
    seed: int,
    advance: Callable[[int], None],
) -> tuple[Map, Map, SubjectMap]:
    voxels = volume[0].numpy()
    background, brain = brain_of(voxels)
    fill = float(voxels[brain].mean()) if settings.fill == "mean" else background
    there = volume.to(score.weights.device)  # type: ignore[arg-type]
    if settings.method == "occlusion":
        patches = patches_of(brain, size, offset_of(lattice, size))
        signed, whole = occlude(score, there, patches, fill=fill, batch_size=settings.batch_size, advance=advance)
        absolute = np.abs(signed)
    else:
        signed, absolute, whole = differentiate(
            score,
            there,
            fill=fill,
            noise_sd=settings.noise * float(voxels[brain].std()),
            n_noisy=settings.n_noisy,
            batch_size=settings.batch_size,
            seed=seed,
            advance=advance,
        )
    first, second, third = np.unravel_index(int(np.abs(signed).argmax()), signed.shape)
    place = (int(first), int(second), int(third))
    return signed, absolute, SubjectMap(whole, float(signed[place]), place, float(np.abs(signed)[brain].mean()))


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


def smooth(values: npt.NDArray[np.float64], sigma: Sequence[float]) -> Map:
    """Return a map under a Gaussian of the given standard deviations in voxels."""
    return ndimage.gaussian_filter(values, sigma, mode="constant").astype(np.float32)


def find_peaks(values: Map, *, distance: Sequence[int], n_most: int = 5) -> list[tuple[int, int, int]]:
    """Return the voxels where a map's size is largest within `distance` of them, the largest first."""
    size = np.abs(values)
    window = [2 * max(1, n) + 1 for n in distance]
    top = (ndimage.maximum_filter(size, window, mode="constant") == size) & (size > 0)
    places = np.argwhere(top)
    order = np.argsort(-size[top], kind="stable")[:n_most]
    return [(int(x), int(y), int(z)) for x, y, z in places[order]]


def _patch_size(patch_mm: float, spacing_mm: Sequence[float]) -> tuple[int, int, int]:
    if patch_mm < max(spacing_mm):
        raise ConfigError(
            f"explanation.patch_mm: a patch of {patch_mm:g} mm is smaller than a voxel of {max(spacing_mm):g} mm. "
            "Give a larger one."
        )
    first, second, third = (max(1, round(patch_mm / step)) for step in spacing_mm)
    return first, second, third
