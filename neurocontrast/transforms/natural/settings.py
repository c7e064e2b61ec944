"""The section ``augment:`` of natural images, and what is drawn for a batch: every number keyed, all images at once."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field

from neurocontrast.seeds import derive_uniforms
from neurocontrast.settings import Settings
from neurocontrast.transforms.augment import Pair, Probability, Span
from neurocontrast.transforms.description import Replaceable

COLOUR_STEPS = ("brightness", "contrast", "saturation", "hue")
NEUTRAL_FACTORS = (1.0, 1.0, 1.0, 0.0)
_ORDERS = np.array(list(itertools.permutations(range(len(COLOUR_STEPS)))))
_N_TRIES = 10


class ResizedCropSettings(Settings):
    """Cut out a box and resize it to the image's own size, bilinearly; only ever enlarged, it needs no antialiasing."""

    probability: Probability = 1.0
    scale: Annotated[Pair, Span(gt=0.0, le=1.0)] = (0.2, 1.0)  # the box's area over the image's, drawn uniformly
    ratio: Annotated[Pair, Span(ge=0.1, le=10.0)] = (0.75, 4.0 / 3.0)  # width over height; its logarithm is uniform


class ImageAffineSettings(Settings):
    """Turn, shift and zoom about the centre, in one bilinear interpolation together with the resized crop.

    What comes into view from beyond the border is the nearest pixel of the image.
    """

    probability: Probability = 1.0
    degrees: float = Field(15.0, ge=0.0, le=180.0, allow_inf_nan=False)  # largest rotation to either side
    translate: float = Field(0.1, ge=0.0, le=0.5, allow_inf_nan=False)  # largest shift, over width or height
    scale: Annotated[Pair, Span(ge=0.25, le=4.0)] = (0.9, 1.1)  # zoom, its logarithm uniform; above 1 enlarges


class ImageFlipSettings(Settings):
    """Swap left and right."""

    probability: Probability = 0.5


class ColourJitterSettings(Settings):
    """Change brightness, contrast, saturation and hue, in an order drawn anew for each view.

    A factor is drawn uniformly from [max(0, 1 − value), 1 + value]; the hue moves by up to ``hue`` turns of the circle.
    """

    probability: Probability = 0.8
    brightness: float = Field(0.4, ge=0.0, le=1.0, allow_inf_nan=False)
    contrast: float = Field(0.4, ge=0.0, le=1.0, allow_inf_nan=False)
    saturation: float = Field(0.4, ge=0.0, le=1.0, allow_inf_nan=False)
    hue: float = Field(0.1, ge=0.0, le=0.5, allow_inf_nan=False)


class GrayscaleSettings(Settings):
    """Replace all three channels by the luma (ITU-R BT.601)."""

    probability: Probability = 0.2


class ImageBlurSettings(Settings):
    """Gaussian blur, the image reflected at its border.

    The Gaussian is cut at `radius_pixels`, for published settings that state the size of a kernel (2r + 1 pixels);
    None: at four standard deviations.
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
    flip, colour_jitter, grayscale, blur : settings or None
        Each operation's probability and range.
    transforms : list of mapping or None
        See `neurocontrast.transforms.AugmentSettings`.

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
    flip: ImageFlipSettings | None = ImageFlipSettings()
    colour_jitter: ColourJitterSettings | None = ColourJitterSettings()
    grayscale: GrayscaleSettings | None = GrayscaleSettings()
    blur: ImageBlurSettings | None = None

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


@dataclass(frozen=True)
class ImageViewParameters:
    """What was drawn for one view of each of n images; neutral where an operation is not applied to the image."""

    turned: np.ndarray  # by the affine operation; these flags are bool, of shape (n,)
    radians: np.ndarray  # of a turn that is counterclockwise as one looks at the image
    zoom: np.ndarray
    translation: np.ndarray  # (n, 2): downwards and to the right, in pixels
    cropped: np.ndarray
    corners: np.ndarray  # (n, 2): first row and column of the box
    sizes: np.ndarray  # (n, 2): height and width of the box; those of the image where it is not cropped
    flipped: np.ndarray
    jittered: np.ndarray
    factors: np.ndarray  # (n, 4): one for each of `COLOUR_STEPS`; the last is a shift in turns
    order: np.ndarray  # (n, 4): order[i, k] is the step of `COLOUR_STEPS` that image i takes as its k-th
    gray: np.ndarray
    blurred: np.ndarray
    sigma_pixels: np.ndarray

    def of(self, rows: slice | np.ndarray) -> Self:
        """Return the parameters of some of the images."""
        return type(self)(**{field.name: getattr(self, field.name)[rows] for field in fields(self)})


def draw_image_views(
    settings: ImageAugmentSettings, seeds: Sequence[int] | np.ndarray, *, size: tuple[int, int]
) -> ImageViewParameters:
    """Draw the parameters of a view of each image, of `size` (height, width), from a seed of its own.

    What is drawn for an image depends on these settings, its seed and `size` alone. Each operation has numbers of its
    own: switching one on or off leaves the others as they were.
    """

    def uniforms(operation: str, n_numbers: int) -> np.ndarray:
        return derive_uniforms("image view", operation, samples=seeds, n_numbers=n_numbers)

    drawn = _neutral(len(seeds), size)
    if settings.affine:
        drawn |= _draw_affine(settings.affine, uniforms("affine", 6), size)
    if settings.crop:
        drawn |= _draw_crop(settings.crop, uniforms("crop", 3 + 2 * _N_TRIES), size)
    if settings.flip:
        drawn["flipped"] = uniforms("flip", 1)[:, 0] < settings.flip.probability
    if settings.colour_jitter:
        drawn |= _draw_jitter(settings.colour_jitter, uniforms("colour_jitter", 6))
    if settings.grayscale:
        drawn["gray"] = uniforms("grayscale", 1)[:, 0] < settings.grayscale.probability
    if settings.blur:
        u = uniforms("blur", 2)
        drawn["blurred"] = u[:, 0] < settings.blur.probability
        drawn["sigma_pixels"] = _between(settings.blur.sigma_pixels, u[:, 1])
    return ImageViewParameters(**drawn)


def _neutral(n_images: int, size: tuple[int, int]) -> dict[str, np.ndarray]:
    nowhere, zeros = np.zeros(n_images, dtype=bool), np.zeros((n_images, 2), dtype=np.int64)
    return {
        **dict.fromkeys(("turned", "cropped", "flipped", "jittered", "gray", "blurred"), nowhere),
        "radians": np.zeros(n_images),
        **dict.fromkeys(("zoom", "sigma_pixels"), np.ones(n_images)),
        **dict.fromkeys(("translation", "corners"), zeros),
        "sizes": np.tile(np.array(size, dtype=np.int64), (n_images, 1)),
        "factors": np.tile(NEUTRAL_FACTORS, (n_images, 1)),
        "order": np.tile(_ORDERS[0], (n_images, 1)),
    }


def _draw_crop(settings: ResizedCropSettings, u: np.ndarray, size: tuple[int, int]) -> dict[str, np.ndarray]:
    """Draw boxes as torchvision does: of ten, the first that fits; else the largest in the middle that may be."""
    applied, place, tries = u[:, 0] < settings.probability, u[:, 1:3], u[:, 3:].reshape(-1, _N_TRIES, 2)
    area = _between(settings.scale, tries[..., 0]) * (size[0] * size[1])
    ratio = np.exp(_between(np.log(settings.ratio), tries[..., 1]))
    boxes = np.rint(np.sqrt(np.stack([area / ratio, area * ratio], axis=-1))).astype(np.int64)
    fits = ((boxes >= 1) & (boxes <= size)).all(axis=-1)
    sizes = boxes[np.arange(len(boxes)), np.argmax(fits, axis=1)]
    # A box that does not fit is replaced below; its corner has no meaning.
    corners = np.floor(place * (np.array(size) - sizes + 1)).astype(np.int64)
    for where, (corner, box) in ((~fits.any(axis=1), _middle_box(settings.ratio, size)), (~applied, ((0, 0), size))):
        corners[where], sizes[where] = corner, box
    return {"cropped": applied, "corners": corners, "sizes": sizes}


def _middle_box(ratio: tuple[float, float], size: tuple[int, int]) -> tuple[tuple[int, int], tuple[int, int]]:
    height, width = size
    if width / height < ratio[0]:
        height = max(1, round(width / ratio[0]))
    elif width / height > ratio[1]:
        width = max(1, round(height * ratio[1]))
    return ((size[0] - height) // 2, (size[1] - width) // 2), (height, width)


def _draw_affine(settings: ImageAffineSettings, u: np.ndarray, size: tuple[int, int]) -> dict[str, np.ndarray]:
    applied = u[:, 0] < settings.probability
    translation = _between((-settings.translate, settings.translate), u[:, 4:6]) * np.array(size)
    return {
        "turned": applied,
        "radians": np.where(applied, np.deg2rad(_between((-settings.degrees, settings.degrees), u[:, 1])), 0.0),
        "zoom": np.where(applied, np.exp(_between(np.log(settings.scale), u[:, 3])), 1.0),
        "translation": np.where(applied[:, None], translation, 0.0),
    }


def _draw_jitter(settings: ColourJitterSettings, u: np.ndarray) -> dict[str, np.ndarray]:
    strengths = np.array([settings.brightness, settings.contrast, settings.saturation])
    factors = _between((np.maximum(0.0, 1.0 - strengths), 1.0 + strengths), u[:, 1:4])
    turns = _between((-settings.hue, settings.hue), u[:, 4:5])
    return {
        "jittered": u[:, 0] < settings.probability,
        "factors": np.concatenate([factors, turns], axis=1),
        "order": _ORDERS[(u[:, 5] * len(_ORDERS)).astype(np.int64)],
    }


def _between(limits: Any, position: np.ndarray) -> Any:
    low, high = limits
    return low + (high - low) * position
