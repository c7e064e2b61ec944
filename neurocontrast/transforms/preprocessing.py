"""What is done to every scan, as settings that an encoder keeps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.files import digest_of
from neurocontrast.settings import Settings, settings_from

if TYPE_CHECKING:
    from monai.transforms import Compose

TRANSFORM_VERSION = 1
"""Raised whenever the same settings would give other voxels: old caches and encoders then do not match."""

SPACING_LIMITS_MM = (0.1, 20.0)  # voxel sizes outside these are taken for a damaged header
SAME_SPACING = 1e-3  # spacings that differ by less than this part are the same
N_VOXELS_MIN = 8  # a scan with fewer voxels along an axis is a slice or a thumbnail
FWHM_PER_SIGMA = 2.3548200450309493
MNI_ORIGIN_MM = (-90.0, -126.0, -72.0)
MNI_EXTENT_MM = (180.0, 216.0, 180.0)
"""The first voxel of grids of MNI152 in RAS order, and how far the centre of the last one is from it."""

_Length = Annotated[int, Field(ge=N_VOXELS_MIN, le=1024)]


def mni_grid(spacing_mm: float) -> tuple[npt.NDArray[np.float64], tuple[int, ...]]:
    """Return affine and shape of the grid of MNI152: 182 × 218 × 182 mm in RAS order, 121 × 145 × 121 at 1.5 mm."""
    affine = np.diag([spacing_mm, spacing_mm, spacing_mm, 1.0])
    affine[:3, 3] = MNI_ORIGIN_MM
    return affine, tuple(1 + int(side / spacing_mm + 1e-6) for side in MNI_EXTENT_MM)


def check_version(contract: Mapping[str, Any]) -> None:
    """Raise a DataError for the contract of a transform version that this installation does not have."""
    version = contract.get("transform_version")
    if version != TRANSFORM_VERSION:
        raise DataError(
            f"preprocessing contract: transform_version is {version!r} and this neurocontrast has "
            f"{TRANSFORM_VERSION}; install the version the encoder was trained with."
        )


def check_erosion(erode_mm: float, spacing_mm: float | None) -> None:
    """Raise a ValueError for an erosion that would take no voxel."""
    if spacing_mm is not None and 0 < erode_mm < spacing_mm * (1 - SAME_SPACING):
        raise ValueError(
            f"data.erode_mm must be 0 or at least the spacing ({spacing_mm:g} mm), got {erode_mm:g}, "
            "which takes no voxel away"
        )


class ScanSettings(Settings):
    """Choose what is done to every scan: resample, crop or pad, erode, normalise, smooth."""

    spacing_mm: Annotated[float, Field(ge=SPACING_LIMITS_MM[0], le=SPACING_LIMITS_MM[1])] | None = (
        1.5
    )
    """Voxel size to resample to, the same along each axis; None keeps each scan's own."""
    shape: tuple[_Length, _Length, _Length] = (121, 145, 121)
    """Voxels to the right, to the front and upwards; what lies outside is cropped, what is missing padded."""
    normalise: Literal["zscore", "zscore-brain", "percentile", "none"] = "zscore"
    """Mean 0 and deviation 1 over the whole box; over its non-zero voxels alone, zeros staying 0 (for skull-stripped
    scans); the brain's `percentiles` to 0 and 1, clipped; or intensities as they are."""
    percentiles: tuple[
        Annotated[float, Field(ge=0, lt=10)], Annotated[float, Field(gt=90, le=100)]
    ] = (1.0, 99.0)
    """The two percentiles of "percentile"."""
    erode_mm: Annotated[float, Field(ge=0, le=30)] = 0.0
    """How much of the brain's edge is taken away; 0 for none."""
    smooth_mm: Annotated[float, Field(ge=0, le=60)] = 0.0
    """Full width at half maximum of the Gaussian that smooths each channel, in millimetres; 0 for none."""

    @model_validator(mode="after")
    def _check_erosion(self) -> Self:
        check_erosion(self.erode_mm, self.spacing_mm)
        return self


class Preprocessing(ScanSettings):
    """Describe what is done to every scan; an encoder keeps it and asks for the same later.

    The order is: axes to RAS, resample, crop or pad around the centre, take away what is not brain,
    normalise, smooth.

    Examples
    --------
    >>> from neurocontrast.transforms import Preprocessing
    >>> Preprocessing(spacing_mm=2.0, normalise="zscore-brain", erode_mm=6.0).normalise
    'zscore-brain'
    """

    orientation: Literal["RAS"] = "RAS"
    """Axes go to the right, to the front, upwards."""
    n_channels: Annotated[int, Field(ge=1)] = 1
    """Files of a scan, each a channel, for instance maps of grey and white matter."""

    @property
    def image_shape(self) -> tuple[int, int, int, int]:
        """The shape of a preprocessed image, (C, D, H, W)."""
        return (self.n_channels, *self.shape)

    @property
    def inside_brain(self) -> bool:
        """Whether anything asks where the brain is; what is not brain then becomes 0."""
        return self.normalise == "percentile" or self.erode_mm > 0

    def contract(self) -> dict[str, Any]:
        """Return what an encoder's JSON holds: the settings in use, and the transform's version.

        Settings that are off are left out, so that contracts and caches of versions without them
        stay valid.
        """
        used = {
            "percentiles": self.normalise == "percentile",
            "erode_mm": self.erode_mm > 0,
            "smooth_mm": self.smooth_mm > 0,
            "n_channels": self.n_channels > 1,
        }
        settings = self.model_dump(
            mode="json", exclude={key for key, is_used in used.items() if not is_used}
        )
        return {"transform_version": TRANSFORM_VERSION, **settings}

    @classmethod
    def from_contract(cls, contract: Mapping[str, Any]) -> Preprocessing:
        """Return the settings of a contract; a DataError names what this installation does not know."""
        check_version(contract)
        settings = {key: value for key, value in contract.items() if key != "transform_version"}
        return cls.from_settings(settings, "preprocessing contract")

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], where: str) -> Preprocessing:
        """Return the settings of a mapping; a DataError calls the mapping `where`, and names all that is wrong."""
        try:
            return settings_from(cls, settings, source=where)
        except ConfigError as error:
            raise DataError(str(error)) from None

    def digest(self) -> str:
        """Return a digest of the contract."""
        return digest_of(
            "preprocessing", *(f"{key}={value}" for key, value in sorted(self.contract().items()))
        )

    def compose(self) -> Compose:
        """Return the transforms that these settings describe (`neurocontrast.transforms.brain_transforms`)."""
        # Asked of the lazy package: settings must load without MONAI and torch.
        from neurocontrast.transforms import brain_transforms

        return brain_transforms(self)
