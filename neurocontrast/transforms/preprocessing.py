"""Settings for preprocessing scans, which are stored with an encoder and applied to every scan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.files import digest_of
from neurocontrast.settings import Settings, settings_from

if TYPE_CHECKING:
    from monai.transforms import Compose

TRANSFORM_VERSION = 1
"""Version of the preprocessing code, raised with each change of output voxels so that cached images
of older versions are not used."""

SPACING_LIMITS_MM = (0.1, 20.0)
"""Smallest and largest plausible voxel size in mm; a header beyond the limits counts as damaged."""
SAME_SPACING = 1e-3
"""Relative difference below which two voxel sizes count as equal."""
N_VOXELS_MIN = 8
"""Smallest number of voxels along an axis of a usable scan; fewer make a slice or a thumbnail."""
FWHM_PER_SIGMA = 2.3548200450309493
"""Full width at half maximum of a Gaussian divided by its standard deviation."""
MNI_ORIGIN_MM = (-90.0, -126.0, -72.0)
"""Centre of the first voxel of MNI152 grids in RAS order, in mm."""
MNI_EXTENT_MM = (180.0, 216.0, 180.0)
"""Distance in mm between the centres of the first and the last voxel of MNI152 grids, along each
axis."""

_Length = Annotated[int, Field(ge=N_VOXELS_MIN, le=1024)]


def mni_grid(spacing_mm: float) -> tuple[npt.NDArray[np.float64], tuple[int, ...]]:
    """Return affine and shape of an MNI152 grid in RAS order, 121 × 145 × 121 voxels at 1.5 mm."""
    affine = np.diag([spacing_mm, spacing_mm, spacing_mm, 1.0])
    affine[:3, 3] = MNI_ORIGIN_MM
    return affine, tuple(1 + int(side / spacing_mm + 1e-6) for side in MNI_EXTENT_MM)


def check_version(contract: Mapping[str, object]) -> None:
    """Raise a DataError if `contract`, stored preprocessing settings, is of another version.

    The version is `TRANSFORM_VERSION` of the preprocessing code.
    """
    version = contract.get("transform_version")
    if version != TRANSFORM_VERSION:
        raise DataError(
            f"preprocessing contract: transform_version is {version!r} and this neurocontrast has "
            f"{TRANSFORM_VERSION}; install the version the encoder was trained with."
        )


def check_erosion(erode_mm: float, spacing_mm: float | None) -> None:
    """Raise a ValueError for an erosion width below the voxel size, which would remove nothing."""
    if spacing_mm is not None and 0 < erode_mm < spacing_mm * (1 - SAME_SPACING):
        raise ValueError(
            f"data.erode_mm must be 0 or at least the spacing ({spacing_mm:g} mm), got "
            f"{erode_mm:g}, which takes no voxel away"
        )


class ScanSettings(Settings):
    """Choose how scans are preprocessed: resample, crop or pad, erode, normalise, smooth."""

    spacing_mm: Annotated[float, Field(ge=SPACING_LIMITS_MM[0], le=SPACING_LIMITS_MM[1])] | None = (
        1.5
    )
    """Voxel size to resample to in mm, the same along each axis; None keeps each scan's voxel
    size."""
    shape: tuple[_Length, _Length, _Length] = (121, 145, 121)
    """Number of voxels to the right, to the front and upwards, to which each scan is cropped or
    padded."""
    normalise: Literal["zscore", "zscore-brain", "percentile", "none"] = "zscore"
    """Normalisation of intensities. ``zscore``: mean 0 and standard deviation 1 over the whole
    volume. ``zscore-brain``: the same over non-zero voxels alone, and zeros stay 0 (for
    skull-stripped scans). ``percentile``: the brain's `percentiles` become 0 and 1, and values
    beyond are clipped. ``none``: intensities as they are."""
    percentiles: tuple[
        Annotated[float, Field(ge=0, lt=10)], Annotated[float, Field(gt=90, le=100)]
    ] = (1.0, 99.0)
    """Two percentiles of brain intensities that become 0 and 1 with ``normalise: percentile``."""
    erode_mm: Annotated[float, Field(ge=0, le=30)] = 0.0
    """Width of the brain's edge that is removed, in millimetres; 0 for none."""
    smooth_mm: Annotated[float, Field(ge=0, le=60)] = 0.0
    """Full width at half maximum of the Gaussian that smooths each channel, in millimetres; 0 for
    none."""

    @model_validator(mode="after")
    def _check_erosion(self) -> Self:
        check_erosion(self.erode_mm, self.spacing_mm)
        return self


class Preprocessing(ScanSettings):
    """Preprocessing settings of an encoder, stored with the weights and applied to every scan.

    The order is: axes to RAS, resample, crop or pad around the centre, mask and erode the brain,
    normalise, smooth.

    Examples
    --------
    >>> from neurocontrast.transforms import Preprocessing
    >>> Preprocessing(spacing_mm=2.0, normalise="zscore-brain", erode_mm=6.0).normalise
    'zscore-brain'
    """

    orientation: Literal["RAS"] = "RAS"
    """Anatomical directions of the image axes: to the right, to the front, upwards."""
    n_channels: Annotated[int, Field(ge=1)] = 1
    """Number of files of each scan, one for each channel, such as maps of grey and white matter."""

    @property
    def image_shape(self) -> tuple[int, int, int, int]:
        """Shape of a preprocessed image, (C, D, H, W)."""
        return (self.n_channels, *self.shape)

    @property
    def inside_brain(self) -> bool:
        """Whether a setting needs a brain mask; voxels outside the brain then become 0."""
        return self.normalise == "percentile" or self.erode_mm > 0

    def contract(self) -> dict[str, object]:
        """Return the settings and the preprocessing version as stored in ``encoder.json``.

        Settings that are off are left out, so that encoders and caches of versions before these
        settings stay valid.
        """
        used = {
            "percentiles": self.normalise == "percentile",
            "erode_mm": self.erode_mm > 0,
            "smooth_mm": self.smooth_mm > 0,
            "n_channels": self.n_channels > 1,
        }
        off = {name for name, is_used in used.items() if not is_used}
        settings = self.model_dump(mode="json", exclude=off)
        return {"transform_version": TRANSFORM_VERSION, **settings}

    @classmethod
    def from_contract(cls, contract: Mapping[str, object]) -> Preprocessing:
        """Return the preprocessing for `contract`, the settings stored in ``encoder.json``.

        A DataError refuses settings of another version of the preprocessing code
        (`TRANSFORM_VERSION`), and unknown settings, which it names.
        """
        check_version(contract)
        settings = {key: value for key, value in contract.items() if key != "transform_version"}
        return cls.from_settings(settings, "preprocessing contract")

    @classmethod
    def from_settings(cls, settings: Mapping[str, object], where: str) -> Preprocessing:
        """Return the preprocessing for `settings`, values by name; a DataError refuses wrong ones.

        `where` tells where the settings are written, for the message.
        """
        try:
            return settings_from(cls, settings, source=where)
        except ConfigError as error:
            raise DataError(str(error)) from None

    def digest(self) -> str:
        """Return a digest of the settings, by which a cache finds the preprocessed images."""
        settings = [f"{key}={value}" for key, value in sorted(self.contract().items())]
        return digest_of("preprocessing", *settings)

    def compose(self) -> Compose:
        """Return the transforms of the settings as a MONAI `Compose`; see `brain_transforms`."""
        # Asked of the lazy package: settings must load without MONAI and torch.
        from neurocontrast.transforms import brain_transforms

        return brain_transforms(self)
