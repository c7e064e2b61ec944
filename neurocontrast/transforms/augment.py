"""Settings of the random views of brain scans and regional measures, and of standardising measures.

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
    """Pydantic annotation of a range [lowest, highest], limited by `ge`, `gt`, `le` and `lt`."""

    def __init__(self, **limits: float) -> None:
        self.limits = limits

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        del source, handler
        number = core_schema.float_schema(
            allow_inf_nan=False,
            **self.limits,  # type: ignore[arg-type]
        )
        return core_schema.no_info_after_validator_function(
            _ordered, core_schema.tuple_schema([number, number])
        )


def _ordered(limits: Pair) -> Pair:
    """Return `limits`, a range [lowest, highest]; a ValueError refuses swapped ends."""
    low, high = limits
    if low > high:
        raise ValueError(
            f"a range is [lowest, highest]. Got [{low:g}, {high:g}]; swap the two numbers."
        )
    return limits


def _distinct(axes: tuple[int, ...]) -> tuple[int, ...]:
    """Return `axes`, the axes of a flip; a ValueError refuses a list that names one axis twice."""
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
    """Settings of built-in transforms, in whose place a user may give transforms in Python.

    A user gives transforms as arguments of functions such as `pretrain`. The field `transforms`
    then holds the word ``python``, not the transforms.
    """

    transforms: Literal["python"] | None = None
    """``python`` if transforms written in Python replace these settings, as recorded with a run;
    None to use these settings."""

    @classmethod
    def replaced(cls) -> tuple[str, ...]:
        """Return the names of settings that have no effect if a user gives transforms in Python."""
        return tuple(name for name in cls.model_fields if name not in ("kind", "transforms"))

    def with_given(self) -> Self:
        """Return a copy of the settings that records the use of a user's own transforms."""
        kept = self.model_dump(exclude=set(self.replaced()))
        return type(self).model_validate(kept | {"transforms": "python"})

    @model_serializer(mode="wrap")
    def _without_replaced(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Return the settings as a dictionary, without fields that a user's transforms replace.

        Without a user's transforms, only the field ``transforms`` is left out.
        """
        unread = self.replaced()
        if self.transforms is None:
            unread = ("transforms",)
        return {name: value for name, value in dump(self).items() if name not in unread}


class Operation(Settings):
    """Settings of a random augmentation, whose numbers are drawn uniformly from ranges."""

    probability: Probability = 0.5
    """Probability that a view is changed by the operation."""


class Flip(Operation):
    """Mirror the volume along one randomly chosen axis."""

    axes: Axes = (0, 1, 2)
    """Axes to choose among: 0 left to right, 1 back to front, 2 bottom to top."""


class Affine(Operation):
    """Rotate, shift and optionally scale the brain, to imitate another head position."""

    rotation_degrees: Annotated[Pair, Span(ge=-45.0, le=45.0)] = (-3.0, 3.0)
    """Range of the angle about each axis, in degrees."""
    translation_voxels: Annotated[Pair, Span(ge=-16.0, le=16.0)] = (-1.0, 1.0)
    """Range of the shift along each axis, in voxels."""
    scale: Annotated[Pair, Span(ge=0.5, le=2.0)] = (1.0, 1.0)
    """Range of the factor on lengths along each axis; the factor's reciprocal is drawn uniformly.
    No scaling by default, because brain size carries information on age and sex."""


class Contrast(Operation):
    """Change the contrast between tissues by raising the brain's signal to a random power."""

    gamma: Annotated[Pair, Span(ge=0.2, le=5.0)] = (0.8, 1.25)
    """Range of the exponent; below 1 dark tissue grows brighter."""


class BiasField(Operation):
    """Multiply the brain's signal by a smooth random field, as an uneven receive coil does.

    The field is the exponential of a random polynomial of the voxel position.
    """

    order: int = Field(3, ge=1, le=6)
    """Total degree of the polynomial."""
    strength: _Part = (0.05, 0.25)
    """Range of the standard deviation of the field's natural logarithm over the volume."""


class Sharpness(Operation):
    """Make the brain sharper or smoother by adding or subtracting fine detail (unsharp mask).

    Fine detail is the difference of the brain from a Gaussian-blurred copy.
    """

    amount: Annotated[Pair, Span(ge=-1.0, le=5.0)] = (-0.5, 1.0)
    """Range of the factor on the fine detail that is added; −1 leaves the Gaussian-blurred
    brain."""
    sigma_voxels: float = Field(1.0, gt=0.0, le=3.0, allow_inf_nan=False)
    """Standard deviation of the Gaussian, in voxels."""


class Rician(Operation):
    """Add Rician noise to the brain, as the magnitude of a complex MR signal has."""

    sigma: _Part = (0.01, 0.04)
    """Range of the noise's standard deviation in the real and in the imaginary channel, on a scale
    from the darkest voxel (0) to the brain's 99th percentile (1)."""


class TightMask(Operation):
    """Remove dark voxels near the brain's surface, as brain extraction along the folds does."""

    depth_voxels: Annotated[Pair, Span(gt=0.0, le=3.0)] = (0.5, 1.5)
    """Range of the mean depth below the surface to which voxels are removed, in voxels."""
    variation_voxels: _Voxels = 0.5
    """Standard deviation of the depth across the volume, in voxels."""
    below: _Part = (0.2, 0.5)
    """Range of the signal below which voxels are removed, on a scale from the darkest voxel (0) to
    the brain's 99th percentile (1)."""


class MaskEdge(Operation):
    """Remove a rim of uneven depth from the brain, or add a dark rim, as other brain masks do."""

    depth_voxels: Annotated[Pair, Span(ge=-3.0, le=3.0)] = (-0.5, 0.75)
    """Range of the mean depth that is removed, in voxels; a negative depth adds a rim of that
    width."""
    variation_voxels: _Voxels = 0.5
    """Standard deviation of the depth across the volume, in voxels."""
    rim: _Part = (0.2, 0.6)
    """Range of the signal of an added rim, as a share of the signal at the brain's edge."""


class TissueShift(Operation):
    """Change tissue probability maps by smooth factors and offsets, as another scanner would."""

    order: int = Field(2, ge=1, le=6)
    """Total degree of the random polynomials of the voxel position that form factors and
    offsets."""
    gain: _Part = (0.0, 0.1)
    """Range of the standard deviation of the factor's natural logarithm."""
    shift: _Part = (0.0, 0.05)
    """Range of the standard deviation of the offset, as a share of the largest value of a map."""


class Blur(Operation):
    """Blur the volume by a Gaussian."""

    sigma_voxels: Annotated[Pair, Span(ge=0.0, le=10.0)] = (0.1, 1.0)
    """Range of the Gaussian's standard deviation, in voxels."""


class Noise(Operation):
    """Add Gaussian noise to the volume."""

    sigma: Annotated[Pair, Span(ge=0.0, le=10.0)] = (0.1, 1.0)
    """Range of the noise's standard deviation, in units of the preprocessed intensities."""


class Cutout(Operation):
    """Set one randomly placed box, wholly inside the volume, to a constant."""

    fraction: _Side = (0.25, 0.25)
    """Range of the box's side, as a share of the volume's side."""
    value: float = Field(0.0, allow_inf_nan=False)
    """Intensity of the box; 0 is the mean of a z-scored volume."""


class Crop(Operation):
    """Crop a randomly placed box, and resize the box to the volume's shape."""

    fraction: _Side = (0.75, 0.75)
    """Range of the box's side, as a share of the volume's side."""


_AT_SITES = ("affine", "contrast", "bias_field", "sharpness", "rician", "tight_mask", "mask_edge")
_REFERENCE = ("flip", "blur", "noise", "cutout", "crop")


class AugmentSettings(Replaceable):
    """Choose the random operations, applied in field order, that turn a brain volume into a view.

    An operation that is null is off. Each operation has the defaults of the reference protocol
    (Dufumier et al., 2021). Flip and crop are off and noise is weak by default: a crop changes
    brain size and strong noise hides thin atrophy, which both carry information on age and disease.

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
        """Return the augmentation of Dufumier et al. (2021): five operations with probability 0.5.

        The authors' code draws the axis of a flip from four, including the axis of channels, so
        that a quarter of the flips do nothing; with these settings every flip mirrors the brain.
        """
        return cls(**{name: {} for name in _REFERENCE})

    @classmethod
    def sites(cls) -> Self:
        """Return settings that imitate scans from another site, and set a random box to a constant.

        Each operation has its default strength. Blur and noise are off, because sharpness and
        Rician noise replace them.
        """
        return cls(**{"blur": None, "noise": None}, **{name: {} for name in _AT_SITES})

    @classmethod
    def off(cls) -> Self:
        """Return settings without any augmentation, so that every view equals the volume."""
        return cls(**dict.fromkeys(_REFERENCE))


class MeasureSettings(Settings):
    """Choose the standardisation of a person's regional measures before they enter an encoder.

    Examples
    --------
    >>> from neurocontrast.transforms import MeasureSettings
    >>> MeasureSettings(head_size="residual").clip
    6.0
    """

    log_volumes: bool = True
    """Whether volumes of regions are replaced by their natural logarithms."""
    head_size: Literal["keep", "residual", "proportion"] = "keep"
    """Correction of regional volumes for head size. ``keep`` makes no correction; ``residual``
    subtracts a linear regression on intracranial volume, fitted on the training participants;
    ``proportion`` divides by intracranial volume."""
    max_missing: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.02
    """Largest share of measures that a person may lack; missing measures become medians of the
    training participants."""
    clip: Annotated[float, Field(gt=0.0, allow_inf_nan=False)] = 6.0
    """Largest absolute value of a standardised measure, in standard deviations; larger values are
    clipped."""

    @model_validator(mode="after")
    def _check_head_size(self) -> Self:
        if self.head_size == "proportion" and not self.log_volumes:
            raise ValueError(
                "head_size: 'proportion' is a difference of logarithms; set log_volumes to true"
            )
        return self


class MeasureCorruption(Settings):
    """Replace random measures of a person by the values of random training participants.

    Each replaced value is realistic for the measure, while the combination of a person's measures
    is not (SCARF, Bahri et al. 2022, section 3).
    """

    fraction: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.2
    """Mean share of a person's measures that are replaced."""


class MeasureSiteShift(Settings):
    """Imitate another scanner by a random shift and a random factor for each measure."""

    probability: Probability = 0.5
    """Probability that a view is changed."""
    shift_sd: _Sd = 0.3
    """Standard deviation of the shifts, in units of the measure's standard deviation."""
    scale_sd: _Sd = 0.1
    """Standard deviation of the factors' natural logarithms."""


class MeasureNoise(Settings):
    """Add independent Gaussian noise to every measure."""

    sd: Annotated[float, Field(gt=0.0, le=10.0, allow_inf_nan=False)] = 0.3
    """Standard deviation of the noise, in units of the measure's standard deviation."""


class MeasureAugmentSettings(Replaceable):
    """Choose the random operations, applied in field order, that turn measures into a view.

    Measures are standardised: 1 is one standard deviation among the training participants. An
    operation set to null is off.

    Examples
    --------
    >>> from neurocontrast.transforms import MeasureAugmentSettings
    >>> MeasureAugmentSettings(site_shift=None).noise
    MeasureNoise(sd=0.3)
    """

    kind: Literal["measures"] = "measures"
    """Marks settings of regional measures, as opposed to scans; follows ``data.kind`` and need not
    be written."""
    corruption: MeasureCorruption | None = MeasureCorruption()
    site_shift: MeasureSiteShift | None = None
    noise: MeasureNoise | None = MeasureNoise()
