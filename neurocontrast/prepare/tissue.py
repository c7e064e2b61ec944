"""Segment a brain in MNI space: probabilities of grey matter, white matter and fluid."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.ndimage import gaussian_filter

from neurocontrast.transforms.preprocessing import FWHM_PER_SIGMA

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]

N_ITERATIONS = 6
"""Number of iterations by which tissues are segmented; with more, intensities outweigh the priors,
and maps agree less with labels.
"""
PRIOR_FWHM_MM = 6.0
"""Full width at half maximum in mm by which the template's tissue maps are smoothed, to allow for
errors of affine registration.
"""
PRIOR_FLOOR = 0.2
"""Value added to the template's probability of each tissue, so that no tissue is ruled out."""
BIAS_ORDER = 3
"""Order of the bias field's polynomial of position."""


@dataclass(frozen=True, eq=False)
class TissueMaps:
    """Tissue probabilities of one brain: arrays (D, H, W) in [0, 1] that sum to 1 in the brain."""

    grey: Floats
    white: Floats
    fluid: Floats
    means: tuple[float, float, float]
    """Mean intensity of fluid, grey and white matter, as a share of the brain's median."""


def tissue_priors(affine: Doubles, shape: Sequence[int]) -> Floats:
    """Return prior probabilities (3, D, H, W) of fluid, grey and white matter on a grid.

    The probabilities are the MNI152 template's tissue maps, smoothed, with none near 0. `affine`
    and `shape` are of the grid.
    """
    from nilearn.datasets import load_mni152_gm_template, load_mni152_wm_template
    from nilearn.image import resample_img

    spacing = np.abs(np.diag(affine)[:3])
    maps = []
    for load in (load_mni152_gm_template, load_mni152_wm_template):
        image = resample_img(
            load(resolution=2),
            target_affine=affine,
            target_shape=tuple(shape),
            copy_header=True,
            force_resample=True,
        )
        sigma = PRIOR_FWHM_MM / FWHM_PER_SIGMA / spacing
        maps.append(gaussian_filter(image.get_fdata(dtype=np.float32), sigma))
    grey, white = maps
    fluid = np.clip(1 - grey - white, 0, 1)
    priors = np.stack([fluid, grey, white]) + PRIOR_FLOOR
    return (priors / priors.sum(axis=0)).astype(np.float32)


def segment_tissue(voxels: Floats, mask: npt.NDArray[np.bool_], priors: Floats) -> TissueMaps:
    """Segment a brain in MNI space; return probabilities and mean intensities of three tissues.

    Segmentation is by expectation-maximisation with priors. Each tissue is one Gaussian of the
    intensity. The intensities are divided by a bias field, which is not returned: a polynomial of
    the position, fitted to the logarithm of the image over the tissues' prediction (Van Leemput et
    al. 1999).

    Parameters
    ----------
    voxels : array (D, H, W)
        Intensities.
    mask : array (D, H, W)
        Mask of the brain.
    priors : array (3, D, H, W)
        Probabilities of fluid, grey and white matter (`tissue_priors`).

    Returns
    -------
    TissueMaps
        Probability of grey matter, white matter and fluid at each voxel, 0 outside the mask, and
        the mean intensity of each tissue.
    """
    values = voxels[mask].astype(np.float64)
    values /= np.median(values)
    # Polynomials of the position (n_voxels, n_terms), without the constant.
    x, y, z = (2 * np.nonzero(mask)[axis] / (mask.shape[axis] - 1) - 1 for axis in range(3))
    terms = []
    for a, b, c in itertools.product(range(BIAS_ORDER + 1), repeat=3):
        if 0 < a + b + c <= BIAS_ORDER:
            terms.append(x**a * y**b * z**c)
    basis = np.stack(terms, axis=1)
    prior = priors[:, mask].astype(np.float64)
    means = np.quantile(values, (0.1, 0.45, 0.85))
    sds = np.full(3, (means[2] - means[0]) / 6)
    posterior = prior.copy()
    field = np.ones_like(values)
    for iteration in range(N_ITERATIONS):
        corrected = values / field
        scaled = (corrected - means[:, None]) / sds[:, None]
        likelihood = prior * np.exp(-0.5 * np.minimum(scaled**2, 60)) / sds[:, None]
        posterior = likelihood / likelihood.sum(axis=0)
        weight = posterior.sum(axis=1) + 1e-9
        means = (posterior @ corrected) / weight
        squares = (corrected - means[:, None]) ** 2
        sds = np.sqrt((posterior * squares).sum(axis=1) / weight).clip(0.02)
        # One width for grey and white: a wider grey matter would take voxels that are partly white.
        sds[1:] = np.sqrt((sds[1:] ** 2 * weight[1:]).sum() / weight[1:].sum())
        if iteration < N_ITERATIONS - 1:
            field = _bias(values, posterior, means, sds, basis)
    maps = np.zeros((3, *mask.shape), dtype=np.float32)
    maps[:, mask] = posterior
    fluid, grey, white = map(float, means)
    return TissueMaps(maps[1], maps[2], maps[0], (fluid, grey, white))


def _bias(
    values: Doubles, posterior: Doubles, means: Doubles, sds: Doubles, basis: Doubles
) -> Doubles:
    """Return the bias field at a brain's voxels, the exponential of a polynomial of position.

    The polynomial is fitted to the logarithm of the intensities `values` over predicted ones; the
    prediction is from the means of grey and white matter, weighted by `posterior` probabilities.
    `basis` (n_voxels, n_terms) holds the polynomial's terms.
    """
    precision = posterior[1:] * (means[1:, None] / sds[1:, None]) ** 2
    weight = precision.sum(axis=0)
    predicted = (precision * means[1:, None]).sum(axis=0) / (weight + 1e-9)
    ratio = np.log(np.maximum(values, 0.05) / np.maximum(predicted, 0.05))
    weighted = basis * weight[:, None]
    centred = ratio - np.average(ratio, weights=weight + 1e-9)
    ridge = 1e-3 * np.trace(weighted.T @ basis) / basis.shape[1] * np.eye(basis.shape[1])
    coefficients = np.linalg.solve(weighted.T @ basis + ridge, weighted.T @ centred)
    field: Doubles = np.exp(basis @ coefficients)
    return field / np.exp(np.mean(np.log(field)))
