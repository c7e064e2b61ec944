"""The scans that `new_site_causes.py` looks at: how sites differ, and one difference taken away at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from nilearn.datasets import load_mni152_brain_mask
from nilearn.image import resample_img
from scipy import ndimage
from scipy.stats import rankdata
from white_matter import deep_part, read_boxed, white_matter_peak

from neurocontrast.transforms import LoadScand, ResampleByAread
from neurocontrast.transforms.brain import erode, fill_largest
from neurocontrast.transforms.images import affine_of, spacing_of, to_image, voxels_of
from neurocontrast.transforms.preprocessing import Preprocessing

__all__ = [
    "CHANGES",
    "Cohort",
    "Condition",
    "describe",
    "gram",
    "images",
    "read_cohort",
    "without_bias",
    "zones_of",
]

SHAPE = (46, 55, 46)
LEAST = 1e-3
"""What is brain is not 0, so that it is known as brain."""
FLUID_PERCENTILE = 0.5
DARK = 0.5
"""Below this part of white matter a voxel at the brain's surface is fluid or meninges."""
BIAS_FWHM_MM = 56.0
DARK_DEPTH_MM = 10.0
DARK_ON_AVERAGE = 0.75
FWHM = float(np.sqrt(8 * np.log(2)))


@dataclass(frozen=True)
class Condition:
    """One way of making input: changes of the scans, in their order, then the package's own preprocessing."""

    group: str
    label: str
    settings: dict[str, Any] = field(default_factory=dict)
    changes: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[Any, ...]:
        """What makes the images, whatever they are called."""
        return (*self.changes, *sorted(self.settings.items()))


@dataclass(frozen=True)
class Cohort:
    """The scans as they are stored, and what the changes need to know of all of them."""

    table: pd.DataFrame
    names: list[str]
    voxels: list[np.ndarray]
    masks: list[np.ndarray]
    spacing_mm: tuple[float, float, float]
    white: np.ndarray
    fluid: np.ndarray
    template: np.ndarray
    known: np.ndarray
    """Which scans are of a site that the models know."""

    @property
    def site(self) -> np.ndarray:
        """Site of each scan."""
        return self.table["site"].to_numpy(dtype=object).astype(str)


def read_cohort(folder: Path, known_sites: Sequence[str], spacing_mm: float = 4.0) -> Cohort:
    table = pd.read_csv(folder / "participants.tsv", sep="\t", dtype=str, keep_default_na=False)
    table["years"] = pd.to_numeric(table["age"], errors="coerce")
    table = table[table["years"].notna()].reset_index(drop=True)
    paths = [str(folder / path) for path in table["path"]]
    grid = Preprocessing(shape=SHAPE, spacing_mm=spacing_mm, normalise="percentile")
    boxed = [read_boxed(path, grid) for path in paths]
    affine = affine_of(boxed[0]["image"])
    scans = [voxels_of(item["image"])[0] for item in boxed]
    masks = [voxels_of(item["image_brain"])[0] != 0 for item in boxed]
    white, fluid = [], []
    for voxels, inside in zip(scans, masks, strict=True):
        voxels[inside] = np.maximum(voxels[inside], LEAST)
        deep = voxels[deep_part(inside, spacing_of(affine))]
        white.append(white_matter_peak(deep) or float("nan"))
        fluid.append(np.percentile(deep, FLUID_PERCENTILE))
    return Cohort(
        table=table,
        names=paths,
        voxels=scans,
        masks=masks,
        spacing_mm=spacing_of(affine),
        white=np.array(white),
        fluid=np.array(fluid),
        template=template_on_grid(affine, SHAPE),
        known=table["site"].isin(known_sites).to_numpy(),
    )


def template_on_grid(affine: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """Return which voxels of a grid of MNI152 are of the template's brain."""
    brain = load_mni152_brain_mask(resolution=1)
    placed = resample_img(
        brain, affine, tuple(shape), interpolation="nearest", copy_header=True, force_resample=True
    )
    return placed.get_fdata() != 0


def images(cohort: Cohort, condition: Condition) -> np.ndarray:
    """Return every scan as the models see it, a row each: changed, then preprocessed."""
    affine = np.diag([*cohort.spacing_mm, 1.0])
    scans = [
        to_image(_changed(cohort, i, condition)[None], affine, name=name)
        for i, name in enumerate(cohort.names)
    ]
    compose = Preprocessing(**{"spacing_mm": None, "shape": SHAPE, **condition.settings}).compose()
    rows = [voxels_of(compose({"image": scan}, start=1)["image"]) for scan in scans]
    return np.stack(rows).reshape(len(rows), -1)


def _changed(cohort: Cohort, i: int, condition: Condition) -> np.ndarray:
    voxels = cohort.voxels[i]
    for change in condition.changes:
        voxels = CHANGES[change](cohort, i, voxels)
    return voxels


def gram(cohort: Cohort, condition: Condition) -> np.ndarray:
    """Return the products of all pairs of images: all that a linear model, or a kernel, needs of them."""
    rows = images(cohort, condition)
    rows -= rows.mean(axis=0)
    return (rows @ rows.T).astype(np.float64)


# Changes. Each takes the cohort, the scan's number and its voxels, and returns voxels whose
# background is 0.


def without_bias(voxels: np.ndarray, white: float, spacing_mm: Sequence[float]) -> np.ndarray:
    """Divide by the low-pass of the logarithm of what is brighter than half of white matter."""
    sigma = BIAS_FWHM_MM / FWHM / np.array(spacing_mm)
    tissue = (voxels > DARK * white).astype(np.float32)
    smooth = ndimage.gaussian_filter(np.log(np.maximum(voxels, 0.1 * white)) * tissue, sigma)
    smooth /= np.maximum(ndimage.gaussian_filter(tissue, sigma), 1e-3)
    return (voxels / np.exp(smooth - smooth[tissue > 0].mean())).astype(np.float32)


def _without_bias(cohort: Cohort, i: int, voxels: np.ndarray) -> np.ndarray:
    return without_bias(voxels, cohort.white[i], cohort.spacing_mm)


def _ranks(_cohort: Cohort, _i: int, voxels: np.ndarray) -> np.ndarray:
    inside = _mask_of(voxels)
    ranked = np.zeros_like(voxels)
    ranked[inside] = rankdata(voxels[inside]) / np.count_nonzero(inside)
    return ranked


def _fluid_to_white(cohort: Cohort, i: int, voxels: np.ndarray) -> np.ndarray:
    """Fluid to 0.1, white matter to 1: two points instead of one scale."""
    scaled = 0.1 + 0.9 * (voxels - cohort.fluid[i]) / (cohort.white[i] - cohort.fluid[i])
    return np.where(_mask_of(voxels), np.clip(scaled, LEAST, 2), 0).astype(np.float32)


def _without_fluid(cohort: Cohort, i: int, voxels: np.ndarray) -> np.ndarray:
    return np.where(_mask_of(voxels), np.maximum(voxels, DARK * cohort.white[i]), 0).astype(
        np.float32
    )


def _blurred(fwhm_mm: float) -> Callable[[Cohort, int, np.ndarray], np.ndarray]:
    def blur(cohort: Cohort, _i: int, voxels: np.ndarray) -> np.ndarray:
        """Blur within the brain, so that its edge stays where it is."""
        sigma = fwhm_mm / FWHM / np.array(cohort.spacing_mm)
        inside = _mask_of(voxels)
        weight = ndimage.gaussian_filter(inside.astype(np.float32), sigma)
        smooth = ndimage.gaussian_filter(voxels * inside, sigma) / np.maximum(weight, 1e-3)
        return np.where(inside, np.maximum(smooth, LEAST), 0).astype(np.float32)

    return blur


def _moments(mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    places = np.argwhere(mask)
    return places.mean(axis=0), places.std(axis=0)


def _aligned(*, scale: bool) -> Callable[[Cohort, int, np.ndarray], np.ndarray]:
    def align(cohort: Cohort, _i: int, voxels: np.ndarray) -> np.ndarray:
        """Bring the brain's centre (and its spread along each axis) to the template's."""
        centre, spread = _moments(
            _mask_of(voxels) & ndimage.binary_dilation(cohort.template, iterations=2)
        )
        centre_to, spread_to = _moments(cohort.template)
        factor = spread / spread_to if scale else np.ones(3)
        place = {"matrix": factor, "offset": centre - factor * centre_to, "order": 1}
        inside = ndimage.affine_transform(_mask_of(voxels).astype(np.float32), **place) >= 0.5
        moved = ndimage.affine_transform(voxels, **place)
        return np.where(inside, np.maximum(moved, LEAST), 0).astype(np.float32)

    return align


def _within_template(cohort: Cohort, _i: int, voxels: np.ndarray) -> np.ndarray:
    return np.where(cohort.template, voxels, 0).astype(np.float32)


def _donor(cohort: Cohort, i: int, site: str) -> int:
    """Return another scan of a site, drawn without regard to the person."""
    others = np.flatnonzero((cohort.site == site) & (np.arange(len(cohort.names)) != i))
    return int(np.random.default_rng(i).choice(others))


def _cut_by(site: str) -> Callable[[Cohort, int, np.ndarray], np.ndarray]:
    def cut(cohort: Cohort, i: int, voxels: np.ndarray) -> np.ndarray:
        return np.where(cohort.masks[_donor(cohort, i, site)], voxels, 0).astype(np.float32)

    return cut


def _filled_to(site: str) -> Callable[[Cohort, int, np.ndarray], np.ndarray]:
    def fill(cohort: Cohort, i: int, voxels: np.ndarray) -> np.ndarray:
        """Give the brain another's mask of a site; where it has nothing, what that other has there."""
        donor = _donor(cohort, i, site)
        given = cohort.voxels[donor] * np.float32(cohort.white[i] / cohort.white[donor])
        filled = np.where(_mask_of(voxels), np.maximum(voxels, LEAST), given)
        return np.where(cohort.masks[donor], filled, 0).astype(np.float32)

    return fill


def _without_dark_rim(cohort: Cohort, i: int, voxels: np.ndarray) -> np.ndarray:
    """Take away dark voxels that the outside reaches, as a tight skull-stripping does."""
    inside = _mask_of(voxels)
    deep = erode(inside, DARK_DEPTH_MM, cohort.spacing_mm)
    reached, _ = ndimage.label(~inside | ((voxels < DARK * cohort.white[i]) & ~deep))
    return np.where(fill_largest(inside & (reached != reached[0, 0, 0])), voxels, 0).astype(
        np.float32
    )


def _mask_alone(_cohort: Cohort, _i: int, voxels: np.ndarray) -> np.ndarray:
    return _mask_of(voxels).astype(np.float32)


def _mask_of(voxels: np.ndarray) -> np.ndarray:
    return fill_largest(voxels != 0)


CHANGES: dict[str, Callable[[Cohort, int, np.ndarray], np.ndarray]] = {
    "without-bias": _without_bias,
    "ranks": _ranks,
    "fluid-to-white": _fluid_to_white,
    "without-fluid": _without_fluid,
    "blur-8": _blurred(8.0),
    "blur-12": _blurred(12.0),
    "shift": _aligned(scale=False),
    "shift-scale": _aligned(scale=True),
    "within-template": _within_template,
    "cut-by-london": _cut_by("london"),
    "cut-by-novosibirsk": _cut_by("novosibirsk"),
    "filled-to-london": _filled_to("london"),
    "without-dark-rim": _without_dark_rim,
    "mask-alone": _mask_alone,
}


def zones_of(cohort: Cohort) -> dict[str, np.ndarray]:
    """Return parts of the box by their depth in the template's brain; deep, where known scans are dark or not."""
    depth = ndimage.distance_transform_edt(cohort.template, sampling=cohort.spacing_mm)
    known = np.flatnonzero(cohort.known)
    mean = np.mean([cohort.voxels[i] / cohort.white[i] for i in known], axis=0)
    is_dark = mean < DARK_ON_AVERAGE
    return {
        "outside the template's brain": ~cohort.template,
        "its outer 8 mm": cohort.template & (depth <= 8),
        "deeper, 8 to 16 mm": (depth > 8) & (depth <= 16),
        "deeper than 16 mm: fluid and its surroundings": (depth > 16) & is_dark,
        "deeper than 16 mm: tissue": (depth > 16) & ~is_dark,
    }


def describe(paths: Sequence[str]) -> pd.DataFrame:
    """Measure scans on their own grid: what the sites' scanners and skull-stripping leave of a brain."""
    template = None
    rows = []
    for path in paths:
        image = ResampleByAread("image", axcodes="RAS")(LoadScand("image")({"image": path}))[
            "image"
        ]
        stored = voxels_of(image)[0]
        spacing, mask = spacing_of(affine_of(image)), fill_largest(stored != 0)
        if template is None:
            template = template_on_grid(affine_of(image), mask.shape)
            around = ndimage.binary_dilation(template, iterations=3)
            centre_to, spread_to = _moments(template)
        deep = deep_part(mask, spacing)
        white = white_matter_peak(stored[deep]) or float("nan")
        voxels = stored / np.float32(white)
        lower, upper = np.percentile(voxels[deep], [25, 75])
        centre, spread = _moments(mask & around)
        rows.append(
            {
                "brain mask, litres": np.count_nonzero(mask) * np.prod(spacing) / 1e6,
                "of it outside the template's brain, %": 100
                * np.count_nonzero(mask & ~template)
                / mask.sum(),
                "of the template's brain lacking, %": 100
                * np.count_nonzero(template & ~mask)
                / template.sum(),
                "fluid / white matter": np.percentile(voxels[deep], FLUID_PERCENTILE),
                "lower / upper quartile, deep": lower / upper,
                "slow variation of white matter, sd, %": 100
                * _slow_variation(voxels, deep, spacing),
                "smoothness left to right, FWHM, mm": _smoothness(voxels, deep, 0, spacing),
                "smoothness foot to head, FWHM, mm": _smoothness(voxels, deep, 2, spacing),
                "centre from the template's, mm": np.linalg.norm((centre - centre_to) * spacing),
                "height / the template's": spread[2] / spread_to[2],
            }
        )
    return pd.DataFrame(rows)


def _slow_variation(voxels: np.ndarray, deep: np.ndarray, spacing_mm: Sequence[float]) -> float:
    sigma = 0.5 * BIAS_FWHM_MM / FWHM / np.array(spacing_mm)
    white = (deep & (voxels > 0.85) & (voxels < 1.2)).astype(np.float32)
    logarithm = np.log(np.maximum(voxels, 0.1)) * white
    smooth = ndimage.gaussian_filter(logarithm, sigma) / np.maximum(
        ndimage.gaussian_filter(white, sigma), 1e-3
    )
    return float(smooth[white > 0].std())


def _smoothness(
    voxels: np.ndarray, inside: np.ndarray, axis: int, spacing_mm: Sequence[float]
) -> float:
    """Return the width of a Gaussian whose noise differs as much between neighbours (Forman et al., 1995)."""
    steps = np.diff(voxels, axis=axis)
    both = np.take(inside, range(1, inside.shape[axis]), axis) & np.take(
        inside, range(inside.shape[axis] - 1), axis
    )
    share = steps[both].var() / voxels[inside].var()
    return float(spacing_mm[axis] * np.sqrt(-2 * np.log(2) / np.log(1 - share / 2)))
