"""The section ``augment:`` of natural images. Loads neither PyTorch nor Kornia."""

from typing import Annotated, Literal, Self

from pydantic import Field

from neurocontrast.settings import Settings
from neurocontrast.transforms.augment import Pair, Probability, Replaceable, Span

_Strength = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]


class ResizedCropSettings(Settings):
    """Cut out a box and resize the box to the image's own size, bilinearly.

    A box is only ever enlarged, and needs no antialiasing.
    """

    probability: Probability = 1.0
    """How often a view is cropped."""
    scale: Annotated[Pair, Span(gt=0.0, le=1.0)] = (0.2, 1.0)
    """Area of the box over the image's, drawn uniformly."""
    ratio: Annotated[Pair, Span(ge=0.1, le=10.0)] = (0.75, 4.0 / 3.0)
    """Width of the box over its height; the logarithm is uniform."""


class ImageAffineSettings(Settings):
    """Turn, shift and zoom about the centre.

    One bilinear interpolation does this and the resized crop. Beyond the border is the nearest
    pixel of the image.
    """

    probability: Probability = 1.0
    """How often a view is moved."""
    degrees: float = Field(15.0, ge=0.0, le=180.0, allow_inf_nan=False)
    """Largest rotation to either side."""
    translate: float = Field(0.1, ge=0.0, le=0.5, allow_inf_nan=False)
    """Largest shift, over width or height."""
    scale: Annotated[Pair, Span(ge=0.25, le=4.0)] = (0.9, 1.1)
    """Zoom, whose logarithm is uniform; above 1 enlarges."""


class ImageFlipSettings(Settings):
    """Swap left and right."""

    probability: Probability = 0.5
    """How often a view is mirrored."""


class ColourJitterSettings(Settings):
    """Change brightness, contrast, saturation and hue, in an order drawn for each view.

    A factor is drawn uniformly from [max(0, 1 − value), 1 + value].
    """

    probability: Probability = 0.8
    """How often colours are changed."""
    brightness: _Strength = 0.4
    """Strength of the change of brightness."""
    contrast: _Strength = 0.4
    """Strength of the change of contrast."""
    saturation: _Strength = 0.4
    """Strength of the change of saturation."""
    hue: float = Field(0.1, ge=0.0, le=0.5, allow_inf_nan=False)
    """Turns of the circle of colours by which the hue moves at most."""


class GrayscaleSettings(Settings):
    """Replace all three channels by the luma (ITU-R BT.601)."""

    probability: Probability = 0.2
    """How often a view is grey."""


class ImageBlurSettings(Settings):
    """Blur by a Gaussian, the image reflected at its border."""

    probability: Probability = 0.5
    """How often a view is blurred."""
    sigma_pixels: Annotated[Pair, Span(gt=0.0, le=10.0)] = (0.1, 2.0)
    """Standard deviation of the Gaussian."""
    radius_pixels: int | None = Field(None, ge=1, le=40)
    """Pixels at which the Gaussian is cut, for published settings that state the size of a kernel
    (2r + 1 pixels); None: four standard deviations."""


class ImageAugmentSettings(Replaceable):
    """Choose the operations that turn a natural image into a view, in the order below.

    An operation that is null is off. The defaults are those of SupCon on CIFAR (Khosla et al.,
    2020), which SINCERE and others after it keep.

    Examples
    --------
    >>> from neurocontrast.natural import ImageAugmentSettings
    >>> ImageAugmentSettings(blur={"probability": 0.5}).flip
    ImageFlipSettings(probability=0.5)
    """

    kind: Literal["images"] = "images"
    """Says that these are settings for images; follows ``data.kind`` and need not be written."""
    affine: ImageAffineSettings | None = None
    crop: ResizedCropSettings | None = ResizedCropSettings()
    flip: ImageFlipSettings | None = ImageFlipSettings()
    colour_jitter: ColourJitterSettings | None = ColourJitterSettings()
    grayscale: GrayscaleSettings | None = GrayscaleSettings()
    blur: ImageBlurSettings | None = None

    @classmethod
    def off(cls) -> Self:
        """Return settings under which a view is the image itself."""
        return cls(crop=None, flip=None, colour_jitter=None, grayscale=None)
