"""Which operations make a view, how often and how strongly."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field

from neurocontrast.settings import Settings
from neurocontrast.transforms.description import Replaceable
from neurocontrast.transforms.ranges import Axes, Probability, SideRange, SigmaRange
from neurocontrast.transforms.site_settings import (
    AffineSettings,
    BiasFieldSettings,
    ContrastSettings,
    GhostingSettings,
    HistogramSettings,
    MaskEdgeSettings,
    ResolutionSettings,
    RicianSettings,
    SharpnessSettings,
    TightMaskSettings,
)

__all__ = ["AugmentSettings", "BlurSettings", "CropSettings", "CutoutSettings", "FlipSettings", "NoiseSettings"]


class FlipSettings(Settings):
    """Mirror along one axis.

    Parameters
    ----------
    probability : float
        How often.
    axes : tuple of int
        Axes of the RAS volume to choose among, each equally likely: 0 swaps left and right,
        1 front and back, 2 top and bottom.
    """

    probability: Probability = 0.5
    axes: Axes = (0, 1, 2)


class BlurSettings(Settings):
    """Gaussian blur.

    Parameters
    ----------
    probability : float
        How often.
    sigma_voxels : tuple of float
        Range of the standard deviation, in voxels, drawn uniformly.
    """

    probability: Probability = 0.5
    sigma_voxels: SigmaRange = (0.1, 1.0)


class NoiseSettings(Settings):
    """Additive Gaussian noise.

    Parameters
    ----------
    probability : float
        How often.
    sigma : tuple of float
        Range of the standard deviation, in units of the volume's intensities (of its own
        standard deviation after z-scoring), drawn uniformly.
    """

    probability: Probability = 0.5
    sigma: SigmaRange = (0.1, 1.0)


class CutoutSettings(Settings):
    """Set one box, wholly inside the volume, to a constant.

    Parameters
    ----------
    probability : float
        How often.
    fraction : tuple of float
        Range of the box's side over the volume's, along every axis, drawn uniformly; sides are rounded up.
    value : float
        What the box is set to; 0 is the mean of a z-scored volume.
    """

    probability: Probability = 0.5
    fraction: SideRange = (0.25, 0.25)
    value: Annotated[float, Field(allow_inf_nan=False)] = 0.0


class CropSettings(Settings):
    """Crop a box and resize it back to the volume's shape, by trilinear interpolation.

    Parameters
    ----------
    probability : float
        How often.
    fraction : tuple of float
        Range of the box's side over the volume's, along every axis, drawn uniformly; sides are rounded up.
    """

    probability: Probability = 0.5
    fraction: SideRange = (0.75, 0.75)


class AugmentSettings(Replaceable):
    """What turns a volume into a view: flip, then what differs between sites, then the rest, each in the order below.

    An operation that is null is off. Each operation's own defaults are the reference
    protocol's (Dufumier et al., 2021); which are on by default was chosen by evidence: the
    crop changes the size of the brain and strong noise hides thin atrophy, both of which
    carry what is to be learnt.

    Parameters
    ----------
    flip, blur, noise, cutout, crop : settings or None
        Each operation's probability and range.
    affine, contrast, histogram, bias_field, sharpness, resolution, ghosting, rician : settings or None
    tight_mask, mask_edge : settings or None
        The same for operations that imitate another scanner or another way to prepare its scans; off by
        default. They are applied between flip and blur.
    transforms : list of mapping or None
        Random transforms of MONAI or of this package, each a mapping with a ``_target_``, in place of the operations
        (`neurocontrast.transforms.build_transforms`). ``[{_target_: python}]`` stands for transforms given as objects.
    """

    section: ClassVar[str] = "augment"
    kind: ClassVar[Literal["volumes"]] = "volumes"
    flip: FlipSettings | None = None
    blur: BlurSettings | None = BlurSettings(sigma_voxels=(0.1, 0.5))
    noise: NoiseSettings | None = NoiseSettings(sigma=(0.05, 0.2))
    cutout: CutoutSettings | None = CutoutSettings()
    crop: CropSettings | None = None
    affine: AffineSettings | None = None
    contrast: ContrastSettings | None = None
    histogram: HistogramSettings | None = None
    bias_field: BiasFieldSettings | None = None
    sharpness: SharpnessSettings | None = None
    resolution: ResolutionSettings | None = None
    ghosting: GhostingSettings | None = None
    rician: RicianSettings | None = None
    tight_mask: TightMaskSettings | None = None
    mask_edge: MaskEdgeSettings | None = None

    @classmethod
    def reference(cls) -> Self:
        """Return the published protocol: all five operations, each half of the time.

        The released code draws a flip's axis among four, the channel's included, so that a quarter of its
        flips do nothing; here every flip is one.
        """
        return cls(
            flip=FlipSettings(),
            blur=BlurSettings(),
            noise=NoiseSettings(),
            cutout=CutoutSettings(),
            crop=CropSettings(),
        )

    @classmethod
    def sites(cls) -> Self:
        """Return every operation that imitates another site, at its defaults, and the cutout.

        Blur and noise are left out: sharpness, resolution and Rician noise take their places.
        """
        return cls(
            blur=None,
            noise=None,
            affine=AffineSettings(),
            contrast=ContrastSettings(),
            histogram=HistogramSettings(),
            bias_field=BiasFieldSettings(),
            sharpness=SharpnessSettings(),
            resolution=ResolutionSettings(),
            ghosting=GhostingSettings(),
            rician=RicianSettings(),
            tight_mask=TightMaskSettings(),
            mask_edge=MaskEdgeSettings(),
        )

    @classmethod
    def off(cls) -> Self:
        """Return settings under which a view is the volume itself."""
        return cls(flip=None, blur=None, noise=None, cutout=None, crop=None)
