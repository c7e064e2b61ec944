"""Settings of the section ``augment`` for natural images; needs neither PyTorch nor Kornia."""

from typing import Annotated, Literal, Self

from pydantic import Field

from neurocontrast.settings import Settings
from neurocontrast.transforms.augment import Pair, Probability, Replaceable, Span

_Strength = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]


class ResizedCropSettings(Settings):
    """Cut a random box out of an image, and resize the box bilinearly to the image's size.

    A box is only ever enlarged, and needs no antialiasing.
    """

    probability: Probability = 1.0
    """Probability that a view is cropped, 0 to 1."""
    scale: Annotated[Pair, Span(gt=0.0, le=1.0)] = (0.2, 1.0)
    """Area of the box over the area of the image, from and to; drawn uniformly."""
    ratio: Annotated[Pair, Span(ge=0.1, le=10.0)] = (0.75, 4.0 / 3.0)
    """Width of the box over its height, from and to; the logarithm is drawn uniformly."""


class ImageAffineSettings(Settings):
    """Rotate, shift and zoom an image around its centre at random.

    If a random box is cropped too (`ResizedCropSettings`), one bilinear interpolation makes both
    changes. Beyond the border of the image, the nearest pixel is repeated.
    """

    probability: Probability = 1.0
    """Probability that a view is rotated, shifted and zoomed, 0 to 1."""
    degrees: float = Field(15.0, ge=0.0, le=180.0, allow_inf_nan=False)
    """Largest rotation to either side, in degrees."""
    translate: float = Field(0.1, ge=0.0, le=0.5, allow_inf_nan=False)
    """Largest shift, as a share of width or height."""
    scale: Annotated[Pair, Span(ge=0.25, le=4.0)] = (0.9, 1.1)
    """Factor of the zoom, from and to; above 1 enlarges. The logarithm is drawn uniformly."""


class ImageFlipSettings(Settings):
    """Mirror an image left to right at random."""

    probability: Probability = 0.5
    """Probability that a view is mirrored, 0 to 1."""


class ColourJitterSettings(Settings):
    """Change brightness, contrast, saturation and hue of an image, in an order drawn for each view.

    The factor of brightness is drawn uniformly from [max(0, 1 − b), 1 + b], with b the setting
    `brightness`; the factors of contrast and saturation are drawn likewise by their settings. The
    shift of the hue is drawn uniformly from [−h, h], with h the setting `hue`.
    """

    probability: Probability = 0.8
    """Probability that colours are changed, 0 to 1."""
    brightness: _Strength = 0.4
    """Largest change of the factor of brightness from 1."""
    contrast: _Strength = 0.4
    """Largest change of the factor of contrast from 1."""
    saturation: _Strength = 0.4
    """Largest change of the factor of saturation from 1."""
    hue: float = Field(0.1, ge=0.0, le=0.5, allow_inf_nan=False)
    """Largest shift of the hue to either side, in turns of the circle of colours."""


class GrayscaleSettings(Settings):
    """Replace the colours of an image by their luma (ITU-R BT.601), in all three channels."""

    probability: Probability = 0.2
    """Probability that a view is grey, 0 to 1."""


class ImageBlurSettings(Settings):
    """Blur an image by a Gaussian, reflecting the image at its border."""

    probability: Probability = 0.5
    """Probability that a view is blurred, 0 to 1."""
    sigma_pixels: Annotated[Pair, Span(gt=0.0, le=10.0)] = (0.1, 2.0)
    """Standard deviation of the Gaussian in pixels, from and to; drawn uniformly."""
    radius_pixels: int | None = Field(None, ge=1, le=40)
    """Radius r in pixels at which the Gaussian is cut, for published settings that state a
    kernel of 2r + 1 pixels; None cuts at four standard deviations.
    """


class ImageAugmentSettings(Replaceable):
    """Choose the operations that turn a natural image into a view, in the order of the fields.

    An operation that is null is off. The defaults are the settings of SupCon on CIFAR (Khosla et
    al., 2020), which SINCERE and other later papers keep.

    Examples
    --------
    >>> from neurocontrast.natural import ImageAugmentSettings
    >>> ImageAugmentSettings(blur={"probability": 0.5}).flip
    ImageFlipSettings(probability=0.5)
    """

    kind: Literal["images"] = "images"
    """Kind of the settings: images. Follows from ``data.kind``, and need not be written."""
    affine: ImageAffineSettings | None = None
    crop: ResizedCropSettings | None = ResizedCropSettings()
    flip: ImageFlipSettings | None = ImageFlipSettings()
    colour_jitter: ColourJitterSettings | None = ColourJitterSettings()
    grayscale: GrayscaleSettings | None = GrayscaleSettings()
    blur: ImageBlurSettings | None = None

    @classmethod
    def off(cls) -> Self:
        """Return settings without any operation, so that a view is the image itself."""
        return cls(crop=None, flip=None, colour_jitter=None, grayscale=None)
