"""Register a brain affinely to the MNI152 template, and resample images to a grid."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import SimpleITK as sitk
from nibabel.affines import apply_affine, from_matvec

Affine = npt.NDArray[np.float64]
Floats = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]

PITCHES_DEGREES = (0.0, -25.0, 25.0)
"""Pitches in degrees at which registration starts: heads bent towards or away from the chest."""
MASK_MARGIN_MM = 12.0
"""Margin in mm around the template's brain whose voxels are compared with the scan too, so that
outlines count.
"""
N_BINS = 32
"""Number of histogram bins for the mutual information of a brain and the template."""
N4_SPACING_MM = 4.0
"""Voxel size in mm at which N4 fits the bias field."""
COARSE_SHARE = 0.5
"""Share of voxels sampled for the metric from each of several pitches, at a coarse grid."""
FINE_SHARE = 0.1
"""Share of voxels sampled for the metric in the final fit."""
SEED = 1
_LPS = np.diag([-1.0, -1.0, 1.0, 1.0])
_CENTRE = np.array([0.0, 18.0, 10.0])
"""Centre of the template's brain in ITK's coordinates (LPS), in mm."""


@dataclass(frozen=True, eq=False)
class Registration:
    """Affine map from the MNI152 template to a scan, with the similarity metric of the fit."""

    matrix: Affine
    """Matrix (4, 4) from RAS millimetres of MNI152 to RAS millimetres of the scan."""
    metric: float
    """Negative mutual information (Mattes et al. 2003) after registration; lower is better."""

    def scales(self) -> list[float]:
        """Return the size of the scan's brain divided by the template's, along three axes.

        The axes are principal axes of the map: the result has the singular values of the linear
        part of `matrix`, the largest first.
        """
        scales: list[float] = np.linalg.svd(self.matrix[:3, :3], compute_uv=False).tolist()
        return scales


def correct_bias(voxels: Floats, mask: Mask, affine: Affine) -> Floats:
    """Return an image divided by its bias field, fitted by N4 (Tustison et al. 2010) in a mask."""
    image = to_itk(voxels, affine)
    inside = to_itk(mask.astype(np.uint8), affine)
    sizes = np.linalg.norm(affine[:3, :3], axis=0)
    shrink = [max(1, round(N4_SPACING_MM / size)) for size in sizes]
    correct = sitk.N4BiasFieldCorrectionImageFilter()
    correct.SetMaximumNumberOfIterations([50] * 4)
    with _one_thread():
        correct.Execute(sitk.Shrink(image, shrink), sitk.Shrink(inside, shrink))
    field = sitk.GetArrayFromImage(correct.GetLogBiasFieldAsImage(image)).transpose()
    corrected: Floats = (voxels / np.exp(field)).astype(np.float32)
    return corrected


def register_to_mni(voxels: Floats, mask: Mask, affine: Affine) -> Registration:
    """Find the affine map with twelve degrees of freedom from the MNI152 template to a brain.

    The map is found by the mutual information (Mattes et al. 2003) of scan and template within the
    template's brain and 12 mm around (`MASK_MARGIN_MM`), in voxels sampled with a fixed seed. The
    best of three starts in pitch is refined.

    Parameters
    ----------
    voxels, mask : array (D, H, W)
        Intensities, and the mask of the brain.
    affine : array (4, 4)
        Map from voxels to RAS millimetres.

    Returns
    -------
    Registration
        Map from millimetres of the template to millimetres of the scan, with the metric. The image
        itself is not resampled: see `resample_to_grid`.
    """
    fixed, brain = _template()
    moving = to_itk(np.where(mask, voxels, 0).astype(np.float32), affine)
    centre = apply_affine(affine, np.argwhere(mask).mean(axis=0))
    around = sitk.BinaryDilate(brain, [round(MASK_MARGIN_MM / size) for size in brain.GetSpacing()])
    starts = []
    for pitch in PITCHES_DEGREES:
        starts.append(_optimise(fixed, around, moving, _start(centre, pitch), [4]))
    best, _ = min(starts, key=itemgetter(1))
    transform, metric = _optimise(fixed, around, moving, best, [2, 1])
    linear = np.array(transform.GetMatrix()).reshape(3, 3)
    middle = np.array(transform.GetCenter())
    matrix = from_matvec(linear, np.array(transform.GetTranslation()) + middle - linear @ middle)
    return Registration(_LPS @ matrix @ _LPS, metric)


def resample_to_grid(
    voxels: npt.NDArray[Any],
    affine: Affine,
    registration: Registration,
    grid: Affine,
    shape: Sequence[int],
) -> Floats:
    """Resample an image to a grid in MNI152 space, in one linear interpolation.

    Parameters
    ----------
    voxels : array (D, H, W)
        Image.
    affine : array (4, 4)
        Map from voxels of the image to RAS millimetres.
    registration : Registration
        Map from the template to the image.
    grid : array (4, 4)
        Map from voxels of the result to the template's RAS millimetres.
    shape : sequence of 3 int
        Shape of the result.
    """
    transform = sitk.AffineTransform(3)
    matrix = _LPS @ registration.matrix @ _LPS
    transform.SetMatrix(matrix[:3, :3].ravel().tolist())
    transform.SetTranslation(matrix[:3, 3].tolist())
    like = to_itk(np.zeros(tuple(shape), dtype=np.float32), grid)
    moving = to_itk(np.asarray(voxels, dtype=np.float32), affine)
    resampled = sitk.Resample(moving, like, transform, sitk.sitkLinear, 0.0)
    result: Floats = np.ascontiguousarray(sitk.GetArrayFromImage(resampled).transpose())
    return result


def to_itk(voxels: npt.NDArray[Any], affine: Affine) -> sitk.Image:
    """Return an ITK image of voxels, with the `affine` from `voxels` to RAS millimetres."""
    lps = _LPS @ affine
    sizes = np.linalg.norm(lps[:3, :3], axis=0)
    image = sitk.GetImageFromArray(np.ascontiguousarray(voxels.transpose()))
    image.SetSpacing(sizes.tolist())
    image.SetOrigin(lps[:3, 3].tolist())
    image.SetDirection((lps[:3, :3] / sizes).ravel().tolist())
    return image


def template_mask(grid: Affine, shape: Sequence[int]) -> Mask:
    """Return the MNI152 template's brain mask on the grid with affine `grid` and `shape`."""
    like = to_itk(np.zeros(tuple(shape), dtype=np.float32), grid)
    brain = sitk.Cast(_template()[1], sitk.sitkFloat32)
    mask: Mask = sitk.GetArrayFromImage(sitk.Resample(brain, like)).transpose() > 0.5
    return mask


def template_ml() -> float:
    """Return the volume of the MNI152 template's brain and fluid inside the skull, in mL."""
    _, brain = _template()
    return float(sitk.GetArrayViewFromImage(brain).sum() * np.prod(brain.GetSpacing()) / 1000)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Limit ITK to one thread within a ``with`` statement.

    Sums in several threads differ in their last bits.
    """
    before = sitk.ProcessObject.GetGlobalDefaultNumberOfThreads()
    sitk.ProcessObject.SetGlobalDefaultNumberOfThreads(1)
    try:
        yield
    finally:
        sitk.ProcessObject.SetGlobalDefaultNumberOfThreads(before)


@cache
def _template() -> tuple[sitk.Image, sitk.Image]:
    """Return nilearn's MNI152 template at 2 mm, and its brain mask, as ITK images."""
    from nilearn.datasets import load_mni152_brain_mask, load_mni152_template

    template = load_mni152_template(resolution=2)
    mask = load_mni152_brain_mask(resolution=2)
    inside = (mask.get_fdata() > 0).astype(np.uint8)
    image = to_itk(template.get_fdata(dtype=np.float32), template.affine)
    return image, to_itk(inside, mask.affine)


def _start(centre: npt.NDArray[np.float64], pitch: float) -> sitk.AffineTransform:
    """Return an affine map from the template to a scan, from which the registration starts.

    The map moves the centre of the template's brain to `centre`, the centre of the scan's brain in
    RAS millimetres, and turns the template by `pitch` degrees about the axis from left to right. It
    leads from LPS millimetres to LPS millimetres, the coordinates of ITK.
    """
    transform = sitk.AffineTransform(3)
    turn = np.radians(pitch)
    cos = np.cos(turn)
    sin = np.sin(turn)
    transform.SetMatrix([1, 0, 0, 0, cos, -sin, 0, sin, cos])
    transform.SetCenter(_CENTRE.tolist())
    transform.SetTranslation((_LPS[:3, :3] @ centre - _CENTRE).tolist())
    return transform


def _optimise(
    fixed: sitk.Image,
    mask: sitk.Image,
    moving: sitk.Image,
    start: sitk.AffineTransform,
    shrinks: list[int],
) -> tuple[sitk.AffineTransform, float]:
    """Optimise an affine map from the template to a scan; return the map and its metric.

    `fixed` is the template, `mask` the voxels of the template that are compared, and `moving` the
    scan. `start` is a first map, and `shrinks` the factors by which images are made coarser, level
    by level; with a single one, fewer voxels and iterations are used.
    """
    share = FINE_SHARE
    n_iterations = 200
    if len(shrinks) == 1:
        share = COARSE_SHARE
        n_iterations = 100
    method = sitk.ImageRegistrationMethod()
    method.SetMetricAsMattesMutualInformation(N_BINS)
    method.SetMetricFixedMask(mask)
    method.SetMetricSamplingStrategy(method.RANDOM)
    method.SetMetricSamplingPercentage(share, SEED)
    method.SetInterpolator(sitk.sitkLinear)
    method.SetOptimizerAsRegularStepGradientDescent(1.0, 1e-3, n_iterations, relaxationFactor=0.6)
    method.SetOptimizerScalesFromPhysicalShift()
    method.SetShrinkFactorsPerLevel(shrinks)
    method.SetSmoothingSigmasPerLevel(list(map(float, shrinks)))
    method.SmoothingSigmasAreSpecifiedInPhysicalUnitsOn()
    moved = sitk.AffineTransform(start)
    method.SetInitialTransform(moved, inPlace=True)
    with _one_thread():
        method.Execute(fixed, moving)
    return moved, float(method.GetMetricValue())
