"""Random changes of intensities: contrast, bias field, noise, blur, sharpness, tissue maps.

Sums over the weights of a filter and the terms of a polynomial are written out: a matrix product or
a convolution may change a result's last bit with the batch size.
"""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import torch
from scipy.special import ndtri
from torch import Tensor
from torch.nn import functional

from neurocontrast.transforms import augment
from neurocontrast.transforms.rand_volumes import RandSignald, RandVolumed
from neurocontrast.transforms.signal import corner_median
from neurocontrast.transforms.volumes import Array, Numbers, per_sample

_DIMMEST = 1e-7  # position between the least and the greatest signal that a power counts from
_TRUNCATE = 4.0
_SEED_NUMBERS = 2


class RandBrainContrastd(RandSignald):
    """Raise the brain's signal to a random power; the lowest and the highest signal stay.

    Equivalent to MONAI's `RandAdjustContrastd` between `ToSignald` and `FromSignald`.

    Parameters
    ----------
    keys : str or sequence of str
        Keys of the volumes (channels, D, H, W) in a dictionary.
    prob : float, default 0.5
        Probability that a volume is changed, from 0 to 1.
    gamma : (float, float), default (0.8, 1.25)
        Range of the exponent; below 1 dark tissue grows brighter. Limits: 0.2 to 5.
    allow_missing_keys : bool, default False
        Whether a dictionary may lack some of the keys.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import RandBrainContrastd
    >>> RandBrainContrastd("image", prob=1.0)({"image": torch.rand(1, 9, 9, 9)})["image"].shape
    torch.Size([1, 9, 9, 9])
    """

    settings: augment.Contrast
    operation = "contrast"

    def __init__(
        self,
        keys: str | Sequence[str],
        prob: float = 0.5,
        *,
        gamma: augment.Pair = (0.8, 1.25),
        allow_missing_keys: bool = False,
    ) -> None:
        settings = augment.Contrast(probability=prob, gamma=gamma)
        super().__init__(keys, settings, allow_missing_keys=allow_missing_keys)

    def change(self, s_BCDHW: Tensor, *, gamma: Array) -> Tensor:
        """Return low + range · ((signal − low) / range) ** `gamma` for each signal.

        A signal is a volume that `to_signal` has rescaled: 0 outside the brain, 1 at the brain's
        99th percentile. All channels of a sample share the lowest signal and the range.
        """
        low = s_BCDHW.amin((1, 2, 3, 4), keepdim=True)
        extent = s_BCDHW.amax((1, 2, 3, 4), keepdim=True) - low
        position = s_BCDHW.sub_(low).div_(extent + 1e-7)
        is_above = position.sign()
        # By logarithms: in a power, the last bit depends on where in memory a voxel is. The
        # logarithm of 0, which most voxels are, takes fifty times as long as another's.
        power = position.clamp_(min=_DIMMEST).log_().mul_(per_sample(gamma, s_BCDHW)).exp_()
        return power.mul_(is_above).mul_(extent).add_(low)


class RandBrainBiasFieldd(RandSignald):
    """Multiply the brain's signal by a smooth random field, as an uneven receive coil does.

    The field is the exponential of a random polynomial of the voxel position, with a standard
    deviation drawn from `strength`. MONAI's `RandBiasFieldd` draws coefficients, so that the spread
    of the field grows with the polynomial's degree.

    Parameters
    ----------
    keys : str or sequence of str
        Keys of the volumes (channels, D, H, W) in a dictionary.
    prob : float, default 0.5
        Probability that a volume is changed, from 0 to 1.
    order : int, default 3
        Total degree of the polynomial. Range: 1 to 6.
    strength : (float, float), default (0.05, 0.25)
        Range of the standard deviation of the field's natural logarithm. Limits: 0 to 1.
    allow_missing_keys : bool, default False
        Whether a dictionary may lack some of the keys.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import RandBrainBiasFieldd
    >>> RandBrainBiasFieldd("image", prob=1.0)({"image": torch.rand(1, 9, 9, 9)})["image"].shape
    torch.Size([1, 9, 9, 9])
    """

    settings: augment.BiasField
    operation = "bias_field"

    def __init__(
        self,
        keys: str | Sequence[str],
        prob: float = 0.5,
        *,
        order: int = 3,
        strength: augment.Pair = (0.05, 0.25),
        allow_missing_keys: bool = False,
    ) -> None:
        settings = augment.BiasField(probability=prob, order=order, strength=strength)
        super().__init__(keys, settings, allow_missing_keys=allow_missing_keys)

    def n_further(self, n_channels: int) -> int:  # noqa: ARG002
        """Return the number of random coefficients of one sample's polynomial."""
        return n_terms(self.settings.order)

    def further(self, uniforms: Array, n_channels: int) -> Numbers:  # noqa: ARG002
        """Return coefficients of a random polynomial for each sample, made of `uniforms`.

        The polynomial forms the bias field. Coefficients have the shape (b, n, n, n), see
        `smooth_fields`; `uniforms` are random numbers in [0, 1).
        """
        return {"coefficients": polynomials(self.settings.order, normal_numbers(uniforms))}

    def change(self, s_BCDHW: Tensor, *, strength: Array, coefficients: Array) -> Tensor:
        """Return the signals multiplied by smooth fields, one for each sample.

        A signal is a volume that `to_signal` has rescaled: 0 outside the brain, 1 at the brain's
        99th percentile. The logarithm of a field is the polynomial of `coefficients` times
        `strength`.
        """
        scaled = strength[:, None, None, None] * coefficients
        fields = smooth_fields(scaled, s_BCDHW.shape[2:], device=s_BCDHW.device)
        return s_BCDHW.mul_(fields.exp_()[:, None])


def normal_numbers(uniforms: Array) -> Array:
    """Return a standard normal number for each uniform number, from `derive_uniforms`."""
    # Between the steps, so that none is infinite.
    numbers: Array = ndtri(uniforms + 2.0**-33)
    return numbers


@lru_cache(maxsize=16)
def _terms(order: int) -> tuple[npt.NDArray[np.intp], Array]:
    """Return the terms of a polynomial in three variables with total degree up to `order`.

    The terms are given by their exponents (3, n_terms), without the constant. The mean square of
    each term over the voxels of a volume, (n_terms,), is returned too.
    """
    degree = np.arange(order + 1)
    total = degree[:, None, None] + degree[:, None] + degree
    degrees = np.stack(np.nonzero((total > 0) & (total <= order)))
    return degrees, (1.0 / (2.0 * degrees + 1.0)).prod(axis=0)


def n_terms(order: int) -> int:
    """Return the number of terms of a polynomial in three variables, of total degree up to `order`.

    The constant does not count.
    """
    return _terms(order)[0].shape[1]


def polynomials(order: int, normals: Array) -> Array:
    """Return random Legendre coefficients by which a field has mean 0 and standard deviation 1.

    Coefficients have the shape (b, n, n, n) with n = `order` + 1, and are scaled from `normals`,
    standard normal numbers (b, n_terms). Mean and standard deviation are over a volume's voxels.
    """
    degrees, mean_squares = _terms(order)
    spread = np.sqrt((normals**2 * mean_squares).sum(axis=1, keepdims=True))
    coefficients = np.zeros((len(normals), order + 1, order + 1, order + 1))
    coefficients[:, degrees[0], degrees[1], degrees[2]] = normals / spread
    return coefficients


def smooth_fields(
    coefficients: Array, shape: Sequence[int], *, device: torch.device | str = "cpu"
) -> Tensor:
    """Return smooth fields (b, D, H, W) on a grid of given shape, one for each sample.

    A field is the sum of Legendre polynomials in three directions with `coefficients` (b, n, n, n).
    """
    n = coefficients.shape[1]
    first = _legendre(shape[0], n).to(device)
    second = _legendre(shape[1], n).to(device)
    third = _legendre(shape[2], n).to(device)
    terms = torch.from_numpy(coefficients.astype(np.float32)).to(device)
    terms = _sum_of_terms(terms[..., None], third)
    terms = _sum_of_terms(terms[:, :, :, None], second[..., None])
    return _sum_of_terms(terms[:, :, None], first[..., None, None])


def _sum_of_terms(terms: Tensor, polynomials: Tensor) -> Tensor:
    """Return Σ_k terms_k · polynomial_k, the sum over the degree k of Legendre polynomials.

    The degree is the first axis of `polynomials`. In `terms`, it is the axis at the same place
    counted from the last axis: for polynomials (k, D), axis 1 of terms (b, k, D).
    """
    axis = terms.ndim - polynomials.ndim
    total = terms.select(axis, 0) * polynomials[0]
    for degree in range(1, len(polynomials)):
        total.addcmul_(terms.select(axis, degree), polynomials[degree])
    return total


@lru_cache(maxsize=64)
def _legendre(side: int, n: int) -> Tensor:
    """Return the values of Legendre polynomials at the voxels of an axis with `side` voxels.

    The result has the shape (n, side), for degrees 0 to n − 1.
    """
    places = (2.0 * np.arange(side) + 1.0) / side - 1.0
    values = np.polynomial.legendre.legvander(places, n - 1).T
    return torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32))


class _RandNoised(RandVolumed):
    """Base class of operations that draw a random number for each voxel, on the volumes' device."""

    def n_further(self, n_channels: int) -> int:  # noqa: ARG002
        """Return 2, the number of uniform random numbers from which one sample's seed is made.

        The seed is that of the generator of noise.
        """
        return _SEED_NUMBERS

    def further(self, uniforms: Array, n_channels: int) -> Numbers:  # noqa: ARG002
        """Return a seed of the noise generator for each sample, made of the numbers `uniforms`."""
        words = (uniforms * 2.0**32).astype(np.int64)
        return {"seed": (words[:, 0] << 31) ^ words[:, 1]}


def _noise(seeds: npt.NDArray[np.int64], x_BCDHW: Tensor, *, n_parts: int = 1) -> Tensor:
    """Return standard normal noise (b, n_parts, channels, D, H, W) for a batch of volumes.

    `n_parts` is the number of independent noises for a volume: 2 for the real and the imaginary
    part of a complex signal. The noise of a sample is drawn on the volumes' device, by the sample's
    seed in `seeds`.
    """
    shape = (len(x_BCDHW), n_parts, *x_BCDHW.shape[1:])
    noise = torch.empty(shape, dtype=x_BCDHW.dtype, device=x_BCDHW.device)
    generator = torch.Generator(device=x_BCDHW.device)
    for sample, seed in zip(noise, seeds.tolist(), strict=True):
        sample.normal_(generator=generator.manual_seed(seed))
    return noise


class RandNoised(_RandNoised):
    """Add Gaussian noise of a random standard deviation to volumes.

    A CPU and a GPU draw different noise of the same distribution. MONAI's `RandGaussianNoised`
    draws standard deviations from 0 on, or takes a fixed one.

    Parameters
    ----------
    keys : str or sequence of str
        Keys of the volumes (channels, D, H, W) in a dictionary.
    prob : float, default 0.5
        Probability that a volume is changed, from 0 to 1.
    sigma : (float, float), default (0.1, 1.0)
        Range of the noise's standard deviation, in units of the intensities. Limits: 0 to 10.
    allow_missing_keys : bool, default False
        Whether a dictionary may lack some of the keys.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import RandNoised
    >>> noise = RandNoised("image", prob=1.0, sigma=(0.1, 0.2))
    >>> noise({"image": torch.rand(1, 9, 9, 9)})["image"].shape
    torch.Size([1, 9, 9, 9])
    """

    settings: augment.Noise
    operation = "noise"

    def __init__(
        self,
        keys: str | Sequence[str],
        prob: float = 0.5,
        *,
        sigma: augment.Pair = (0.1, 1.0),
        allow_missing_keys: bool = False,
    ) -> None:
        settings = augment.Noise(probability=prob, sigma=sigma)
        super().__init__(keys, settings, allow_missing_keys=allow_missing_keys)

    def change(self, x_BCDHW: Tensor, *, sigma: Array, seed: npt.NDArray[np.int64]) -> Tensor:
        """Return volumes plus Gaussian noise of standard deviation `sigma`, drawn by `seed`."""
        return x_BCDHW.addcmul_(_noise(seed, x_BCDHW)[:, 0], per_sample(sigma, x_BCDHW))


class RandBrainRiciand(_RandNoised, RandSignald):
    """Add Rician noise to the brain, as the magnitude of a complex MR signal has.

    Gaussian noise is added to the real and to the imaginary channel before the magnitude is taken.
    MONAI's `RandRicianNoised` draws standard deviations from 0 on, or takes a fixed one.

    Parameters
    ----------
    keys : str or sequence of str
        Keys of the volumes (channels, D, H, W) in a dictionary.
    prob : float, default 0.5
        Probability that a volume is changed, from 0 to 1.
    sigma : (float, float), default (0.01, 0.04)
        Range of the noise's standard deviation in the real and in the imaginary channel, on a scale
        from the darkest voxel (0) to the brain's 99th percentile (1). Limits: 0 to 1.
    allow_missing_keys : bool, default False
        Whether a dictionary may lack some of the keys.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import RandBrainRiciand
    >>> RandBrainRiciand("image", prob=1.0)({"image": torch.rand(1, 9, 9, 9)})["image"].shape
    torch.Size([1, 9, 9, 9])
    """

    settings: augment.Rician
    operation = "rician"

    def __init__(
        self,
        keys: str | Sequence[str],
        prob: float = 0.5,
        *,
        sigma: augment.Pair = (0.01, 0.04),
        allow_missing_keys: bool = False,
    ) -> None:
        settings = augment.Rician(probability=prob, sigma=sigma)
        super().__init__(keys, settings, allow_missing_keys=allow_missing_keys)

    def change(self, s_BCDHW: Tensor, *, sigma: Array, seed: npt.NDArray[np.int64]) -> Tensor:
        """Return the magnitudes of complex signals with Gaussian noise in both channels.

        A signal is a volume that `to_signal` has rescaled: 0 outside the brain, 1 at the brain's
        99th percentile. Here it is the real channel, and the imaginary channel is 0. The noise in
        each channel has the standard deviation `sigma`, and is drawn by `seed`.
        """
        noise = _noise(seed, s_BCDHW, n_parts=2).mul_(per_sample(sigma, s_BCDHW)[:, None])
        return s_BCDHW.add_(noise[:, 0]).hypot_(noise[:, 1])


def blur(x_BCDHW: Tensor, *, sigma_voxels: Array) -> Tensor:
    """Return volumes smoothed by a Gaussian of standard deviation `sigma_voxels` for each sample.

    Gaussians are cut at four standard deviations, and border voxels repeat outside the volume.
    """
    sigma = np.maximum(sigma_voxels, 1e-3)[:, None]
    reach = np.floor(np.maximum(_TRUNCATE * sigma, 0.5) + 0.5)
    radius = int(reach.max(initial=0.0))
    offsets = np.arange(radius + 1)
    weights = np.exp(-0.5 * (offsets / sigma) ** 2) * (offsets <= reach)
    # Added one after the other: zeros beyond a volume's own reach change nothing.
    weights /= 2.0 * weights.cumsum(axis=1)[:, -1:] - weights[:, :1]
    taps = per_sample(weights, x_BCDHW)
    for axis in (2, 3, 4):
        sides = [0] * 6
        sides[8 - 2 * axis : 10 - 2 * axis] = [radius, radius]
        padded = functional.pad(x_BCDHW, sides, mode="replicate")
        side = x_BCDHW.shape[axis]
        x_BCDHW = padded.narrow(axis, radius, side) * taps[:, :1]
        for tap in [*range(radius), *range(radius + 1, 2 * radius + 1)]:
            weight = taps[:, abs(tap - radius), None]
            x_BCDHW.addcmul_(padded.narrow(axis, tap, side), weight)
    return x_BCDHW


class RandBlurd(RandVolumed):
    """Blur volumes by a Gaussian of random width, the same along each axis.

    MONAI's `RandGaussianSmoothd` draws a width for each axis, and treats voxels beyond the border
    as 0.

    Parameters
    ----------
    keys : str or sequence of str
        Keys of the volumes (channels, D, H, W) in a dictionary.
    prob : float, default 0.5
        Probability that a volume is changed, from 0 to 1.
    sigma_voxels : (float, float), default (0.1, 1.0)
        Range of the Gaussian's standard deviation, in voxels. Limits: 0 to 10.
    allow_missing_keys : bool, default False
        Whether a dictionary may lack some of the keys.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import RandBlurd
    >>> blur = RandBlurd("image", prob=1.0, sigma_voxels=(0.5, 1.0))
    >>> blur({"image": torch.rand(1, 9, 9, 9)})["image"].shape
    torch.Size([1, 9, 9, 9])
    """

    settings: augment.Blur
    operation = "blur"

    def __init__(
        self,
        keys: str | Sequence[str],
        prob: float = 0.5,
        *,
        sigma_voxels: augment.Pair = (0.1, 1.0),
        allow_missing_keys: bool = False,
    ) -> None:
        settings = augment.Blur(probability=prob, sigma_voxels=sigma_voxels)
        super().__init__(keys, settings, allow_missing_keys=allow_missing_keys)

    def change(self, x_BCDHW: Tensor, *, sigma_voxels: Array) -> Tensor:
        """Return blurred volumes; the Gaussian of each sample has the width `sigma_voxels`."""
        return blur(x_BCDHW, sigma_voxels=sigma_voxels)


class RandBrainSharpnessd(RandSignald):
    """Make the brain sharper or smoother by adding or subtracting fine detail (unsharp mask).

    Fine detail is the difference of the brain from a Gaussian-blurred copy.

    Parameters
    ----------
    keys : str or sequence of str
        Keys of the volumes (channels, D, H, W) in a dictionary.
    prob : float, default 0.5
        Probability that a volume is changed, from 0 to 1.
    amount : (float, float), default (-0.5, 1.0)
        Range of the factor on the fine detail that is added; −1 leaves the blurred brain. Limits:
        −1 to 5.
    sigma_voxels : float, default 1.0
        Standard deviation of the Gaussian, in voxels. Range: above 0, at most 3.
    allow_missing_keys : bool, default False
        Whether a dictionary may lack some of the keys.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import RandBrainSharpnessd
    >>> RandBrainSharpnessd("image", prob=1.0)({"image": torch.rand(1, 9, 9, 9)})["image"].shape
    torch.Size([1, 9, 9, 9])
    """

    settings: augment.Sharpness
    operation = "sharpness"

    def __init__(
        self,
        keys: str | Sequence[str],
        prob: float = 0.5,
        *,
        amount: augment.Pair = (-0.5, 1.0),
        sigma_voxels: float = 1.0,
        allow_missing_keys: bool = False,
    ) -> None:
        settings = augment.Sharpness(probability=prob, amount=amount, sigma_voxels=sigma_voxels)
        super().__init__(keys, settings, allow_missing_keys=allow_missing_keys)

    def change(self, s_BCDHW: Tensor, *, amount: Array) -> Tensor:
        """Return signals plus `amount` times their fine detail.

        A signal is a volume that `to_signal` has rescaled: 0 outside the brain, 1 at the brain's
        99th percentile. Fine detail is the difference of the signal from a Gaussian-blurred copy.
        The result is at least a quarter of the signal before. This lower limit keeps dim voxels at
        the edge within the brain.
        """
        sigma = np.full(len(s_BCDHW), self.settings.sigma_voxels)
        detail = blur(s_BCDHW, sigma_voxels=sigma).sub_(s_BCDHW).neg_()
        sharp = detail.mul_(per_sample(amount, s_BCDHW)).add_(s_BCDHW)
        return sharp.maximum(s_BCDHW.mul_(0.25))


class RandTissueShiftd(RandVolumed):
    """Multiply each tissue map by a smooth random field, and add another inside the brain.

    The result imitates tissue maps of another scanner. MONAI's `RandBiasFieldd` multiplies all
    channels by one field, and adds nothing.

    Parameters
    ----------
    keys : str or sequence of str
        Keys of the volumes (channels, D, H, W) in a dictionary.
    prob : float, default 0.5
        Probability that a volume is changed, from 0 to 1.
    order : int, default 2
        Total degree of the random polynomials that form the fields. Range: 1 to 6.
    gain : (float, float), default (0.0, 0.1)
        Range of the standard deviation of the factor's natural logarithm. Limits: 0 to 1.
    shift : (float, float), default (0.0, 0.05)
        Range of the added field's standard deviation, as a share of the largest value of a map.
        Limits: 0 to 1.
    allow_missing_keys : bool, default False
        Whether a dictionary may lack some of the keys.

    Examples
    --------
    >>> import torch
    >>> from neurocontrast.transforms import RandTissueShiftd
    >>> RandTissueShiftd("image", prob=1.0)({"image": torch.rand(2, 9, 9, 9)})["image"].shape
    torch.Size([2, 9, 9, 9])
    """

    settings: augment.TissueShift
    operation = "tissue_shift"

    def __init__(
        self,
        keys: str | Sequence[str],
        prob: float = 0.5,
        *,
        order: int = 2,
        gain: augment.Pair = (0.0, 0.1),
        shift: augment.Pair = (0.0, 0.05),
        allow_missing_keys: bool = False,
    ) -> None:
        settings = augment.TissueShift(probability=prob, order=order, gain=gain, shift=shift)
        super().__init__(keys, settings, allow_missing_keys=allow_missing_keys)

    def n_further(self, n_channels: int) -> int:
        """Return the number of random coefficients of one sample's tissue maps.

        Each map has two polynomials, whose constants count too.
        """
        return n_channels * 2 * (1 + n_terms(self.settings.order))

    def further(self, uniforms: Array, n_channels: int) -> Numbers:
        """Return coefficients of two random fields for each sample and tissue map.

        One field is for the factor, one is added. Coefficients are made of `uniforms`. Half of a
        field's variance, over samples and voxels, comes from a random constant that is added
        everywhere; the other half comes from the polynomial's changes with position.
        """
        normals = normal_numbers(uniforms).reshape(len(uniforms) * n_channels * 2, -1)
        fields = polynomials(self.settings.order, normals[:, 1:])
        fields[:, 0, 0, 0] = normals[:, 0]
        shape = (len(uniforms), n_channels, 2, *fields.shape[1:])
        return {"coefficients": fields.reshape(shape) / math.sqrt(2.0)}

    def change(self, x_BCDHW: Tensor, *, gain: Array, shift: Array, coefficients: Array) -> Tensor:
        """Return x·exp(gain·f) + shift·m·b·h for each tissue map x, with random fields f and h.

        m is the largest value of the map. Each field is a polynomial whose standard deviation over
        views and voxels is 1; half of the variance comes from a random constant. Weight b is 1 in
        the brain, where the sum of a sample's maps exceeds half of the largest sum; at voxels with
        a smaller sum, b is in proportion to the sum, so that smoothed maps get no edge.

        The background, the median of a map's corner voxels, is subtracted before, and values below
        0 become 0. The result is limited to the range from 0 to m, or to 1 if m is smaller; then
        the background is added again.
        """
        background = corner_median(x_BCDHW)
        maps = x_BCDHW.sub_(background).clamp_(min=0.0)
        largest = maps.amax((2, 3, 4), keepdim=True)
        brain = 2.0 * maps[:, :1]
        for channel in range(1, maps.shape[1]):
            brain.add_(maps[:, channel : channel + 1], alpha=2.0)
        brain.div_(0.5 * brain.amax((1, 2, 3, 4), keepdim=True).clamp_(min=2e-6)).clamp_(max=1.0)
        shape = maps.shape[2:]
        gains = per_sample(gain, maps)[:, 0]
        shifts = per_sample(shift, maps)
        for channel in range(maps.shape[1]):
            values = maps[:, channel]
            factor = smooth_fields(coefficients[:, channel, 0], shape, device=maps.device)
            values.mul_(factor.mul_(gains).exp_())
            added = smooth_fields(coefficients[:, channel, 1], shape, device=maps.device)
            size = shifts * largest[:, channel : channel + 1]
            values.add_(added.mul_(size[:, 0]).mul_(brain[:, 0]))
        return maps.clamp_(min=0.0).minimum(largest.clamp_(min=1.0)).add_(background)
