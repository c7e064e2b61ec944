"""Settings of random views of brains and measures, and of the standardisation of measures.

This module loads no PyTorch.
"""

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)
from pydantic_core import CoreSchema, core_schema

from neurocontrast.settings import Settings

Pair = tuple[float, float]


class Span:
    """Annotation of a range [lowest, highest], with pydantic's limits `ge`, `gt`, `le` and `lt`."""

    def __init__(self, **limits: float) -> None:
        self.limits = limits

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        del source, handler
        number = core_schema.float_schema(allow_inf_nan=False, **self.limits)  # type: ignore[arg-type]
        return core_schema.no_info_after_validator_function(
            _ordered, core_schema.tuple_schema([number, number])
        )


def _ordered(limits: Pair) -> Pair:
    """Refuse a range whose ends are swapped."""
    low, high = limits
    if low > high:
        raise ValueError(
            f"a range is [lowest, highest]. Got [{low:g}, {high:g}]; swap the two numbers."
        )
    return limits


def _distinct(axes: tuple[int, ...]) -> tuple[int, ...]:
    """Refuse axes that are named twice."""
    if len(set(axes)) != len(axes):
        raise ValueError(f"axes must be distinct. Got {list(axes)}.")
    return axes


Probability = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]
Axes = Annotated[tuple[Literal[0, 1, 2], ...], Field(min_length=1), AfterValidator(_distinct)]
_Voxels = Annotated[float, Field(ge=0.0, le=3.0, allow_inf_nan=False)]
_Sd = Annotated[float, Field(ge=0.0, le=10.0, allow_inf_nan=False)]
_Part = Annotated[Pair, Span(ge=0.0, le=1.0)]
_Side = Annotated[Pair, Span(gt=0.0, le=1.0)]


class Replaceable(Settings):
    """Settings that transforms of a user, given as Python objects, can replace."""

    transforms: Literal["python"] | None = None
    """Whether transforms from Python replace these settings; a run records so."""

    @classmethod
    def replaced(cls) -> tuple[str, ...]:
        """Return the names of the settings without effect beside ``transforms``."""
        return tuple(name for name in cls.model_fields if name not in ("kind", "transforms"))

    def with_given(self) -> Self:
        """Return the settings of transforms that were given from Python."""
        kept = self.model_dump(exclude=set(self.replaced()))
        return type(self).model_validate(kept | {"transforms": "python"})

    @model_serializer(mode="wrap")
    def _without_replaced(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Return the settings without settings that nothing reads."""
        unread = self.replaced()
        if self.transforms is None:
            unread = ("transforms",)
        return {name: value for name, value in dump(self).items() if name not in unread}


class Operation(Settings):
    """Settings of a random operation, which draws uniformly from ranges."""

    probability: Probability = 0.5
    """Probability that a view is changed."""


class Flip(Operation):
    """Mirror along one axis."""

    axes: Axes = (0, 1, 2)
    """Axes to choose among: 0 left to right, 1 back to front, 2 bottom to top."""


class Affine(Operation):
    """Rotate, shift and, where asked, scale the brain, as another position in the scanner."""

    rotation_degrees: Annotated[Pair, Span(ge=-45.0, le=45.0)] = (-3.0, 3.0)
    """Angle about each axis."""
    translation_voxels: Annotated[Pair, Span(ge=-16.0, le=16.0)] = (-1.0, 1.0)
    """Shift along each axis."""
    scale: Annotated[Pair, Span(ge=0.5, le=2.0)] = (1.0, 1.0)
    """Factor on lengths, drawn by its reciprocal for each axis; the size of the brain tells age
    and sex."""


class Contrast(Operation):
    """Raise the brain's signal to a random power."""

    gamma: Annotated[Pair, Span(ge=0.2, le=5.0)] = (0.8, 1.25)
    """Exponent; below 1 dark tissue grows brighter."""


class BiasField(Operation):
    """Multiply the brain's signal by a smooth field: the exponential of a random polynomial."""

    order: int = Field(3, ge=1, le=6)
    """Total degree of the polynomial."""
    strength: _Part = (0.05, 0.25)
    """Standard deviation of the field's logarithm."""


class Sharpness(Operation):
    """Make the brain sharper or smoother by its difference from a Gaussian (unsharp mask)."""

    amount: Annotated[Pair, Span(ge=-1.0, le=5.0)] = (-0.5, 1.0)
    """Factor of the added difference; −1 leaves the Gaussian."""
    sigma_voxels: float = Field(1.0, gt=0.0, le=3.0, allow_inf_nan=False)
    """Standard deviation of the Gaussian."""


class Rician(Operation):
    """Give the brain the noise of a magnitude image."""

    sigma: _Part = (0.01, 0.04)
    """Standard deviation of the noise in either part of the complex signal, where the brain's
    bright end is 1."""


class TightMask(Operation):
    """Cut off voxels as dark as fluid near the surface, as brain extraction along folds does."""

    depth_voxels: Annotated[Pair, Span(gt=0.0, le=3.0)] = (0.5, 1.5)
    """Mean depth of the cut."""
    variation_voxels: _Voxels = 0.5
    """Standard deviation of the depth over the box."""
    below: _Part = (0.2, 0.5)
    """Signal below which voxels are cut, where the brain's bright end is 1."""


class MaskEdge(Operation):
    """Cut a rim of uneven depth off the brain, or leave a dark rim around the brain."""

    depth_voxels: Annotated[Pair, Span(ge=-3.0, le=3.0)] = (-0.5, 0.75)
    """Mean depth of the cut; below 0, of the rim that is left."""
    variation_voxels: _Voxels = 0.5
    """Standard deviation of the depth over the box."""
    rim: _Part = (0.2, 0.6)
    """Signal of a rim that is left, relative to the brain's edge."""


class TissueShift(Operation):
    """Change tissue maps as another scanner would, by smooth factors and smooth shifts."""

    order: int = Field(2, ge=1, le=6)
    """Total degree of the polynomials."""
    gain: _Part = (0.0, 0.1)
    """Standard deviation of the factor's logarithm."""
    shift: _Part = (0.0, 0.05)
    """Standard deviation of the shift, relative to the largest value of a map."""


class Blur(Operation):
    """Blur by a Gaussian."""

    sigma_voxels: Annotated[Pair, Span(ge=0.0, le=10.0)] = (0.1, 1.0)
    """Standard deviation of the Gaussian."""


class Noise(Operation):
    """Add Gaussian noise."""

    sigma: Annotated[Pair, Span(ge=0.0, le=10.0)] = (0.1, 1.0)
    """Standard deviation of the noise, in units of the intensities."""


class Cutout(Operation):
    """Set one box, wholly inside the volume, to a constant."""

    fraction: _Side = (0.25, 0.25)
    """Side of the box relative to the volume's side."""
    value: float = Field(0.0, allow_inf_nan=False)
    """Intensity of the box; 0 is the mean of a z-scored volume."""


class Crop(Operation):
    """Crop a box and resize the box to the volume's shape."""

    fraction: _Side = (0.75, 0.75)
    """Side of the box relative to the volume's side."""


_AT_SITES = ("affine", "contrast", "bias_field", "sharpness", "rician", "tight_mask", "mask_edge")
_REFERENCE = ("flip", "blur", "noise", "cutout", "crop")


class AugmentSettings(Replaceable):
    """Choose the operations that turn a volume into a view, applied in this order.

    An operation that is null is off. Each operation has the defaults of the reference protocol
    (Dufumier et al., 2021). Evidence chose the operations that are on by default: the crop changes
    the size of the brain and strong noise hides thin atrophy, and both tell age and disease.

    Examples
    --------
    >>> from neurocontrast.transforms import AugmentSettings
    >>> AugmentSettings(flip={"axes": [0]}, noise=None).flip
    Flip(probability=0.5, axes=(0,))
    """

    kind: ClassVar[Literal["volumes"]] = "volumes"

    flip: Flip | None = None
    affine: Affine | None = None
    contrast: Contrast | None = None
    bias_field: BiasField | None = None
    sharpness: Sharpness | None = None
    rician: Rician | None = None
    tight_mask: TightMask | None = None
    mask_edge: MaskEdge | None = None
    tissue_shift: TissueShift | None = None
    blur: Blur | None = Blur(sigma_voxels=(0.1, 0.5))
    noise: Noise | None = Noise(sigma=(0.05, 0.2))
    cutout: Cutout | None = Cutout()
    crop: Crop | None = None

    @classmethod
    def reference(cls) -> Self:
        """Return the published protocol: five operations, each with probability one half.

        The released code draws a flip's axis among four, the channel's included, so that a quarter
        of the flips do nothing; every flip of these settings mirrors the brain.
        """
        return cls(**{name: {} for name in _REFERENCE})

    @classmethod
    def sites(cls) -> Self:
        """Return all operations that imitate another site, at their defaults, and the cutout.

        Blur and noise are left out: sharpness and Rician noise take their places.
        """
        return cls(**{"blur": None, "noise": None}, **{name: {} for name in _AT_SITES})

    @classmethod
    def off(cls) -> Self:
        """Return settings without operations, whose views are the volumes themselves."""
        return cls(**dict.fromkeys(_REFERENCE))


class MeasureSettings(Settings):
    """Choose the standardisation of regional measures, the input of an encoder.

    Examples
    --------
    >>> from neurocontrast.transforms import MeasureSettings
    >>> MeasureSettings(head_size="residual").clip
    6.0
    """

    log_volumes: bool = True
    """Whether volumes enter as natural logarithms."""
    head_size: Literal["keep", "residual", "proportion"] = "keep"
    """Correction of volumes for the size of the head: none; minus their linear regression on the
    intracranial volume among the people of training; or divided by the intracranial volume."""
    max_missing: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.02
    """Share of the measures that a person may lack, which medians of the people of training
    replace."""
    clip: Annotated[float, Field(gt=0.0, allow_inf_nan=False)] = 6.0
    """Limit of standardised measures to either side, in standard deviations."""

    @model_validator(mode="after")
    def _check_head_size(self) -> Self:
        if self.head_size == "proportion" and not self.log_volumes:
            raise ValueError(
                "head_size: 'proportion' is a difference of logarithms; set log_volumes to true"
            )
        return self


class MeasureCorruption(Settings):
    """Replace some measures by values of people of training, drawn for each measure.

    Every replaced value is a value that the measure takes, while the measures of a person no longer
    belong together (SCARF, Bahri et al. 2022, section 3).
    """

    fraction: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.2
    """Mean share of the measures that is replaced."""


class MeasureSiteShift(Settings):
    """Shift and scale every measure by numbers drawn for the measure, as scanners differ."""

    probability: Probability = 0.5
    """Probability that a view is changed."""
    shift_sd: _Sd = 0.3
    """Standard deviation of the shifts, in standard deviations of the measure."""
    scale_sd: _Sd = 0.1
    """Standard deviation of the logarithms of the factors."""


class MeasureNoise(Settings):
    """Add normal noise to every measure."""

    sd: Annotated[float, Field(gt=0.0, le=10.0, allow_inf_nan=False)] = 0.3
    """Standard deviation of the noise, in standard deviations of the measure."""


class MeasureAugmentSettings(Replaceable):
    """Choose the operations that turn a person's measures into a view, applied in this order.

    Measures are standardised, so that 1 is a standard deviation among the people of training. An
    operation that is null is off.

    Examples
    --------
    >>> from neurocontrast.transforms import MeasureAugmentSettings
    >>> MeasureAugmentSettings(site_shift=None).noise
    MeasureNoise(sd=0.3)
    """

    kind: Literal["measures"] = "measures"
    """Says that these are settings for measures; follows ``data.kind`` and need not be written."""
    corruption: MeasureCorruption | None = MeasureCorruption()
    site_shift: MeasureSiteShift | None = None
    noise: MeasureNoise | None = MeasureNoise()
