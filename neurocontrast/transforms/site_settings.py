"""How often, and how strongly, a view looks as if another site had made the scan."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from neurocontrast.settings import Settings
from neurocontrast.transforms.ranges import Axes, Probability, ordered

__all__ = [
    "AffineSettings",
    "BiasFieldSettings",
    "ContrastSettings",
    "GhostingSettings",
    "HistogramSettings",
    "MaskEdgeSettings",
    "ResolutionSettings",
    "RicianSettings",
    "SharpnessSettings",
    "TightMaskSettings",
]

_Fraction = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]
_Gamma = Annotated[float, Field(ge=0.2, le=5.0, allow_inf_nan=False)]
_Factor = Annotated[float, Field(ge=1.0, le=8.0, allow_inf_nan=False)]
_Half = Annotated[float, Field(ge=0.0, le=0.5, allow_inf_nan=False)]
_Distance = Annotated[float, Field(ge=0.05, le=0.5, allow_inf_nan=False)]
_Degrees = Annotated[float, Field(ge=-45.0, le=45.0, allow_inf_nan=False)]
_Voxels = Annotated[float, Field(ge=-16.0, le=16.0, allow_inf_nan=False)]
_Scale = Annotated[float, Field(ge=0.5, le=2.0, allow_inf_nan=False)]
_Amount = Annotated[float, Field(ge=-1.0, le=5.0, allow_inf_nan=False)]
_Width = Annotated[float, Field(gt=0.0, le=3.0, allow_inf_nan=False)]
_Depth = Annotated[float, Field(ge=-3.0, le=3.0, allow_inf_nan=False)]

_InOrder = AfterValidator(ordered)
FractionRange = Annotated[tuple[_Fraction, _Fraction], _InOrder]
GammaRange = Annotated[tuple[_Gamma, _Gamma], _InOrder]
FactorRange = Annotated[tuple[_Factor, _Factor], _InOrder]
HeightRange = Annotated[tuple[_Half, _Half], _InOrder]
DistanceRange = Annotated[tuple[_Distance, _Distance], _InOrder]
DegreesRange = Annotated[tuple[_Degrees, _Degrees], _InOrder]
VoxelsRange = Annotated[tuple[_Voxels, _Voxels], _InOrder]
ScaleRange = Annotated[tuple[_Scale, _Scale], _InOrder]
AmountRange = Annotated[tuple[_Amount, _Amount], _InOrder]
CutRange = Annotated[tuple[_Width, _Width], _InOrder]
DepthRange = Annotated[tuple[_Depth, _Depth], _InOrder]


class AffineSettings(Settings):
    """Another position in the scanner: rotation, translation and, where asked, size; trilinear, in one pass.

    Parameters
    ----------
    probability : float
        How often.
    rotation_degrees : tuple of float
        Range of the angle about each axis, drawn uniformly.
    translation_voxels : tuple of float
        Range of the shift along each axis, drawn uniformly.
    scale : tuple of float
        Range of the factor on lengths, drawn uniformly. Off by default: the size of a brain tells age and sex.
    anisotropic : bool
        Whether each axis has a factor of its own.
    """

    probability: Probability = 0.5
    rotation_degrees: DegreesRange = (-3.0, 3.0)
    translation_voxels: VoxelsRange = (-1.0, 1.0)
    scale: ScaleRange = (1.0, 1.0)
    anisotropic: bool = False


class ContrastSettings(Settings):
    """Gamma on the brain's intensities, between its darkest voxel (0) and the 99th percentile (1).

    Parameters
    ----------
    probability : float
        How often.
    gamma : tuple of float
        Range of the exponent; its logarithm is drawn uniformly. Below 1 dark tissue grows brighter.
    """

    probability: Probability = 0.5
    gamma: GammaRange = (0.8, 1.25)


class HistogramSettings(Settings):
    """A rising, piecewise linear map of the brain's intensities, on the scale of `ContrastSettings`.

    Parameters
    ----------
    probability : float
        How often.
    n_pieces : int
        Number of equally wide pieces, each with a slope of its own.
    strength : tuple of float
        Range of the standard deviation of the slopes' logarithms, drawn uniformly.
    """

    probability: Probability = 0.5
    n_pieces: int = Field(5, ge=2, le=32)
    strength: FractionRange = (0.05, 0.2)


class BiasFieldSettings(Settings):
    """A smooth field that multiplies the intensities: the exponential of a random polynomial.

    Parameters
    ----------
    probability : float
        How often.
    order : int
        The polynomial's total degree.
    strength : tuple of float
        Range of the standard deviation of the field's logarithm over the box, drawn uniformly.
    """

    probability: Probability = 0.5
    order: int = Field(3, ge=1, le=6)
    strength: FractionRange = (0.05, 0.25)


class SharpnessSettings(Settings):
    """Sharper or smoother: what a Gaussian takes away is added, or taken away in part (unsharp mask).

    Parameters
    ----------
    probability : float
        How often.
    amount : tuple of float
        Range of how many times the difference is added, drawn uniformly; −1 leaves what the Gaussian does.
    sigma_voxels : float
        The Gaussian's standard deviation.
    """

    probability: Probability = 0.5
    amount: AmountRange = (-0.5, 1.0)
    sigma_voxels: _Width = 1.0


class ResolutionSettings(Settings):
    """Thick slices: average over them, then interpolate back to the voxels.

    Parameters
    ----------
    probability : float
        How often.
    factor : tuple of float
        Range of a slice's thickness in voxels, drawn uniformly.
    axes : tuple of int
        Axes to choose among, each equally likely: 0 sagittal, 1 coronal, 2 axial slices.
    all_axes : float
        How often, of the times it is applied, all three axes are treated instead of one.
    """

    probability: Probability = 0.25
    factor: FactorRange = (1.0, 2.0)
    axes: Axes = (0, 1, 2)
    all_axes: Probability = 0.25


class GhostingSettings(Settings):
    """Two faint replicas of the brain, shifted to either side: lines of k-space that rise and fall periodically.

    Parameters
    ----------
    probability : float
        How often.
    axes : tuple of int
        Axes to choose among, each equally likely.
    intensity : tuple of float
        Range of a replica's height over the brain's, drawn uniformly.
    distance : tuple of float
        Range of a replica's shift over the volume's side, drawn uniformly.
    """

    probability: Probability = 0.15
    axes: Axes = (0, 1, 2)
    intensity: HeightRange = (0.02, 0.1)
    distance: DistanceRange = (0.2, 0.5)


class RicianSettings(Settings):
    """Noise of a magnitude image: that of a complex signal with Gaussian noise in both parts.

    Parameters
    ----------
    probability : float
        How often.
    sigma : tuple of float
        Range of either part's standard deviation, on the scale of `ContrastSettings`, drawn uniformly.
    """

    probability: Probability = 0.5
    sigma: FractionRange = (0.01, 0.04)


class MaskEdgeSettings(Settings):
    """Another brain extraction: a rim of uneven depth is cut off, or a dark one is left around the brain.

    Parameters
    ----------
    probability : float
        How often.
    depth_voxels : tuple of float
        Range of the mean depth cut off, drawn uniformly; below 0, of the rim left.
    variation_voxels : float
        Standard deviation of the depth over the box: some places are cut deeper than others.
    rim : tuple of float
        Range of the intensity of a rim that is left over that of the edge beside it, drawn uniformly.
    """

    probability: Probability = 0.5
    depth_voxels: DepthRange = (-0.5, 0.75)
    variation_voxels: float = Field(0.5, ge=0.0, le=3.0, allow_inf_nan=False)
    rim: FractionRange = (0.2, 0.6)


class TightMaskSettings(Settings):
    """A brain extraction that follows the folds: near the surface what is as dark as fluid is cut off.

    Parameters
    ----------
    probability : float
        How often.
    depth_voxels : tuple of float
        Range of the mean depth down to which it is cut, drawn uniformly.
    variation_voxels : float
        Standard deviation of the depth over the box.
    below : tuple of float
        Range of the intensity below which it is cut, on the scale of `ContrastSettings`, drawn uniformly.
    """

    probability: Probability = 0.5
    depth_voxels: CutRange = (0.5, 1.5)
    variation_voxels: float = Field(0.5, ge=0.0, le=3.0, allow_inf_nan=False)
    below: FractionRange = (0.2, 0.5)
