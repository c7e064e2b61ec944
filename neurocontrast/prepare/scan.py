"""Prepare one scan: from a raw head to a brain and tissue maps on a grid in MNI152."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import nibabel as nib
import numpy as np
import numpy.typing as npt
import torch

from neurocontrast.documents.prepared import ScanInput, ScanMeasures
from neurocontrast.exceptions import DataError, NeurocontrastError
from neurocontrast.files import atomic_path
from neurocontrast.prepare.extraction import extract_brain, is_stripped
from neurocontrast.prepare.records import (
    TABLES,
    PrepareOptions,
    ScanOutcome,
    describe_input,
    forget,
    imitated_stem,
    read_record,
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
from neurocontrast.transforms.augment import (
    Affine,
    AugmentSettings,
    BiasField,
    Contrast,
    MaskEdge,
    Rician,
    Sharpness,
    TightMask,
)
from neurocontrast.transforms.compose import brain_views
from neurocontrast.transforms.images import corners_apart
from neurocontrast.transforms.loading import read_scan
from neurocontrast.transforms.preprocessing import mni_grid
from neurocontrast.transforms.views import TwoViews

_MASK_APART_MM = 0.5
_MOST_VOXELS = 3.0
"""Largest depth or width in voxels that settings of augmentations accept, for imitations."""
_UNSUITABLE: tuple[type[Exception], ...] = (*DAMAGE, MemoryError)
"""Errors of SimpleITK, torch and SciPy for an image that cannot be prepared."""

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class _Template:
    """Grid of the prepared images, with the template's brain mask and tissue probabilities."""

    affine: npt.NDArray[np.float64]
    brain: npt.NDArray[np.bool_]
    priors: Floats


@cache
def _template(spacing_mm: float) -> _Template:
    affine, shape = mni_grid(spacing_mm)
    return _Template(affine, template_mask(affine, shape), tissue_priors(affine, shape))


def prepare_scan(
    source: str, mask_path: str, root: str, stem: str, folder: str, options: PrepareOptions
) -> ScanOutcome:
    """Prepare one scan, unless prepared before; return the scan's measures or a problem.

    The measures are in a `ScanOutcome`; for a scan that was prepared before, the measures in the
    record ``{stem}.json`` are returned.

    `source` is the file of the scan, and `mask_path` the file of its brain mask, or "". Written to
    `folder` are ``{stem}_brain.nii.gz``, ``{stem}_gm.nii.gz`` … and the record ``{stem}.json``,
    which has the path of `source` relative to the folder `root`. When images are written, and not
    for a scan that was prepared before, ``participants.tsv``, ``imitations.tsv`` and
    ``quality.tsv`` in the folder above `folder` are removed first.
    """
    out = Path(folder)
    try:
        described = describe_input(source, mask_path, root)
        record = read_record(out, stem, described, options)
        if record is None or record.facts is None:
            images, measures = _prepare(source, mask_path, options)
            _replace(out, stem, images, described, measures, options)
        else:
            measures = record.facts
        _imitate(out, stem, options)
    except NeurocontrastError as error:
        return ScanOutcome(problem=str(error))
    except _UNSUITABLE as error:
        return ScanOutcome(problem=f"{type(error).__name__}: {error}")
    return ScanOutcome(measures)


def _imitate(out: Path, stem: str, options: PrepareOptions) -> None:
    """Write randomly changed copies of a prepared brain to the folder `out`, unless written before.

    The copies imitate acquisitions of the same brain at other scanners (`_imitations`),
    ``options.imitations`` in number. Each has a brain image, tissue maps unless ``options.tissue``
    is off, and a ``.json`` file that records from which brain, by which options and code they were
    made.
    """
    if not options.imitations:
        return
    source = out / f"{stem}_brain.nii.gz"
    # Records are the same wherever the folder is.
    described = describe_input(str(source), "", str(out)).with_keys(place="")
    image = None
    for number in range(1, options.imitations + 1):
        name = imitated_stem(stem, number)
        if read_record(out, name, described, options) is not None:
            continue
        if image is None:
            voxels = nib.load(source).get_fdata(dtype=np.float32)
            image = torch.from_numpy(np.ascontiguousarray(voxels))[None, None]
        # Depends on the scan's name and the number alone.
        views = _imitations(options.spacing_mm)
        brain: Floats = views.view(image, [stem], epoch=0, view=number)[0, 0].numpy()
        maps, _ = _tissue(brain, brain > 0, options)
        _replace(out, name, {"brain": brain, **maps}, described, ScanMeasures(), options)


def _tissue(
    brain: Floats, inside: npt.NDArray[np.bool_], options: PrepareOptions
) -> tuple[dict[str, Floats], list[float]]:
    """Return a brain's tissue maps (``gm``, ``wm``, ``csf``), and each tissue's mean intensity.

    Maps and means are empty if ``options.tissue`` is off. `brain` is in MNI152, and `inside` is the
    brain's mask.
    """
    if not options.tissue:
        return {}, []
    maps = segment_tissue(brain, inside, _template(options.spacing_mm).priors)
    means = [round(mean, 3) for mean in maps.means]
    return {"gm": maps.grey, "wm": maps.white, "csf": maps.fluid}, means


def _prepare(
    source: str, mask_path: str, options: PrepareOptions
) -> tuple[dict[str, Floats], ScanMeasures]:
    """Return images of a head in MNI152 by name (``brain``, ``gm`` …), and a `ScanMeasures`.

    The images are arrays on the grid of ``options.spacing_mm``, and nothing is written. `source` is
    the file of the head, and `mask_path` the file of a brain mask; with "", the brain is found.
    """
    voxels, affine = _canonical(source)
    mask, extraction = _mask(voxels, affine, mask_path, source)
    if not mask.any():
        raise DataError(f"{source}: no voxel belongs to the brain ({extraction}).")
    brain = correct_bias(voxels, mask, affine) if options.bias else voxels
    brain = np.where(mask, brain, 0).astype(np.float32)
    if options.registration:
        registration = register_to_mni(brain, mask, affine)
    else:
        registration = Registration(np.eye(4), float("nan"))
    template = _template(options.spacing_mm)
    grid = template.affine
    shape = template.brain.shape
    inside = resample_to_grid(mask, affine, registration, grid, shape) > 0.5
    resampled = resample_to_grid(brain, affine, registration, grid, shape)
    images = {"brain": np.where(inside, np.maximum(resampled, 0), 0)}
    dice = float(2 * (inside & template.brain).sum() / (inside.sum() + template.brain.sum()))
    brain_ml = float(mask.sum() * abs(np.linalg.det(affine[:3, :3])) / 1000)
    measures = ScanMeasures(
        extraction=extraction,
        registration="12 degrees of freedom" if options.registration else "the header's",
        bias="N4" if options.bias else "none",
        brain_ml=round(brain_ml, 1),
        metric=None if np.isnan(registration.metric) else round(registration.metric, 4),
        scales=list(map(_to_thousandth, registration.scales())),
        dice_template=round(dice, 4),
    )
    maps, means = _tissue(images["brain"], inside, options)
    if options.registration:  # else others registered the scan, and its own size is not known
        measures = measures.with_keys(**_native_volumes(maps, registration, options.spacing_mm))
    if options.tissue:
        measures = measures.with_keys(tissue_means=means)
    return images | maps, measures


def _to_thousandth(scale: float) -> float:
    return round(scale, 3)


def _native_volumes(
    maps: dict[str, Floats], registration: Registration, spacing_mm: float
) -> dict[str, float]:
    """Return a person's volumes in mL: ``tiv`` (inside the skull), ``gm_ml`` and other tissues.

    The volume inside the template's skull, and the sums of the tissue `maps`, which are in MNI152,
    are multiplied by the change of volume from the template to the scan (`registration`).
    """
    change = abs(float(np.linalg.det(registration.matrix[:3, :3])))
    volumes = {"tiv": round(template_ml() * change, 1)}
    for tissue, probabilities in maps.items():
        volume = float(probabilities.sum()) * spacing_mm**3 / 1000
        volumes[f"{tissue}_ml"] = round(volume * change, 1)
    return volumes


def _canonical(path: str) -> tuple[Floats, npt.NDArray[np.float64]]:
    """Read an image file; return voxels (D, H, W) in RAS order, and the voxels' affine (4, 4).

    An array without a header is refused.
    """
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
    """Return a scan's brain mask, from a mask file, zeros outside a brain or deepbet, and a word.

    The word tells the origin: ``mask_path``, ``stripped already`` or ``deepbet``. A mask file is
    refused if its shape, or its position in space, is not that of the scan in the file `source`.
    """
    if mask_path:
        mask, mask_affine = _canonical(mask_path)
        if mask.shape != voxels.shape:
            raise DataError(
                f"{mask_path}: the mask has the shape {mask.shape}, and {source} {voxels.shape}."
            )
        apart = corners_apart(voxels.shape, mask_affine, affine)
        if apart > _MASK_APART_MM:
            raise DataError(f"{mask_path}: its header puts the mask {apart:.1f} mm from {source}.")
        return mask > 0, "mask_path"
    if is_stripped(voxels):
        return voxels != 0, "stripped already"
    return extract_brain(voxels), "deepbet"


def _replace(
    out: Path,
    stem: str,
    images: dict[str, Floats],
    described: ScanInput,
    measures: ScanMeasures,
    options: PrepareOptions,
) -> None:
    """Write a scan's images anew, so that a kill leaves no image with a wrong ``{stem}.json``.

    The tables ``participants.tsv``, ``imitations.tsv`` and ``quality.tsv`` of the folder above
    `out`, the JSON file and the earlier images are removed first, and the JSON file is written
    last.
    """
    for name in TABLES:
        (out.parent / name).unlink(missing_ok=True)
    forget(out, stem)
    files = []
    for image, voxels in images.items():
        name = f"{stem}_{image}.nii.gz"
        _write(out / name, voxels, _template(options.spacing_mm).affine)
        files.append(name)
    write_record(out, stem, options, described, measures, files)


def _write(path: Path, voxels: Floats, affine: npt.NDArray[np.float64]) -> None:
    """Write an image with a new header: a copied header can hold text about a patient."""
    image = nib.Nifti1Image(voxels.astype(np.float32), affine)
    image.header.set_xyzt_units("mm")
    image.set_sform(affine, code=4)
    image.set_qform(affine, code=4)
    with atomic_path(path) as temporary:
        nib.save(image, temporary)


@cache
def _imitations(spacing_mm: float) -> TwoViews:
    """Return a `TwoViews`, whose method `view` changes a brain as if acquired at another scanner.

    The argument `view` of this method is the number of a copy: each number gives another random
    change of registration (size and position), contrast, bias field, sharpness, noise and brain
    extraction. `spacing_mm` is the voxel size of the brain. The ranges of the changes cover the
    differences seen between sites of three collections: white matter is 1.3 to 1.5 times as bright
    as grey matter, the third root of the brain's volume in the template's space differs by 5 %, and
    the rim of fluid that an extraction leaves is up to 6 mm deep.
    """
    rim = _voxels(0.5, spacing_mm)
    settings = AugmentSettings(
        affine=Affine(
            probability=1.0,
            rotation_degrees=(-3.0, 3.0),
            translation_voxels=(-1.5 / spacing_mm, 1.5 / spacing_mm),
            scale=(0.92, 1.08),
        ),
        contrast=Contrast(probability=1.0, gamma=(0.6, 1.8)),
        bias_field=BiasField(probability=1.0, strength=(0.05, 0.2)),
        sharpness=Sharpness(
            probability=1.0, amount=(-0.8, 0.8), sigma_voxels=_voxels(1.6, spacing_mm)
        ),
        rician=Rician(probability=1.0, sigma=(0.0, 0.03)),
        tight_mask=TightMask(
            probability=0.6, depth_voxels=(rim, _voxels(6.0, spacing_mm)), below=(0.2, 0.55)
        ),
        mask_edge=MaskEdge(probability=0.3, depth_voxels=(rim, _voxels(3.0, spacing_mm))),
        blur=None,
        noise=None,
        cutout=None,
    )
    return TwoViews(brain_views(settings), seed=0)


def _voxels(mm: float, spacing_mm: float) -> float:
    return min(mm / spacing_mm, _MOST_VOXELS)
