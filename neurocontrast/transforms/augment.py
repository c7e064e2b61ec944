"""The section ``augment:`` of brains and of their measures, and how measures become input. Loads no PyTorch."""

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
    """Annotate a range [lowest, highest] to draw from, within limits: pydantic's `ge`, `gt`, `le`, `lt`."""

    def __init__(self, **limits: float) -> None:
        self.limits = limits

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        del source, handler
        number = core_schema.float_schema(allow_inf_nan=False, **self.limits)  # type: ignore[arg-type]
        return core_schema.no_info_after_validator_function(
            _ordered, core_schema.tuple_schema([number, number])
        )


def _ordered(limits: Pair) -> Pair:
    low, high = limits
    if low > high:
        raise ValueError(
            f"a range is [lowest, highest]. Got [{low:g}, {high:g}]; swap the two numbers."
        )
    return limits


def _distinct(axes: tuple[int, ...]) -> tuple[int, ...]:
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
    """Settings whose place transforms of a user can take, which are given as Python objects."""

    transforms: Literal["python"] | None = None
    """Whether transforms that were given from Python take the place of these settings, as a run records it."""

    @classmethod
    def replaced(cls) -> tuple[str, ...]:
        """Return the settings that have no effect where ``transforms`` is given."""
        return tuple(name for name in cls.model_fields if name not in ("kind", "transforms"))

    def with_given(self) -> Self:
        """Return the settings of transforms that were given from Python."""
        kept = self.model_dump(exclude=set(self.replaced()))
        return type(self).model_validate(kept | {"transforms": "python"})

    @model_serializer(mode="wrap")
    def _without_replaced(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out what nothing reads."""
        content: dict[str, Any] = dump(self)
        unread = ("transforms",) if self.transforms is None else self.replaced()
        return {name: value for name, value in content.items() if name not in unread}


class Operation(Settings):
    """Settings of a random operation; a range is drawn from uniformly."""

    probability: Probability = 0.5
    """How often a view is changed."""


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
    """Factor on lengths, drawn by its reciprocal for each axis. The size of the brain tells age and sex."""


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
    """Make the brain sharper or smoother: add the difference to its Gaussian, or take it away (unsharp mask)."""

    amount: Annotated[Pair, Span(ge=-1.0, le=5.0)] = (-0.5, 1.0)
    """How many times the difference is added; −1 leaves the Gaussian."""
    sigma_voxels: float = Field(1.0, gt=0.0, le=3.0, allow_inf_nan=False)
    """Standard deviation of the Gaussian."""


class Rician(Operation):
    """Give the brain the noise of a magnitude image."""

    sigma: _Part = (0.01, 0.04)
    """Standard deviation of the noise in either part of the complex signal; the brain's bright end is 1."""


class TightMask(Operation):
    """Cut off what is as dark as fluid near the brain's surface, as a brain extraction that follows the folds."""

    depth_voxels: Annotated[Pair, Span(gt=0.0, le=3.0)] = (0.5, 1.5)
    """Mean depth of the cut."""
    variation_voxels: _Voxels = 0.5
    """Standard deviation of the depth over the box."""
    below: _Part = (0.2, 0.5)
    """Signal below which voxels are cut; the brain's bright end is 1."""


class MaskEdge(Operation):
    """Cut a rim of uneven depth off the brain, or leave a dark one around the brain."""

    depth_voxels: Annotated[Pair, Span(ge=-3.0, le=3.0)] = (-0.5, 0.75)
    """Mean depth of the cut; below 0, of the rim that is left."""
    variation_voxels: _Voxels = 0.5
    """Standard deviation of the depth over the box."""
    rim: _Part = (0.2, 0.6)
    """Signal of a rim that is left, over that of the brain's edge."""


class TissueShift(Operation):
    """Change maps of tissue as another scanner or segmentation would, by smooth factors and smooth shifts."""

    order: int = Field(2, ge=1, le=6)
    """Total degree of the polynomials."""
    gain: _Part = (0.0, 0.1)
    """Standard deviation of the factor's logarithm."""
    shift: _Part = (0.0, 0.05)
    """Standard deviation of what is added, over the largest value of a map."""


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
    """Side of the box over the volume's."""
    value: float = Field(0.0, allow_inf_nan=False)
    """What the box is set to; 0 is the mean of a z-scored volume."""


class Crop(Operation):
    """Crop a box and resize it to the volume's shape."""

    fraction: _Side = (0.75, 0.75)
    """Side of the box over the volume's."""


_AT_SITES = ("affine", "contrast", "bias_field", "sharpness", "rician", "tight_mask", "mask_edge")
_REFERENCE = ("flip", "blur", "noise", "cutout", "crop")


class AugmentSettings(Replaceable):
    """Choose what turns a volume into a view: the operations below, in this order.

    An operation that is null is off. The defaults of each operation are the reference protocol's
    (Dufumier et al., 2021). Which ones are on by default was chosen by evidence: the crop changes
    the size of the brain and strong noise hides thin atrophy, both of which carry what is to be
    learnt.

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
        """Return the published protocol: all five operations, each half of the time.

        The released code draws a flip's axis among four, the channel's included, so that a quarter
        of its flips do nothing; here every flip is one.
        """
        return cls(**{name: {} for name in _REFERENCE})

    @classmethod
    def sites(cls) -> Self:
        """Return every operation that imitates another site, at its defaults, and the cutout.

        Blur and noise are left out: sharpness and Rician noise take their places.
        """
        return cls(**{"blur": None, "noise": None}, **{name: {} for name in _AT_SITES})

    @classmethod
    def off(cls) -> Self:
        """Return settings under which a view is the volume itself."""
        return cls(**dict.fromkeys(_REFERENCE))


class MeasureSettings(Settings):
    """Choose how regional measures become the input of an encoder.

    Examples
    --------
    >>> from neurocontrast.transforms import MeasureSettings
    >>> MeasureSettings(head_size="residual").clip
    6.0
    """

    log_volumes: bool = True
    """Whether volumes enter as natural logarithms."""
    head_size: Literal["keep", "residual", "proportion"] = "keep"
    """What is done with the size of the head in volumes: nothing; volumes less their linear regression on the
    intracranial volume among the people learned from; or volumes over the intracranial volume."""
    max_missing: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.02
    """Part of the measures that a person may lack; they are replaced by medians of the people learned from."""
    clip: Annotated[float, Field(gt=0.0, allow_inf_nan=False)] = 6.0
    """Limit to either side, in standard deviations."""

    @model_validator(mode="after")
    def _check_head_size(self) -> Self:
        if self.head_size == "proportion" and not self.log_volumes:
            raise ValueError(
                "head_size: 'proportion' is a difference of logarithms; set log_volumes to true"
            )
        return self


class MeasureCorruption(Settings):
    """Replace some measures by those of people learned from, each measure by that of a person drawn for it.

    So every replaced value is one that the measure takes, while the measures of a person no longer
    belong together (SCARF, Bahri et al. 2022, section 3).
    """

    fraction: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.2
    """Part of the measures that is replaced, on average."""


class MeasureSiteShift(Settings):
    """Shift and scale every measure, each by numbers of its own, as scanners differ from one another."""

    probability: Probability = 0.5
    """How often a view is changed."""
    shift_sd: _Sd = 0.3
    """Standard deviation of the shifts, in standard deviations of the measure."""
    scale_sd: _Sd = 0.1
    """Standard deviation of the logarithms of the factors."""


class MeasureNoise(Settings):
    """Add normal noise to every measure."""

    sd: Annotated[float, Field(gt=0.0, le=10.0, allow_inf_nan=False)] = 0.3
    """Standard deviation of the noise, in standard deviations of the measure."""


class MeasureAugmentSettings(Replaceable):
    """Choose what turns the measures of a person into a view: the operations below, in this order.

    Measures are standardised, so that 1 is a standard deviation among the people learned from. An
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
