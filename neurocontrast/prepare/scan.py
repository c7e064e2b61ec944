"""One scan, from the head as it was acquired to a brain and its tissue maps on the grid of MNI152."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import numpy.typing as npt
import torch

from neurocontrast.exceptions import DataError, NeurocontrastError
from neurocontrast.files import atomic_path
from neurocontrast.prepare.extraction import extract_brain, is_stripped
from neurocontrast.prepare.records import (
    TABLES,
    PrepareOptions,
    describe_input,
    forget,
    imitated_stem,
    read_record,
    recipe_of,
    write_record,
)
from neurocontrast.prepare.registration import (
    Registration,
    correct_bias,
    register_to_mni,
    resample_to_grid,
    template_mask,
    template_ml,
)
from neurocontrast.prepare.tissue import segment_tissue, tissue_priors
from neurocontrast.reading import DAMAGE
from neurocontrast.transforms.augment import AugmentSettings
from neurocontrast.transforms.compose import brain_views
from neurocontrast.transforms.images import corners_apart
from neurocontrast.transforms.loading import read_scan
from neurocontrast.transforms.preprocessing import mni_grid
from neurocontrast.transforms.views import TwoViews

_MASK_APART_MM = 0.5
_MOST_VOXELS = 3.0
"""What augmentations allow that take a number of voxels."""
_UNSUITABLE: tuple[type[Exception], ...] = (*DAMAGE, MemoryError)
"""What SimpleITK, torch and SciPy raise for an image that is not what they expect; `read_scan` names damaged ones."""

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class _Template:
    """The grid of the results, with the template's brain and tissue probabilities on it."""

    affine: npt.NDArray[np.float64]
    brain: npt.NDArray[np.bool_]
    priors: Floats


@cache
def _template(spacing_mm: float) -> _Template:
    affine, shape = mni_grid(spacing_mm)
    return _Template(affine, template_mask(affine, shape), tissue_priors(affine, shape))


def prepare_scan(
    source: str, mask_path: str, root: str, stem: str, folder: str, options: PrepareOptions
) -> dict[str, Any]:
    """Prepare one scan, unless an earlier call has done so, and return its measures, or its ``problem``.

    The results are ``{stem}_brain.nii.gz``, ``{stem}_gm.nii.gz`` … and ``{stem}.json`` in `folder`;
    tables in the folder above it are removed before an image is replaced. Paths in the record start
    from `root`.
    """
    out = Path(folder)
    try:
        given = describe_input(source, mask_path, root)
        record = read_record(out, stem, given, options)
        if record is None:
            images, facts = _prepare(source, mask_path, options)
            record = _replace(out, stem, images, {"input": given, "facts": facts}, options)
        _imitate(out, stem, options)
    except NeurocontrastError as error:
        return {"problem": str(error)}
    except _UNSUITABLE as error:
        return {"problem": f"{type(error).__name__}: {error}"}
    return dict(record["facts"])


def _imitate(out: Path, stem: str, options: PrepareOptions) -> None:
    """Write the imitated acquisitions of a prepared brain that are not there yet."""
    if not options.imitations:
        return
    source = out / f"{stem}_brain.nii.gz"
    # Records are the same wherever the folder is.
    given = describe_input(str(source), "", str(out)) | {"place": ""}
    voxels = None
    for number in range(1, options.imitations + 1):
        name = imitated_stem(stem, number)
        if read_record(out, name, given, options) is not None:
            continue
        voxels = nib.load(source).get_fdata(dtype=np.float32) if voxels is None else voxels
        image = torch.from_numpy(np.ascontiguousarray(voxels))[None, None]
        # Depends on the scan's name and the number alone.
        brain: Floats = (
            _imitations(options.spacing_mm).view(image, [stem], epoch=0, view=number)[0, 0].numpy()
        )
        maps, _ = _tissue(brain, brain > 0, options)
        _replace(out, name, {"brain": brain, **maps}, {"input": given, "facts": {}}, options)


def _tissue(
    brain: Floats, inside: npt.NDArray[np.bool_], options: PrepareOptions
) -> tuple[dict[str, Floats], dict[str, Any]]:
    """Return the tissue maps and the means of the tissues; nothing where maps are not asked for."""
    if not options.tissue:
        return {}, {}
    maps = segment_tissue(brain, inside, _template(options.spacing_mm).priors)
    means = [round(mean, 3) for mean in maps.means]
    return {"gm": maps.grey, "wm": maps.white, "csf": maps.fluid}, {"tissue_means": means}


def _prepare(
    source: str, mask_path: str, options: PrepareOptions
) -> tuple[dict[str, Floats], dict[str, Any]]:
    voxels, affine = _canonical(source)
    mask, how = _mask(voxels, affine, mask_path, source)
    if not mask.any():
        raise DataError(f"{source}: no voxel belongs to the brain ({how}).")
    brain = correct_bias(voxels, mask, affine) if options.bias else voxels
    brain = np.where(mask, brain, 0).astype(np.float32)
    if options.registration:
        registration = register_to_mni(brain, mask, affine)
        found_by = "12 degrees of freedom"
    else:
        registration = Registration(np.eye(4), float("nan"))
        found_by = "the header's"
    template = _template(options.spacing_mm)
    grid = template.affine
    shape = template.brain.shape
    inside = resample_to_grid(mask, affine, registration, grid, shape) > 0.5
    resampled = resample_to_grid(brain, affine, registration, grid, shape)
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
    if (
        options.registration
    ):  # otherwise others have registered the scan, and its own size is not known
        # Native volumes in mL: the template's head, and the sums of the maps, times the change of
        # volume.
        change = abs(float(np.linalg.det(registration.matrix[:3, :3])))
        sums = {
            f"{name}_ml": float(each.sum()) * options.spacing_mm**3 / 1000
            for name, each in maps.items()
        }
        facts |= {
            name: round(volume * change, 1)
            for name, volume in {"tiv": template_ml(), **sums}.items()
        }
    return images | maps, facts | means


def _canonical(path: str) -> tuple[Floats, npt.NDArray[np.float64]]:
    """Return the voxels of a file in RAS order, and their affine."""
    scan = read_scan(path)
    if scan.affine is None:
        raise DataError(
            f"{path}: an array has no header that says where its voxels lie; give a NIfTI file."
        )
    image = nib.as_closest_canonical(nib.Nifti1Image(scan.voxels, scan.affine))
    return np.asarray(image.dataobj), image.affine


def _mask(
    voxels: Floats, affine: npt.NDArray[np.float64], mask_path: str, source: str
) -> tuple[npt.NDArray[np.bool_], str]:
    """Return the brain's mask, and where it is from: a file, the zeros around a stripped brain, or an extraction."""
    if mask_path:
        given, where = _canonical(mask_path)
        if given.shape != voxels.shape:
            raise DataError(
                f"{mask_path}: the mask has the shape {given.shape}, and {source} {voxels.shape}."
            )
        apart = corners_apart(voxels.shape, where, affine)
        if apart > _MASK_APART_MM:
            raise DataError(f"{mask_path}: its header puts the mask {apart:.1f} mm from {source}.")
        return given > 0, "mask_path"
    if is_stripped(voxels):
        return voxels != 0, "stripped already"
    return extract_brain(voxels), "deepbet"


def _replace(
    out: Path, stem: str, images: dict[str, Floats], made: dict[str, Any], options: PrepareOptions
) -> dict[str, Any]:
    """Write images in the place of earlier ones: tables and record go first, the new record comes last."""
    files = {f"{stem}_{name}.nii.gz": voxels for name, voxels in images.items()}
    for name in TABLES:
        (out.parent / name).unlink(missing_ok=True)
    forget(out, stem)
    for name, voxels in files.items():
        _write(out / name, voxels, _template(options.spacing_mm).affine)
    return write_record(out, stem, recipe_of(options) | made, list(files))


def _write(path: Path, voxels: Floats, affine: npt.NDArray[np.float64]) -> None:
    """Write an image with a header of its own: a copied header can hold text about a patient."""
    image = nib.Nifti1Image(voxels.astype(np.float32), affine)
    image.header.set_xyzt_units("mm")
    image.set_sform(affine, code=4)
    image.set_qform(affine, code=4)
    with atomic_path(path) as temporary:
        nib.save(image, temporary)


@cache
def _imitations(spacing_mm: float) -> TwoViews:
    """Return the views that imitate acquisitions on a grid of that voxel size.

    Another registration (size and place), contrast, bias field, sharpness, noise, and another brain
    extraction. The ranges hold what the sites of three collections differ by: the ratio of white to
    grey matter is 1.3 to 1.5 among them, the brain's size in the template's space differs by 5 % of
    its volume's third root, and the rim of fluid that an extraction leaves is up to 6 mm deep.
    """

    def voxels(mm: float) -> float:
        return min(mm / spacing_mm, _MOST_VOXELS)

    operations: dict[str, Any] = {
        "affine": {
            "probability": 1.0,
            "rotation_degrees": (-3.0, 3.0),
            "translation_voxels": (-1.5 / spacing_mm, 1.5 / spacing_mm),
            "scale": (0.92, 1.08),
        },
        "contrast": {"probability": 1.0, "gamma": (0.6, 1.8)},
        "bias_field": {"probability": 1.0, "strength": (0.05, 0.2)},
        "sharpness": {"probability": 1.0, "amount": (-0.8, 0.8), "sigma_voxels": voxels(1.6)},
        "rician": {"probability": 1.0, "sigma": (0.0, 0.03)},
        "tight_mask": {
            "probability": 0.6,
            "depth_voxels": (voxels(0.5), voxels(6.0)),
            "below": (0.2, 0.55),
        },
        "mask_edge": {"probability": 0.3, "depth_voxels": (voxels(0.5), voxels(3.0))},
    }
    settings = AugmentSettings(**{"blur": None, "noise": None, "cutout": None, **operations})
    return TwoViews(brain_views(settings), seed=0)
