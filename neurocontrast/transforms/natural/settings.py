"""The section ``augment:`` of natural images: which operations make a view, how often and how strongly."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from neurocontrast.settings import Settings
from neurocontrast.transforms.description import Replaceable
from neurocontrast.transforms.operation import Pair, Probability, Span

__all__ = [
    "ColourJitterSettings",
    "GrayscaleSettings",
    "ImageAffineSettings",
    "ImageAugmentSettings",
    "ImageBlurSettings",
    "ImageFlipSettings",
    "PadCropSettings",
    "ResizedCropSettings",
]

Outside = Literal["black", "edge"]


class ResizedCropSettings(Settings):
    """Cut out a box and resize it to the image's own size, bilinearly (random resized crop).

    A box is never larger than the image, so that resizing only enlarges and needs no antialiasing.

    Parameters
    ----------
    probability : float
        How often.
    scale : tuple of float
        Range of the box's area over the image's, drawn uniformly.
    ratio : tuple of float
        Range of the box's width over its height, its logarithm drawn uniformly.
    """

    probability: Probability = 1.0
    scale: Annotated[Pair, Span(gt=0.0, le=1.0)] = (0.2, 1.0)
    ratio: Annotated[Pair, Span(ge=0.1, le=10.0)] = (0.75, 4.0 / 3.0)


class PadCropSettings(Settings):
    """Shift by whole pixels: pad all sides, then cut out a box of the image's own size at random.

    Parameters
    ----------
    padding : int
        Pixels added to each side, and so the largest shift.
    outside : {"black", "edge"}
        What is added: zeros, or the nearest pixel of the image.
    """

    padding: int = Field(4, ge=1, le=256)
    outside: Outside = "black"


class ImageAffineSettings(Settings):
    """Turn, shift, zoom and shear about the centre, in one bilinear interpolation together with the resized crop.

    Parameters
    ----------
    probability : float
        How often.
    degrees, shear_degrees : float
        Largest rotation, and largest horizontal shear, to either side.
    translate : float
        Largest shift to either side, over the image's width or height.
    scale : tuple of float
        Range of the zoom, its logarithm drawn uniformly; above 1 enlarges.
    outside : {"black", "edge"}
        What comes into view from beyond the border: zeros, or the nearest pixel of the image.
    """

    probability: Probability = 1.0
    degrees: float = Field(15.0, ge=0.0, le=180.0, allow_inf_nan=False)
    translate: float = Field(0.1, ge=0.0, le=0.5, allow_inf_nan=False)
    scale: Annotated[Pair, Span(ge=0.25, le=4.0)] = (0.9, 1.1)
    shear_degrees: float = Field(0.0, ge=0.0, le=45.0, allow_inf_nan=False)
    outside: Outside = "edge"


class ImageFlipSettings(Settings):
    """Swap left and right, as often as `probability` says."""

    probability: Probability = 0.5


class ColourJitterSettings(Settings):
    """Change brightness, contrast, saturation and hue, in an order drawn anew for each view.

    Parameters
    ----------
    probability : float
        How often all four are applied.
    brightness, contrast, saturation : float
        A factor is drawn uniformly from [max(0, 1 − value), 1 + value].
    hue : float
        Largest shift to either side, in turns of the colour circle, drawn uniformly.
    """

    probability: Probability = 0.8
    brightness: float = Field(0.4, ge=0.0, le=1.0, allow_inf_nan=False)
    contrast: float = Field(0.4, ge=0.0, le=1.0, allow_inf_nan=False)
    saturation: float = Field(0.4, ge=0.0, le=1.0, allow_inf_nan=False)
    hue: float = Field(0.1, ge=0.0, le=0.5, allow_inf_nan=False)


class GrayscaleSettings(Settings):
    """Replace all three channels by the luma (ITU-R BT.601), as often as `probability` says."""

    probability: Probability = 0.2


class ImageBlurSettings(Settings):
    """Gaussian blur, the image reflected at its border.

    Parameters
    ----------
    probability : float
        How often.
    sigma_pixels : tuple of float
        Range of the standard deviation, in pixels, drawn uniformly.
    radius_pixels : int or None
        How far from its middle the Gaussian is cut, for published settings that state the size of a kernel: 2r + 1
        pixels. None: at four standard deviations.
    """

    probability: Probability = 0.5
    sigma_pixels: Annotated[Pair, Span(gt=0.0, le=10.0)] = (0.1, 2.0)
    radius_pixels: int | None = Field(None, ge=1, le=40)


class ImageAugmentSettings(Replaceable):
    """What turns a natural image into a view: the operations below, in this order.

    An operation that is null is off. The defaults are those of SupCon on CIFAR (Khosla et al., 2020), which
    SINCERE and others after it keep.

    Parameters
    ----------
    kind : {"images"}
        Says that these are settings for images; follows ``data.kind`` and need not be written.
    affine, crop : settings or None
        Rotation and the like, then the random resized crop: both in one interpolation.
    pad_crop : settings or None
        The whole-pixel alternative to `crop`; one of the two at most.
    flip, colour_jitter, grayscale, blur : settings or None
        Each operation's probability and range.
    transforms : list of mapping or None
        As of `neurocontrast.transforms.AugmentSettings`.

    Examples
    --------
    >>> from neurocontrast.transforms import ImageAugmentSettings
    >>> ImageAugmentSettings(blur={"probability": 0.5}).flip
    ImageFlipSettings(probability=0.5)
    """

    section: ClassVar[str] = "augment"
    kind: Literal["images"] = "images"
    affine: ImageAffineSettings | None = None
    crop: ResizedCropSettings | None = ResizedCropSettings()
    pad_crop: PadCropSettings | None = None
    flip: ImageFlipSettings | None = ImageFlipSettings()
    colour_jitter: ColourJitterSettings | None = ColourJitterSettings()
    grayscale: GrayscaleSettings | None = GrayscaleSettings()
    blur: ImageBlurSettings | None = None

    @model_validator(mode="after")
    def _one_crop(self) -> Self:
        if self.crop is not None and self.pad_crop is not None:
            raise ValueError(
                "crop and pad_crop are two ways to do one thing, and both are given (crop is on by default). "
                "Set one of them to null."
            )
        return self

    @classmethod
    def supcon(cls) -> Self:
        """Return SupCon's views of CIFAR (Khosla et al., 2020), the default: boxes of 20 to 100 % of the area."""
        return cls()

    @classmethod
    def simclr(cls) -> Self:
        """Return SimCLR's views of CIFAR (Chen et al., 2020, appendix B.9): boxes of 8 to 100 %, strength 0.5.

        Its colour distortion of strength 0.5 is the same jitter as SupCon's; no blur at this size of image.
        """
        return cls(crop=ResizedCropSettings(scale=(0.08, 1.0)))

    @classmethod
    def digits(cls) -> Self:
        """Return views that keep a digit what it is, and its colours: small rotations, shifts and zooms, no flip."""
        crop = ResizedCropSettings(scale=(0.6, 1.0))
        return cls(affine=ImageAffineSettings(), crop=crop, flip=None, colour_jitter=None, grayscale=None)

    @classmethod
    def off(cls) -> Self:
        """Return settings under which a view is the image itself."""
        return cls(crop=None, flip=None, colour_jitter=None, grayscale=None)
