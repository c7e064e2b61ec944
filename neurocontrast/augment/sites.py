"""A volume as another site would have scanned and prepared it: what is drawn, and how it is applied."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from neurocontrast.augment import site_operations
from neurocontrast.augment.settings import AugmentSettings
from neurocontrast.augment.signal import Signal, from_signal, to_signal
from neurocontrast.augment.site_settings import (
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
from neurocontrast.seeds import derive_generator

__all__ = ["SiteParameters", "draw_site", "seen_at_site"]

Array = NDArray[np.float64]

_EDGE_ORDER = 5
"""Degree of the polynomial by which the depth of a rim varies: it changes over some centimetres."""


@dataclass(frozen=True)
class Affine:
    """From a place in the view to one in the volume, in voxels about the centre."""

    matrix: Array
    translation: Array


@dataclass(frozen=True)
class Sharpness:
    """How much of what a Gaussian takes away is added, and its deviation."""

    amount: float
    sigma_voxels: float


@dataclass(frozen=True)
class Slices:
    """Axes along which slices are thick, how thick in voxels, and where the first begins."""

    axes: tuple[int, ...]
    factor: float
    phase: float


@dataclass(frozen=True)
class Ghosts:
    """Axis, shift over the volume's side, height and phase of two replicas."""

    axis: int
    distance: float
    intensity: float
    phase: float


@dataclass(frozen=True)
class Noise:
    """Deviation of Rician noise, and the seed of its generator."""

    sigma: float
    seed: int


@dataclass(frozen=True)
class Cut:
    """Mean depth of the rim in voxels, the polynomial added to it, and how bright what is cut may be."""

    depth_voxels: float
    coefficients: Array
    below: float


@dataclass(frozen=True)
class Edge:
    """Mean depth of the rim that is cut, or below 0 left, the polynomial added, and the intensity of one left."""

    depth_voxels: float
    coefficients: Array
    rim: float


@dataclass(frozen=True)
class SiteParameters:
    """What was drawn for one view; an operation that is None is not applied."""

    affine: Affine | None = None
    gamma: float | None = None
    slopes: tuple[float, ...] | None = None
    bias: Array | None = None
    sharpness: Sharpness | None = None
    slices: Slices | None = None
    ghosts: Ghosts | None = None
    noise: Noise | None = None
    tight: Cut | None = None
    edge: Edge | None = None

    @property
    def nothing(self) -> bool:
        """Whether the volume stays as it is."""
        return all(value is None for value in vars(self).values())


def draw_site(settings: AugmentSettings, *, seed: int, epoch: int, sample: int, view: int) -> SiteParameters:
    """Draw how another site sees a volume; the numbers depend on these arguments alone.

    Each operation has a stream of its own, so that one more or less leaves the others as they were.
    """
    drawn: dict[str, object] = {}
    for name, (field, draw) in _DRAWN.items():
        chosen = getattr(settings, name)
        if chosen is None or chosen.probability == 0.0:
            continue
        generator = derive_generator("views", name, seed, epoch, sample, view)
        if generator.random() < chosen.probability:
            drawn[field] = draw(chosen, generator)
    return SiteParameters(**drawn)  # type: ignore[arg-type]


def seen_at_site(x_CDHW: Tensor, drawn: SiteParameters) -> Tensor:
    """Return a float32 volume as the site sees it; one in which nothing varies is returned as it is."""
    if drawn.nothing:
        return x_CDHW
    with torch.autocast(x_CDHW.device.type, enabled=False):
        signal = to_signal(x_CDHW)
        if signal is None:
            return x_CDHW
        if drawn.affine is not None:
            signal.signal_CDHW, signal.brain_CDHW = site_operations.move(
                signal.signal_CDHW,
                signal.brain_CDHW,
                matrix=drawn.affine.matrix,
                translation=drawn.affine.translation.tolist(),
            )
        signal.signal_CDHW = _acquired(signal.signal_CDHW, drawn)
        if drawn.tight is not None or drawn.edge is not None:
            _strip(signal, drawn)
        return from_signal(signal)


def _acquired(s_CDHW: Tensor, drawn: SiteParameters) -> Tensor:
    """Apply what happens in the scanner, in the order in which it happens there."""
    if drawn.gamma is not None:
        s_CDHW = site_operations.adjust_gamma(s_CDHW, gamma=drawn.gamma)
    if drawn.slopes is not None:
        s_CDHW = site_operations.remap_histogram(s_CDHW, slopes=drawn.slopes)
    if drawn.bias is not None:
        s_CDHW = site_operations.bias_field(s_CDHW, coefficients=drawn.bias)
    if drawn.sharpness is not None:
        s_CDHW = site_operations.sharpen(s_CDHW, **vars(drawn.sharpness))
    if drawn.slices is not None:
        slices = drawn.slices
        s_CDHW = site_operations.lower_resolution(s_CDHW, axes=slices.axes, factor=slices.factor, phase=slices.phase)
    if drawn.ghosts is not None:
        ghosts = drawn.ghosts
        shift = max(1, round(ghosts.distance * s_CDHW.shape[ghosts.axis + 1]))
        s_CDHW = site_operations.ghost(
            s_CDHW, axis=ghosts.axis, shift=shift, intensity=ghosts.intensity, phase=ghosts.phase
        )
    if drawn.noise is not None:
        generator = torch.Generator(device=s_CDHW.device).manual_seed(drawn.noise.seed)
        s_CDHW = site_operations.rician_noise(s_CDHW, sigma=drawn.noise.sigma, generator=generator)
    return s_CDHW


def _strip(signal: Signal, drawn: SiteParameters) -> None:
    """Extract the brain anew, from the extracted one."""
    s_CDHW, brain_CDHW = signal.signal_CDHW * signal.brain_CDHW, signal.brain_CDHW
    if drawn.tight is not None:
        s_CDHW, brain_CDHW = site_operations.cut_rim(s_CDHW, brain_CDHW, **vars(drawn.tight))
    if drawn.edge is not None:
        depth, coefficients = drawn.edge.depth_voxels, drawn.edge.coefficients
        if depth >= 0.0:
            made = site_operations.cut_rim(s_CDHW, brain_CDHW, depth_voxels=depth, coefficients=coefficients)
        else:
            made = site_operations.leave_rim(
                s_CDHW, brain_CDHW, depth_voxels=-depth, coefficients=coefficients, rim=drawn.edge.rim
            )
        s_CDHW, brain_CDHW = made
    signal.signal_CDHW, signal.brain_CDHW = s_CDHW, brain_CDHW


# --- what is drawn for each operation --------------------------------------------------------------------------------
def _draw_affine(chosen: AffineSettings, generator: np.random.Generator) -> Affine:
    angles = np.deg2rad(generator.uniform(*chosen.rotation_degrees, 3))
    translation, scales = generator.uniform(*chosen.translation_voxels, 3), generator.uniform(*chosen.scale, 3)
    if not chosen.anisotropic:
        scales[:] = scales[0]
    return Affine(_rotation(angles) / scales, translation)


def _rotation(angles: Array) -> Array:
    matrix = np.eye(3)
    for axis, angle in enumerate(angles):
        i, j = [other for other in range(3) if other != axis]
        about = np.eye(3)
        about[[i, j], [i, j]] = math.cos(angle)
        about[i, j], about[j, i] = -math.sin(angle), math.sin(angle)
        matrix = matrix @ about
    return matrix


def _draw_gamma(chosen: ContrastSettings, generator: np.random.Generator) -> float:
    return math.exp(generator.uniform(*np.log(chosen.gamma)))


def _draw_slopes(chosen: HistogramSettings, generator: np.random.Generator) -> tuple[float, ...]:
    strength = generator.uniform(*chosen.strength)
    return tuple(np.exp(strength * generator.standard_normal(chosen.n_pieces)).tolist())


def _draw_bias(chosen: BiasFieldSettings, generator: np.random.Generator) -> Array:
    return generator.uniform(*chosen.strength) * _polynomial(chosen.order, generator)


def _draw_sharpness(chosen: SharpnessSettings, generator: np.random.Generator) -> Sharpness:
    return Sharpness(generator.uniform(*chosen.amount), chosen.sigma_voxels)


def _draw_slices(chosen: ResolutionSettings, generator: np.random.Generator) -> Slices:
    factor, phase, everywhere, place = generator.uniform(*chosen.factor), *generator.random(3)
    axes = (0, 1, 2) if everywhere < chosen.all_axes else (_one_of(chosen.axes, place),)
    return Slices(axes, float(factor), float(phase))


def _draw_ghosts(chosen: GhostingSettings, generator: np.random.Generator) -> Ghosts:
    axis = _one_of(chosen.axes, generator.random())
    distance = generator.uniform(*chosen.distance)
    return Ghosts(axis, distance, generator.uniform(*chosen.intensity), generator.uniform(0.0, 2.0 * math.pi))


def _draw_noise(chosen: RicianSettings, generator: np.random.Generator) -> Noise:
    return Noise(generator.uniform(*chosen.sigma), int(generator.integers(2**63 - 1)))


def _draw_tight(chosen: TightMaskSettings, generator: np.random.Generator) -> Cut:
    depth, below = generator.uniform(*chosen.depth_voxels), generator.uniform(*chosen.below)
    return Cut(depth, chosen.variation_voxels * _polynomial(_EDGE_ORDER, generator), below)


def _draw_edge(chosen: MaskEdgeSettings, generator: np.random.Generator) -> Edge:
    depth, rim = generator.uniform(*chosen.depth_voxels), generator.uniform(*chosen.rim)
    return Edge(depth, chosen.variation_voxels * _polynomial(_EDGE_ORDER, generator), rim)


_DRAWN: dict[str, tuple[str, Callable[[Any, np.random.Generator], object]]] = {
    "affine": ("affine", _draw_affine),
    "contrast": ("gamma", _draw_gamma),
    "histogram": ("slopes", _draw_slopes),
    "bias_field": ("bias", _draw_bias),
    "sharpness": ("sharpness", _draw_sharpness),
    "resolution": ("slices", _draw_slices),
    "ghosting": ("ghosts", _draw_ghosts),
    "rician": ("noise", _draw_noise),
    "tight_mask": ("tight", _draw_tight),
    "mask_edge": ("edge", _draw_edge),
}


def _one_of(axes: tuple[int, ...], position: float) -> int:
    return axes[int(position * len(axes))]


def _polynomial(order: int, generator: np.random.Generator) -> Array:
    """Draw Legendre coefficients of a field over the box whose mean is 0 and whose standard deviation is 1."""
    there, norm = _terms(order)
    coefficients = np.where(there, generator.standard_normal(there.shape), 0.0)
    return coefficients / math.sqrt(float((coefficients**2 * norm).sum()))


@lru_cache(maxsize=8)
def _terms(order: int) -> tuple[NDArray[np.bool_], Array]:
    degree = np.arange(order + 1)
    total = degree[:, None, None] + degree[:, None] + degree
    mean_square = 1.0 / (2.0 * degree + 1.0)
    return (total > 0) & (total <= order), np.einsum("i,j,k->ijk", mean_square, mean_square, mean_square)
