"""Each operation against what it is defined by: Pillow, SciPy, colorsys."""

import numpy as np
import pytest
import torch
from PIL import Image
from scipy import ndimage

pytest.importorskip("kornia")

from neurocontrast.natural.operations import adjust_contrast, blur, warp


@pytest.fixture
def pixels():
    """8-bit images (3, 24, 20, 3), smooth enough that interpolation has something to find."""
    generator = np.random.default_rng(0)
    rough = generator.uniform(-150, 400, size=(3, 24, 20, 3))
    return np.clip(ndimage.gaussian_filter(rough, (0, 1, 1, 0)), 0, 255).astype(np.uint8)


def to_batch(pixels: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 255.0


def levels(x_BCHW: torch.Tensor) -> np.ndarray:
    return x_BCHW.permute(0, 2, 3, 1).numpy() * 255.0


WHOLE = np.zeros((3, 2), dtype=int), np.tile([24, 20], (3, 1))


def back(radians=0.0, zoom=1.0, shift=(0.0, 0.0)) -> np.ndarray:
    """Return the way from places in a view of 24 × 20 pixels to those in the image, for each of three images."""
    linear = (
        np.array([[np.cos(radians), np.sin(radians)], [-np.sin(radians), np.cos(radians)]]) / zoom
    )
    centre = np.array([11.5, 9.5])
    offset = centre - linear @ (centre + shift)
    return np.tile(np.concatenate([linear, offset[:, None]], axis=1), (3, 1, 1))


def test_contrast_is_the_same_in_any_batch_and_by_any_number_of_threads():
    """A plain mean is not: of one large image it is taken by two threads, of five by one each."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    images = torch.rand(5, 3, 223, 225, generator=torch.Generator().manual_seed(0))
    factors = torch.linspace(0.6, 1.4, 5)
    whole = adjust_contrast(images, factor=factors)
    alone = [adjust_contrast(images[i : i + 1], factor=factors[i : i + 1]) for i in range(5)]
    torch.set_num_threads(before)
    assert torch.equal(whole, torch.cat(alone))


def _pillow_per_channel(image: np.ndarray, change) -> np.ndarray:
    """Apply a Pillow operation in floating point, which it has for one channel only."""
    return np.stack(
        [np.asarray(change(Image.fromarray(image[..., c].astype(np.float32)))) for c in range(3)],
        axis=-1,
    )


def test_an_affine_is_pillows_transform(pixels):
    """Turn and enlarge about the centre, then shift: Pillow is given the way back."""
    turn = np.deg2rad(20.0)
    zoom = 1.2
    shift = np.array([1.5, -2.25])
    # In x and y, y downwards.
    rotation = np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]])
    way = np.linalg.inv(zoom * rotation)
    centre = np.array([10.0, 12.0])
    offset = centre - way @ (centre + shift[::-1])
    coefficients = (*way[0], offset[0], *way[1], offset[1])
    made = levels(warp(to_batch(pixels), *WHOLE, back(turn, zoom, shift)))
    for i in range(3):
        expected = _pillow_per_channel(
            pixels[i],
            lambda channel: channel.transform(
                (20, 24), Image.Transform.AFFINE, coefficients, resample=Image.Resampling.BILINEAR
            ),
        )
        assert np.abs(made[i] - expected)[6:-6, 6:-6].max() < 0.05


def test_what_comes_from_outside_is_the_nearest_pixel():
    white = torch.ones(3, 3, 24, 20)
    assert torch.allclose(warp(white, *WHOLE, back(shift=(4.0, 0.0))), white)


def test_blur_is_scipys(pixels):
    sigma = np.array([0.1, 0.8, 2.0])
    made = blur(to_batch(pixels), sigma_pixels=sigma, radius_pixels=None, largest=2.0)
    for i in range(3):
        expected = ndimage.gaussian_filter(
            pixels[i] / 255.0, (sigma[i], sigma[i], 0), mode="mirror"
        )
        assert np.abs(levels(made)[i] / 255.0 - expected).max() < 2e-6


def test_a_blur_of_a_stated_kernel_has_as_many_taps(pixels):
    """Two pixels wide, cut after one: the three-pixel kernel of the debiased and hard-negative losses' code."""
    made = blur(to_batch(pixels), sigma_pixels=np.full(3, 2.0), radius_pixels=1, largest=2.0)
    tap = np.exp(-1 / 8)
    kernel = np.array([tap, 1.0, tap]) / (1 + 2 * tap)
    expected = pixels / 255.0
    for axis in (1, 2):
        expected = ndimage.correlate1d(expected, kernel, axis=axis, mode="mirror")
    assert np.abs(levels(made) / 255.0 - expected).max() < 2e-6
