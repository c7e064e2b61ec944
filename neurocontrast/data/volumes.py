"""From a scan to the array that a network sees."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, ValidationError, model_validator

from neurocontrast.data.brain_mask import brain_of, erode, unpack
from neurocontrast.data.intensity import N_LANDMARKS, mean_of, normalise_inside, normalise_whole
from neurocontrast.data.resampling import SAME_SPACING, crop_or_pad, resample
from neurocontrast.data.scans import N_VOXELS_MIN, SPACING_LIMITS_MM, Scan, in_memory_order, read_scan
from neurocontrast.exceptions import DataError
from neurocontrast.files import digest_of
from neurocontrast.settings import Settings

__all__ = [
    "BRAIN_LITRES_MAX",
    "EXTENT_FILLED_MIN",
    "FOREGROUND_LOST_MAX",
    "N_BRAIN_VOXELS_MIN",
    "TRANSFORM_VERSION",
    "VIEW_FILLED_MIN",
    "Boxed",
    "CommonFraction",
    "CommonView",
    "ErodeMm",
    "Normalise",
    "Percentiles",
    "Preprocessing",
    "Shape",
    "SpacingMm",
    "box_scan",
    "check_erosion",
    "load_volume",
    "preprocess",
]

TRANSFORM_VERSION = 1
"""Raised whenever the same settings would give other voxels: old caches and encoders then do not match."""

FOREGROUND_LOST_MAX = {"brain": 0.10, "head": 0.20}
"""A scan is refused when cropping takes away more than this part of its voxels above its mean.

More than half of the voxels of a skull-stripped brain are 0; any other scan counts as a head,
which may lose its neck.
"""

EXTENT_FILLED_MIN = 0.5
"""A scan is refused when it covers less than this part of the box along an axis: the rest would be padding."""

BRAIN_LITRES_MAX = 3.0
"""A scan with more than this that is not 0 has its skull, and what is computed inside the brain refuses it."""

N_BRAIN_VOXELS_MIN = 500
"""What is computed inside the brain refuses a scan with fewer voxels of it."""

VIEW_FILLED_MIN = 0.9
"""A brain that fills less than this part of the common view is not registered as it should be."""

_Length = Annotated[int, Field(ge=N_VOXELS_MIN, le=1024)]

SpacingMm = Annotated[float, Field(ge=SPACING_LIMITS_MM[0], le=SPACING_LIMITS_MM[1])]
Shape = tuple[_Length, _Length, _Length]
Normalise = Literal["zscore", "zscore-brain", "percentile", "white-matter", "histogram", "none"]
Percentiles = tuple[Annotated[float, Field(ge=0, lt=10)], Annotated[float, Field(gt=90, le=100)]]
ErodeMm = Annotated[float, Field(ge=0, le=30)]
CommonView = Literal["none", "template", "cohort"]
CommonFraction = Annotated[float, Field(gt=0, le=1)]


def check_erosion(erode_mm: float, spacing_mm: float | None) -> None:
    """Refuse an erosion that would take no voxel.

    Raises
    ------
    ValueError
        Naming both settings.
    """
    if spacing_mm is not None and 0 < erode_mm < spacing_mm * (1 - SAME_SPACING):
        raise ValueError(
            f"data.erode_mm must be 0 or at least the spacing ({spacing_mm:g} mm), got {erode_mm:g}, "
            "which takes no voxel away"
        )


class Preprocessing(Settings):
    """What is done to every scan; an encoder keeps it and asks for the same later.

    The order is: axes to RAS, resample, crop or pad around the centre, take away what is not brain, normalise.

    Parameters
    ----------
    spacing_mm : float or None
        Voxel size to resample to, the same along each axis; None keeps each scan's own.
    shape : tuple of int
        Voxels to the right, to the front and upwards; what lies outside is cropped, what is missing padded.
    normalise : {"zscore", "zscore-brain", "percentile", "white-matter", "histogram", "none"}
        Mean 0 and deviation 1 over the whole box; over its non-zero voxels alone, zeros staying 0
        (for skull-stripped scans); the brain's `percentiles` to 0 and 1, clipped; the peak of white
        matter in a T1w brain to 1; the brain's histogram to the `landmarks` of the cohort; or
        intensities as they are.
    orientation : {"RAS"}
        Axes go to the right, to the front, upwards.
    percentiles : tuple of float
        The outer two of "percentile" and "histogram".
    erode_mm : float
        How much of the brain's edge is taken away; 0 for none.
    common_view : {"none", "template", "cohort"}
        Keep what is brain in the MNI152 template, or in `common_fraction` of a cohort's scans at each of
        its sites.
    common_fraction : float
        Of the scans of each site.
    landmarks : tuple of float or None
        Fitted for "histogram" (`neurocontrast.data.fit_preprocessing`).
    view : str or None
        Fitted for `common_view`: the mask, as `neurocontrast.data.brain_mask.pack` writes it.
    """

    spacing_mm: SpacingMm | None = 1.5
    shape: Shape = (121, 145, 121)
    normalise: Normalise = "zscore"
    orientation: Literal["RAS"] = "RAS"
    percentiles: Percentiles = (1.0, 99.0)
    erode_mm: ErodeMm = 0.0
    common_view: CommonView = "none"
    common_fraction: CommonFraction = 0.95
    landmarks: tuple[float, ...] | None = None
    view: str | None = None

    @model_validator(mode="after")
    def _check(self) -> Preprocessing:
        check_erosion(self.erode_mm, self.spacing_mm)
        if self.landmarks is not None:
            steps = np.diff(self.landmarks)
            if self.normalise != "histogram" or len(steps) != N_LANDMARKS - 1 or not (steps >= 0).all():
                raise ValueError(
                    f"landmarks are {N_LANDMARKS} numbers that do not fall, and belong to normalise 'histogram'"
                )
        if self.view is not None:
            if self.common_view == "none":
                raise ValueError("view belongs to common_view 'template' or 'cohort', and common_view is 'none'")
            try:
                unpack(self.view, self.shape)
            except ValueError as error:
                raise ValueError(f"view {error}") from error
        return self

    @property
    def inside_brain(self) -> bool:
        """Whether anything asks where the brain is; what is not brain then becomes 0."""
        of_intensity = self.normalise in ("percentile", "white-matter", "histogram")
        return of_intensity or self.erode_mm > 0 or self.common_view != "none"

    @property
    def unfitted(self) -> tuple[str, ...]:
        """What must be fitted on a cohort before a scan can be preprocessed: of "view" and "landmarks"."""
        view = ("view",) if self.common_view != "none" and self.view is None else ()
        return view + (("landmarks",) if self.normalise == "histogram" and self.landmarks is None else ())

    def contract(self) -> dict[str, Any]:
        """Return what an encoder's JSON holds: the settings in use, what was fitted, and the transform's version.

        What is switched off is left out, so that contracts (and caches) from before it existed are the same.
        """
        used = {
            "percentiles": self.normalise in ("percentile", "histogram"),
            "erode_mm": self.erode_mm > 0,
            "common_view": self.common_view != "none",
            "common_fraction": self.common_view == "cohort",
            "landmarks": self.landmarks is not None,
            "view": self.view is not None,
        }
        settings = self.model_dump(mode="json", exclude={key for key, is_used in used.items() if not is_used})
        return {"transform_version": TRANSFORM_VERSION, **settings}

    @classmethod
    def from_contract(cls, contract: Mapping[str, Any]) -> Preprocessing:
        """Return the settings of a contract.

        Raises
        ------
        DataError
            For a transform version that this installation does not have, or settings it does not know.
        """
        version = contract.get("transform_version")
        if version != TRANSFORM_VERSION:
            raise DataError(
                f"preprocessing contract: transform_version is {version!r} and this neurocontrast has "
                f"{TRANSFORM_VERSION}; install the version the encoder was trained with."
            )
        try:
            return cls.model_validate({key: value for key, value in contract.items() if key != "transform_version"})
        except ValidationError as error:
            found = "; ".join(
                f"{'.'.join(map(str, each['loc'])) or 'settings'}: {each['msg'].removeprefix('Value error, ')}"
                + (f", found {each['input']!r}" if each["loc"] else "")
                for each in error.errors()
            )
            raise DataError(f"preprocessing contract: {found}") from error

    def digest(self) -> str:
        """Return a digest of the contract."""
        return digest_of("preprocessing", *(f"{key}={value}" for key, value in sorted(self.contract().items())))


def load_volume(path: str | os.PathLike[str], preprocessing: Preprocessing) -> npt.NDArray[np.float32]:
    """Read a scan and preprocess it.

    Returns
    -------
    ndarray
        float32, ``(1, *preprocessing.shape)``, axes to the right, to the front, upwards.

    Raises
    ------
    DataError
        Naming the file, where it cannot be read or does not fit.
    """
    return preprocess(read_scan(path), preprocessing, name=os.fspath(path))


def preprocess(scan: Scan, preprocessing: Preprocessing, *, name: str = "scan") -> npt.NDArray[np.float32]:
    """Resample, crop or pad, mask and normalise a scan, as `load_volume` does."""
    if preprocessing.unfitted:
        raise DataError(
            f"the preprocessing has no {' and no '.join(preprocessing.unfitted)} yet, which `pretrain` fits on its "
            "scans. Fit it first (neurocontrast.data.fit_preprocessing), or take that of an encoder."
        )
    boxed = box_scan(scan, preprocessing, name=name)
    if boxed.inside is None:
        normalised = normalise_whole(boxed.voxels, preprocessing.normalise)
    else:
        normalised = normalise_inside(
            boxed.voxels,
            boxed.inside,
            preprocessing.normalise,
            spacing_mm=boxed.spacing_mm,
            percentiles=preprocessing.percentiles,
            landmarks=preprocessing.landmarks,
            name=name,
        )
    if normalised is None:
        raise DataError(f"{name}: nothing varies in the {_times(preprocessing.shape)} box around the scan's centre.")
    return normalised[np.newaxis]


@dataclass(frozen=True, eq=False)
class Boxed:
    """A scan in its box, not normalised: voxels, which of them are brain (where that is asked), and their size."""

    voxels: npt.NDArray[np.float32]
    inside: npt.NDArray[np.bool_] | None
    spacing_mm: tuple[float, float, float]


def box_scan(scan: Scan, preprocessing: Preprocessing, *, name: str = "scan") -> Boxed:
    """Do all that `preprocess` does to a scan before intensities are normalised; a view that is not fitted is left out.

    Raises
    ------
    DataError
        For a scan that does not fit the box or the view, or whose brain is not to be found.
    """
    spacing = _target_spacing(scan, preprocessing)
    _check_fit(scan, preprocessing.shape, spacing, name)
    if preprocessing.inside_brain:
        _check_stripped(scan, spacing, name)
    # The corners are background in any usual scan, and padding continues it.
    corners = scan.voxels[tuple(slice(None, None, n - 1) for n in scan.voxels.shape)]
    is_zero = preprocessing.inside_brain or preprocessing.normalise == "zscore-brain"
    background = np.float32(0 if is_zero else np.median(corners))
    if scan.spacing_mm is None or np.allclose(scan.spacing_mm, spacing, rtol=SAME_SPACING, atol=0):
        grid = None
        boxed = crop_or_pad(scan.voxels, preprocessing.shape, background)
    else:
        grid = spacing
        boxed = resample(scan.voxels, scan.spacing_mm, preprocessing.shape, spacing, background=float(background))
    if not preprocessing.inside_brain:
        return Boxed(boxed, None, spacing)
    inside = _inside(brain_of(scan, preprocessing.shape, grid), preprocessing, spacing, name)
    np.copyto(boxed, 0, where=~inside)
    return Boxed(boxed, inside, spacing)


def _check_stripped(scan: Scan, spacing_mm: tuple[float, ...], name: str) -> None:
    own = scan.spacing_mm or spacing_mm
    litres = np.count_nonzero(scan.voxels != 0) * float(np.prod(own)) / 1e6
    if litres > BRAIN_LITRES_MAX:
        raise DataError(
            f"{name}: {litres:.1f} litres of it are not 0, and a brain has less than {BRAIN_LITRES_MAX:g}: this is a "
            "whole head, or its background is not 0. What was chosen in data.normalise, data.erode_mm or "
            "data.common_view works inside the brain: strip the skulls first (SynthStrip, HD-BET), or use zscore, "
            "no erosion and no common view."
        )


def _inside(
    brain: npt.NDArray[np.bool_], preprocessing: Preprocessing, spacing: tuple[float, float, float], name: str
) -> npt.NDArray[np.bool_]:
    """Return the part of a brain that is kept."""
    n_brain, inside = np.count_nonzero(brain), brain
    if preprocessing.erode_mm:
        try:
            check_erosion(preprocessing.erode_mm, min(spacing))
        except ValueError as error:  # of a scan that keeps its own spacing
            raise DataError(f"{name}: {error}.") from error
        inside = erode(brain, preprocessing.erode_mm, spacing)
    if preprocessing.view is not None:
        view = unpack(preprocessing.view, preprocessing.shape)
        filled = np.count_nonzero(brain & view) / np.count_nonzero(view)
        if filled < VIEW_FILLED_MIN:
            raise DataError(
                f"{name}: its brain fills {filled:.0%} of the common view (data.common_view: "
                f"{preprocessing.common_view}), at least {VIEW_FILLED_MIN:.0%} is needed: it is not registered as the "
                "others are. Register it to MNI152, leave it out, or take data.common_view: none."
            )
        inside = inside & view
    n_kept = np.count_nonzero(inside)
    if n_kept < N_BRAIN_VOXELS_MIN:
        lost = f" {n_brain} before data.erode_mm: {preprocessing.erode_mm:g}," if preprocessing.erode_mm else ""
        raise DataError(
            f"{name}: {n_kept} voxels of its brain are in the {_times(preprocessing.shape)} box,{lost} and at least "
            f"{N_BRAIN_VOXELS_MIN} are needed. Is it skull-stripped and whole?"
        )
    return inside


def _target_spacing(scan: Scan, preprocessing: Preprocessing) -> tuple[float, float, float]:
    if preprocessing.spacing_mm is not None:
        return (preprocessing.spacing_mm,) * 3
    return scan.spacing_mm or (1.0, 1.0, 1.0)


def _check_fit(scan: Scan, shape: tuple[int, ...], spacing_mm: tuple[float, ...], name: str) -> None:
    """Refuse a scan whose field of view differs too much from the box it is to fill."""
    source_spacing = scan.spacing_mm or spacing_mm
    extent = np.array(scan.voxels.shape) * source_spacing
    box = np.array(shape) * spacing_mm
    what = f"the scan covers {_times(extent.round())} mm and the box of {_times(shape)} voxels {_times(box.round())} mm"
    if (extent < EXTENT_FILLED_MIN * box).any():
        raise DataError(
            f"{name}: {what}; along an axis less than {EXTENT_FILLED_MIN:.0%} of the box would be filled. "
            "Change data.shape or data.spacing_mm, or leave the scan out."
        )
    if (extent <= box).all():
        return
    stored, axes, _ = in_memory_order(scan.voxels)
    inside = []
    for axis in axes:
        away = np.abs(np.arange(scan.voxels.shape[axis]) - (scan.voxels.shape[axis] - 1) / 2) * source_spacing[axis]
        kept = np.flatnonzero(away <= box[axis] / 2)
        inside.append(slice(kept[0], kept[-1] + 1))
    foreground = stored > mean_of(stored)
    lost = 1 - np.count_nonzero(foreground[tuple(inside)]) / np.count_nonzero(foreground)
    if lost <= min(FOREGROUND_LOST_MAX.values()):
        return
    kind = "brain" if np.count_nonzero(stored) < 0.5 * stored.size else "head"
    if lost > FOREGROUND_LOST_MAX[kind]:
        raise DataError(
            f"{name}: {what}; {lost:.0%} of the voxels above its mean would be cropped away, at most "
            f"{FOREGROUND_LOST_MAX[kind]:.0%} of a {kind} may. "
            "Change data.shape or data.spacing_mm, or leave the scan out."
        )


def _times(lengths: Any) -> str:
    return " × ".join(f"{length:g}" for length in lengths)
