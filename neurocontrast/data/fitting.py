"""Landmarks of intensity, the part of preprocessing that is fitted on a cohort."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from neurocontrast.data.parallel import N_SCANS_A_WORKER, map_files
from neurocontrast.data.problems import Problems
from neurocontrast.exceptions import DataError
from neurocontrast.files import ScanFiles, as_scan
from neurocontrast.progress import SILENT, Progress
from neurocontrast.transforms.compose import boxing
from neurocontrast.transforms.images import apply, name_of, voxels_of
from neurocontrast.transforms.intensity import find_landmarks, standard_landmarks
from neurocontrast.transforms.preprocessing import Preprocessing


def fit_preprocessing(
    preprocessing: Preprocessing,
    scans: Sequence[ScanFiles | os.PathLike[str]],
    *,
    others: Sequence[ScanFiles | os.PathLike[str]] = (),
    n_workers: int = 0,
    progress: Progress = SILENT,
) -> Preprocessing:
    """Return a preprocessing with the landmarks fitted that ``normalise="histogram"`` asks for.

    The same scans give the same bits, in any order and with any number of workers. A DataError names all scans that
    cannot be used.

    Parameters
    ----------
    preprocessing : Preprocessing
        Settings. Where nothing is lacking no scan is read.
    scans : sequence of path
        Scans to fit on; of several channels a tuple of paths each.
    others : sequence of path
        Scans that are read though not fitted on, so that all bad scans are refused at once.
    n_workers : int
        Processes that read.
    progress : Progress
        Receives progress messages.
    """
    if preprocessing.is_fitted:
        return preprocessing
    names = [as_scan(scan) for scan in scans]
    if not names:
        raise DataError("a preprocessing is fitted on at least one scan, and there is none.")
    found, problems = {}, Problems("scans")
    arguments = [(scan, preprocessing) for scan in dict.fromkeys([*names, *map(as_scan, others)])]
    with progress.task("Fitting the landmarks of intensity", len(arguments), "scan") as task:
        for scan, problem, landmarks in map_files(
            _landmarks_or_why_not, arguments, n_workers=n_workers, n_per_worker=N_SCANS_A_WORKER
        ):
            if problem:
                problems.add(problem)
            found[scan] = landmarks
            task.advance()
    problems.raise_if_any()
    return preprocessing.model_copy(update={"landmarks": standard_landmarks([found[name] for name in names])})


def landmarks_of(image: Any, preprocessing: Preprocessing) -> npt.NDArray[np.float64]:
    """Return the landmarks of one scan; a DataError names a scan that has none.

    `image` is the path of the scan (a tuple of those of its channels), or what `neurocontrast.transforms.LoadScand`
    made of it, (C, D, H, W).
    """
    is_path = isinstance(image, str | os.PathLike | tuple)
    item = apply(boxing(preprocessing), {"image": image}, start=0 if is_path else 1)
    inside = voxels_of(item["image_brain"])[0] != 0
    found = find_landmarks(voxels_of(item["image"])[0][inside], preprocessing.percentiles)
    if found is None:
        name, (low, high) = name_of(item["image"]), preprocessing.percentiles
        raise DataError(f"{name}: percentiles {low:g} and {high:g} of its brain are the same; it has no histogram.")
    return found


def _landmarks_or_why_not(scan: ScanFiles, preprocessing: Preprocessing) -> tuple[ScanFiles, str, Any]:
    try:
        return scan, "", landmarks_of(scan, preprocessing)
    except DataError as error:
        return scan, str(error), None
