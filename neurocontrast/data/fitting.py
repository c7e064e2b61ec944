"""The parts of preprocessing that are fitted on a cohort: the shared brain, and landmarks of intensity."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.ndimage

from neurocontrast.data.parallel import N_SCANS_A_WORKER, map_files
from neurocontrast.data.problems import Problems
from neurocontrast.exceptions import DataError
from neurocontrast.files import ScanFiles, as_scan, files_of
from neurocontrast.progress import SILENT, Progress
from neurocontrast.transforms.brain import N_BRAIN_VOXELS_MIN
from neurocontrast.transforms.compose import apply, boxing
from neurocontrast.transforms.grids import preprocessed_grid
from neurocontrast.transforms.images import name_of, voxels_of
from neurocontrast.transforms.intensity import find_landmarks, standard_landmarks
from neurocontrast.transforms.preprocessing import Preprocessing, pack

SHARED_MIN = 0.5  # a common view with less than this part of the brains' mean volume: they are not registered
_MNI_BOX_CENTRE_MM = (0.0, -18.0, 18.0)  # of the usual boxes of MNI152, as which arrays (.npy) are taken


def fit_preprocessing(
    preprocessing: Preprocessing,
    scans: Sequence[ScanFiles | os.PathLike[str]],
    *,
    sites: Sequence[object] | None = None,
    others: Sequence[ScanFiles | os.PathLike[str]] = (),
    n_workers: int = 0,
    progress: Progress = SILENT,
) -> Preprocessing:
    """Return a preprocessing with everything fitted that its settings ask for.

    The same scans give the same bits, in any order and with any number of workers. A DataError names all scans that
    cannot be used, or sites that share too little.

    Parameters
    ----------
    preprocessing : Preprocessing
        Settings. What is fitted already stays; where nothing is lacking no scan is read.
    scans : sequence of path
        Scans to fit on; of several channels a tuple of paths each.
    sites : sequence, optional
        Site of each scan; ``common_view: cohort`` keeps what is brain at every one of them. Scans without
        a site (None, NaN) are a site together.
    others : sequence of path
        Scans that are read though not fitted on, so that all bad scans are refused at once.
    n_workers : int
        Processes that read.
    progress : Progress
        Receives progress messages.
    """
    names, rest = [as_scan(scan) for scan in scans], [as_scan(scan) for scan in others]
    if preprocessing.unfitted and not names:
        raise DataError("a preprocessing is fitted on at least one scan, and there is none.")
    if "view" in preprocessing.unfitted:
        if preprocessing.common_view == "template":
            view = template_on_grid(names, preprocessing)
        else:
            at = ["" if site is None or site != site else str(site) for site in sites or [""] * len(names)]
            view = _shared(preprocessing, at, _measure("view", preprocessing, names, rest, n_workers, progress))
        preprocessing = preprocessing.model_copy(update={"view": pack(view)})
    if "landmarks" in preprocessing.unfitted:
        found = _measure("landmarks", preprocessing, names, rest, n_workers, progress)
        preprocessing = preprocessing.model_copy(update={"landmarks": standard_landmarks(found)})
    return preprocessing


def fit_scan(image: Any, preprocessing: Preprocessing, what: str) -> Any:
    """Return what one scan adds to a fit: its "landmarks", or the bits of its brain for the "view".

    `image` is the path of the scan (a tuple of those of its channels), or what `neurocontrast.transforms.LoadScand`
    made of it, (C, D, H, W).
    """
    is_path = isinstance(image, str | os.PathLike | tuple)
    item = apply(boxing(preprocessing), {"image": image}, start=0 if is_path else 1)
    inside = voxels_of(item["image_brain"])[0] != 0
    if what == "view":
        return np.packbits(inside)
    found = find_landmarks(voxels_of(item["image"])[0][inside], preprocessing.percentiles)
    if found is None:
        name, (low, high) = name_of(item["image"]), preprocessing.percentiles
        raise DataError(f"{name}: percentiles {low:g} and {high:g} of its brain are the same; it has no histogram.")
    return found


def template_on_grid(scans: Sequence[ScanFiles], preprocessing: Preprocessing) -> npt.NDArray[np.bool_]:
    """Return the brain of the MNI152 template on the one grid that all scans lie on; headers alone are read."""
    from nilearn.datasets import load_mni152_brain_mask

    affines = _affines(scans, preprocessing)
    corners = np.array([[*corner, 1] for corner in np.ndindex(2, 2, 2)]) * [*np.array(preprocessing.shape) - 1, 1]
    places = np.einsum("nij,kj->nki", affines, corners)[..., :3]
    apart = np.linalg.norm(places - np.median(places, axis=0), axis=-1).max(axis=1)
    spacing = float(np.linalg.norm(affines[0][:3, 0]))
    problems = Problems("data.common_view: template needs scans on one grid")
    for scan, distance in zip(scans, apart, strict=True):
        if distance > spacing:
            problems.add(f"{files_of(scan)[0]}: its header puts it {distance:.0f} mm from where most scans lie")
    if problems.found:
        problems.hint("Register all scans to MNI152, or take data.common_view: none.")
    problems.raise_if_any()
    template = load_mni152_brain_mask(resolution=1)
    to_template = np.linalg.inv(template.affine) @ np.median(affines, axis=0)
    brain = np.asarray(template.dataobj, dtype=np.uint8)
    view: npt.NDArray[np.bool_] = (
        scipy.ndimage.affine_transform(brain, to_template, output_shape=preprocessing.shape, order=0) != 0
    )
    if np.count_nonzero(view) < N_BRAIN_VOXELS_MIN:
        raise DataError(
            "data.common_view: the scans' headers put them where the MNI152 template has no brain "
            f"({np.count_nonzero(view)} voxels in the box). Register them to MNI152, or take data.common_view: none."
        )
    return view


def _affines(scans: Sequence[ScanFiles], preprocessing: Preprocessing) -> npt.NDArray[np.float64]:
    """Return the affine of each scan's box."""
    affines, problems = [], Problems("scans")
    for scan in scans:
        try:
            affine = preprocessed_grid(scan, preprocessing).affine
        except DataError as error:
            problems.add(str(error))
            continue
        if files_of(scan)[0].lower().endswith(".npy"):
            affine[:3, 3] += _MNI_BOX_CENTRE_MM
        affines.append(affine)
    problems.raise_if_any()
    return np.array(affines)


def _shared(
    preprocessing: Preprocessing, sites: list[str], brains: list[npt.NDArray[np.uint8]]
) -> npt.NDArray[np.bool_]:
    """Return the voxels that are brain in enough scans of every site."""
    n_voxels = int(np.prod(preprocessing.shape))
    n_scans = Counter(sites)
    counts = {site: np.zeros(n_voxels, dtype=np.uint32) for site in n_scans}
    for site, bits in zip(sites, brains, strict=True):
        counts[site] += np.unpackbits(bits, count=n_voxels)
    fraction = preprocessing.common_fraction
    of_site = {site: count >= np.ceil(fraction * n_scans[site] - 1e-9) for site, count in counts.items()}
    view = np.logical_and.reduce(list(of_site.values()))
    mean = sum(int(count.sum()) for count in counts.values()) / len(sites)
    if np.count_nonzero(view) < max(SHARED_MIN * mean, N_BRAIN_VOXELS_MIN):
        parts = ", ".join(f"{site or 'no site'} {shared.sum() / mean:.0%}" for site, shared in sorted(of_site.items()))
        raise DataError(
            f"data.common_view: {view.sum() / mean:.0%} of the mean brain is brain in {fraction:.0%} of the scans of "
            f"every site, at least {SHARED_MIN:.0%} is needed; within one site: {parts}. Are all scans registered to "
            "one space? Register them, lower data.common_fraction, or take data.common_view: none."
        )
    return view.reshape(preprocessing.shape)


def _measure(
    what: str,
    preprocessing: Preprocessing,
    names: list[ScanFiles],
    others: list[ScanFiles],
    n_workers: int,
    progress: Progress,
) -> list[Any]:
    """Return what each scan of `names` adds; those of `others` are only looked at."""
    title = "Fitting the common view" if what == "view" else "Fitting the landmarks of intensity"
    used, found, problems = set(names), {}, Problems("scans")
    arguments = [(path, preprocessing, what) for path in dict.fromkeys([*names, *others])]
    with progress.task(title, len(arguments), "scan") as task:
        for path, problem, measured in map_files(
            _fit_or_say_why, arguments, n_workers=n_workers, n_per_worker=N_SCANS_A_WORKER
        ):
            if problem:
                problems.add(problem)
            elif path in used:
                found[path] = measured
            task.advance()
    problems.raise_if_any()
    return [found[path] for path in names]


def _fit_or_say_why(path: ScanFiles, preprocessing: Preprocessing, what: str) -> tuple[ScanFiles, str, Any]:
    try:
        return path, "", fit_scan(path, preprocessing, what)
    except DataError as error:
        return path, str(error), None
