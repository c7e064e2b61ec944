"""One scan, from the head as it was acquired to a brain and its tissue maps on the grid of MNI152."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import numpy.typing as npt

from neurocontrast.exceptions import DataError, NeurocontrastError
from neurocontrast.files import atomic_path, digest_of, write_json
from neurocontrast.prepare.acquisitions import imitate_acquisition
from neurocontrast.prepare.extraction import extract_brain, extract_brain_by_template, is_stripped
from neurocontrast.prepare.registration import (
    Registration,
    correct_bias,
    mni_grid,
    register_to_mni,
    resample_to_grid,
    template_mask,
)
from neurocontrast.prepare.tissue import segment_tissue, tissue_priors

__all__ = ["PrepareOptions", "PreparedScan", "imitated_stem", "prepare_scan"]

_RECIPE = 2
"""Raised when the same options give other images."""

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class PrepareOptions:
    """What is done to each scan.

    Parameters
    ----------
    spacing_mm : float
        Voxel size of the results.
    bias : bool
        Whether the bias field is corrected by N4.
    tissue : bool
        Whether tissue maps are made.
    extraction : {"deepbet", "template"}
        How the brain is found in a head.
    quasiraw : bool
        Whether it is done as for OpenBHB's quasi-raw images: a map without shears, resampled by splines to their grid.
    registration : bool
        Whether scans are registered; otherwise their headers place them in MNI152 already.
    imitations : int
        Imitated acquisitions of each brain, whose brains and tissue maps are written too.
    """

    spacing_mm: float = 1.5
    bias: bool = True
    tissue: bool = True
    extraction: str = "deepbet"
    quasiraw: bool = False
    registration: bool = True
    imitations: int = 0


@dataclass(frozen=True)
class PreparedScan:
    """What was done to a scan and how well it went, JSON-ready.

    Parameters
    ----------
    key : str
        Digest of the input file and the options: a scan with the same key is not prepared again.
    facts : dict
        Measures; ``problem`` where the scan could not be prepared.
    """

    key: str
    facts: dict[str, Any]


@dataclass(frozen=True, eq=False)
class _Template:
    """The grid of the results, with the template's brain and tissue probabilities on it."""

    affine: npt.NDArray[np.float64]
    brain: npt.NDArray[np.bool_]
    priors: Floats


@cache
def _template(spacing_mm: float, quasiraw: bool) -> _Template:
    affine, shape = mni_grid(spacing_mm)
    if quasiraw:  # the grid of OpenBHB's arrays, and of FSL's template: one voxel more to the left, in front and above
        affine[0, 3] -= spacing_mm
        shape = (shape[0] + 1, shape[1] + 1, shape[2] + 1)
    return _Template(affine, template_mask(affine, shape), tissue_priors(affine, shape))


def prepare_scan(source: str, mask_path: str, stem: str, folder: str, options: PrepareOptions) -> PreparedScan:
    """Prepare one scan into a folder, unless the same was done before.

    Parameters
    ----------
    source, mask_path : str
        The image, and a mask of its brain or "".
    stem : str
        How the results are called: ``{stem}_brain.nii.gz``, ``{stem}_gm.nii.gz`` …, and the record ``{stem}.json``.
    folder : str
        Where they are written.
    options : PrepareOptions
        What is done.

    Returns
    -------
    PreparedScan
        With ``problem`` among the facts where the scan cannot be prepared.
    """
    out, record = Path(folder), Path(folder) / f"{stem}.json"
    try:
        key = _key(source, mask_path, options)
        prepared = None if _key_in(record) != key else PreparedScan(**json.loads(record.read_text(encoding="utf-8")))
        if prepared is None:
            images, facts = _prepare(source, mask_path, options)
            _write_all(out, stem, images, options)
            prepared = PreparedScan(key, facts)
            write_json(record, asdict(prepared))
        _imitate(out, stem, key, options)
    except NeurocontrastError as error:
        return PreparedScan("", {"problem": str(error)})
    except Exception as error:  # nibabel and ITK raise many kinds of errors for damaged files
        return PreparedScan("", {"problem": f"{type(error).__name__}: {error}"})
    return prepared


def _key_in(record: Path) -> str | None:
    """Return the key that an earlier call recorded."""
    return str(json.loads(record.read_text(encoding="utf-8"))["key"]) if record.is_file() else None


def _key(source: str, mask_path: str, options: PrepareOptions) -> str:
    if mask_path and not Path(mask_path).is_file():
        raise DataError(f"{mask_path}: there is no such file; the column 'mask_path' names it.")
    files = [Path(path) for path in (source, mask_path) if path]
    states = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    # Imitations are made of what is prepared, and have a record of their own: to add some prepares nothing again.
    chosen = {name: value for name, value in asdict(options).items() if name != "imitations"}
    return digest_of("neurocontrast-prepare", _RECIPE, states, chosen)


def imitated_stem(stem: str, number: int) -> str:
    """Return how the files of an imitated acquisition of a scan are called, counted from 1."""
    return f"{stem}_acq-imitated{number}"


def _imitate(out: Path, stem: str, key: str, options: PrepareOptions) -> None:
    """Write the imitated acquisitions of a prepared brain that are not there yet."""
    records = {number: out / f"{imitated_stem(stem, number)}.json" for number in range(1, options.imitations + 1)}
    missing = [number for number, record in records.items() if _key_in(record) != key]
    if not missing:
        return
    voxels = nib.load(out / f"{stem}_brain.nii.gz").get_fdata(dtype=np.float32)
    for number in missing:
        brain = imitate_acquisition(voxels, options.spacing_mm, name=stem, number=number)
        maps, _ = _tissue(brain, brain > 0, options)
        _write_all(out, imitated_stem(stem, number), {"brain": brain, **maps}, options)
        write_json(records[number], {"key": key})


def _tissue(
    brain: Floats, inside: npt.NDArray[np.bool_], options: PrepareOptions
) -> tuple[dict[str, Floats], dict[str, Any]]:
    """Return the tissue maps and the means of the tissues; nothing where maps are not asked for."""
    if not options.tissue:
        return {}, {}
    maps = segment_tissue(brain, inside, _grid_of(options).priors)
    means = [round(mean, 3) for mean in maps.means]
    return {"gm": maps.grey, "wm": maps.white, "csf": maps.fluid}, {"tissue_means": means}


def _grid_of(options: PrepareOptions) -> _Template:
    return _template(options.spacing_mm, options.quasiraw)


def _prepare(source: str, mask_path: str, options: PrepareOptions) -> tuple[dict[str, Floats], dict[str, Any]]:
    image = nib.as_closest_canonical(nib.load(source))
    affine = image.affine
    voxels = np.squeeze(image.get_fdata(dtype=np.float32))
    if voxels.ndim != 3:
        raise DataError(f"{source}: the image has the shape {voxels.shape}; give one volume.")
    mask, how = _mask(voxels, affine, mask_path, source, options.extraction)
    if not mask.any():
        raise DataError(f"{source}: no voxel is of the brain ({how}).")
    brain = correct_bias(voxels, mask, affine) if options.bias else voxels
    brain = np.where(mask, brain, 0).astype(np.float32)
    registration, found_by = _register(brain, mask, affine, options)
    template = _grid_of(options)
    grid, shape = template.affine, template.brain.shape
    inside = resample_to_grid(mask, affine, registration, grid, shape) > 0.5
    resampled = resample_to_grid(brain, affine, registration, grid, shape, spline=options.quasiraw)
    dice = float(2 * (inside & template.brain).sum() / (inside.sum() + template.brain.sum()))
    images = {"brain": np.where(inside, np.maximum(resampled, 0), 0)}
    facts = {
        "extraction": how,
        "registration": found_by,
        "bias": "N4" if options.bias else "none",
        "brain_ml": round(float(mask.sum() * abs(np.linalg.det(affine[:3, :3])) / 1000), 1),
        "metric": None if np.isnan(registration.metric) else round(registration.metric, 4),
        "scales": [round(scale, 3) for scale in registration.scales()],
        "dice_template": round(dice, 4),
    }
    maps, means = _tissue(images["brain"], inside, options)
    return images | maps, facts | means


def _register(
    brain: Floats, mask: npt.NDArray[np.bool_], affine: npt.NDArray[np.float64], options: PrepareOptions
) -> tuple[Registration, str]:
    """Return the map from the template to a scan, and where it is from."""
    if not options.registration:
        return Registration(np.eye(4), float("nan")), "the header's"
    registration = register_to_mni(brain, mask, affine, shears=not options.quasiraw)
    return registration, "9 degrees of freedom" if options.quasiraw else "12 degrees of freedom"


def _mask(
    voxels: Floats, affine: npt.NDArray[np.float64], mask_path: str, source: str, extraction: str
) -> tuple[npt.NDArray[np.bool_], str]:
    """Return the brain's mask, and where it is from: a file, the zeros around a stripped brain, or an extraction."""
    if mask_path:
        given = np.squeeze(nib.as_closest_canonical(nib.load(mask_path)).get_fdata(dtype=np.float32))
        if given.shape != voxels.shape:
            raise DataError(f"{mask_path}: the mask has the shape {given.shape}, and {source} {voxels.shape}.")
        return given > 0, "mask_path"
    if is_stripped(voxels):
        return voxels != 0, "stripped already"
    return extract_brain_by_template(voxels, affine) if extraction == "template" else extract_brain(voxels), extraction


def _write_all(out: Path, stem: str, images: dict[str, Floats], options: PrepareOptions) -> None:
    for name, voxels in images.items():
        _write(out / f"{stem}_{name}.nii.gz", voxels, _grid_of(options).affine)


def _write(path: Path, voxels: Floats, affine: npt.NDArray[np.float64]) -> None:
    """Write an image with a header of its own: a copied header can hold text about a patient."""
    image = nib.Nifti1Image(voxels.astype(np.float32), affine)
    image.header.set_xyzt_units("mm")
    image.set_sform(affine, code=4)
    image.set_qform(affine, code=4)
    with atomic_path(path) as temporary:
        nib.save(image, temporary)
