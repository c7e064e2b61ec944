"""Views of images: keyed, the same in any batch, operations in their order, and what is drawn as torchvision does."""

import sys

import numpy as np
import pytest
import torch
from monai.transforms import Compose, RandGaussianNoised
from PIL import Image
from pydantic import ValidationError
from scipy import stats

pytest.importorskip("kornia")

from neurocontrast.exceptions import DataError, MissingDependencyError
from neurocontrast.natural import ImageAugmentSettings, RandImageViewd
from neurocontrast.natural.augment import (
    ColourJitterSettings,
    GrayscaleSettings,
    ImageAffineSettings,
    ImageBlurSettings,
    ResizedCropSettings,
)
from neurocontrast.natural.views import draw_affine, draw_boxes, draw_jitter
from neurocontrast.seeds import derive_uniforms
from neurocontrast.transforms import TwoViews

EVERYTHING = ImageAugmentSettings(
    affine=ImageAffineSettings(probability=0.5),
    crop=ResizedCropSettings(probability=0.7),
    blur=ImageBlurSettings(),
)
# Sides whose product is no multiple of a processor's vectors: what is left over is computed another
# way.
SIZES = [(32, 32), (17, 19), (1, 9)]


def made_by(settings, seed):
    return TwoViews(RandImageViewd("image", settings), seed=seed)


def random_images(n: int, size: tuple[int, int] = (32, 32)) -> torch.Tensor:
    return torch.randint(
        0, 256, (n, 3, *size), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
    )


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("settings", [EVERYTHING, ImageAugmentSettings()])
def test_a_batch_of_images_is_as_many_batches_of_one_bit_for_bit(size, settings):
    images = random_images(12, size)
    views = made_by(settings, 3)
    whole = views.view(images, range(100, 112), epoch=2, view=1)
    alone = [views.view(images[i : i + 1], [100 + i], epoch=2, view=1) for i in range(12)]
    assert torch.equal(whole, torch.cat(alone))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("settings", [EVERYTHING, ImageAugmentSettings.off()])
def test_floating_point_images_give_the_views_of_their_bytes(dtype, settings):
    images = random_images(4)
    views = made_by(settings, 0)
    scaled = (images.to(torch.float32) / 255.0).to(dtype)
    before = scaled.clone()
    assert torch.equal(
        views.view(scaled, range(4), epoch=0, view=0), views.view(images, range(4), epoch=0, view=0)
    )
    assert torch.equal(scaled, before)


def test_views_are_float32_from_0_to_1():
    black_and_white = random_images(40).ge(128).to(torch.uint8) * 255
    for view in made_by(EVERYTHING, 0)(black_and_white, range(40), epoch=0):
        assert view.dtype == torch.float32
        assert view.shape == black_and_white.shape
        assert view.min() >= 0.0
        assert view.max() <= 1.0


def _colours_changed(x: np.ndarray, factors: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Steps on an (H, W, 3) image in NumPy, from their definitions."""
    import colorsys

    luma = [0.299, 0.587, 0.114]
    for step in order:
        factor = factors[step]
        if step == 0:
            x = x * factor
        elif step == 1:
            x = factor * x + (1 - factor) * (x @ luma).mean()
        elif step == 2:
            x = factor * x + (1 - factor) * (x @ luma)[..., None]
        else:
            hsv = [colorsys.rgb_to_hsv(*rgb) for rgb in x.reshape(-1, 3)]
            x = np.array(
                [colorsys.hsv_to_rgb((h + factor) % 1.0, s, v) for h, s, v in hsv]
            ).reshape(x.shape)
        x = np.clip(x, 0.0, 1.0)
    return x


def test_operations_come_in_their_order_and_colours_in_each_views_own():
    size = (14, 11)
    images = random_images(10, size)
    settings = ImageAugmentSettings(
        crop=ResizedCropSettings(scale=(0.3, 1.0)),
        colour_jitter=ColourJitterSettings(probability=0.8, hue=0.3),
        grayscale=GrayscaleSettings(probability=0.3),
    )
    views = RandImageViewd("image", settings).batch(images, range(10))
    corners, sizes = draw_boxes(settings.crop, range(10), size)
    jittered, factors, order = draw_jitter(settings.colour_jitter, range(10))
    flipped, gray = (
        derive_uniforms("image view", name, samples=range(10), n_numbers=1)[:, 0] < probability
        for name, probability in (("flip", 0.5), ("grayscale", 0.3))
    )
    assert jittered.any()
    assert gray.any()
    for i in range(10):
        (top, left), (height, width) = corners[i], sizes[i]
        box = (
            images[i, :, top : top + height, left : left + width].numpy().astype(np.float32) / 255.0
        )
        resized = [
            np.asarray(Image.fromarray(c).resize(size[::-1], Image.Resampling.BILINEAR))
            for c in box
        ]
        x = np.stack(resized, axis=-1).astype(np.float64)
        if flipped[i]:
            x = x[:, ::-1]
        if jittered[i]:
            x = _colours_changed(x, factors[i], order[i])
        if gray[i]:
            x = np.repeat((x @ [0.299, 0.587, 0.114])[..., None], 3, axis=-1)
        assert np.abs(views[i].permute(1, 2, 0).numpy() - x).max() < 1e-4, i


@pytest.mark.parametrize(
    ("images", "samples", "said"),
    [
        (
            torch.zeros(2, 1, 8, 8, dtype=torch.uint8),
            [0, 1],
            r"\(batch, 3, height, width\).*\(2, 1, 8, 8\)",
        ),
        (torch.zeros(3, 8, 8, dtype=torch.uint8), [0, 1, 2], r"\(3, 8, 8\)"),
        (torch.zeros(2, 3, 8, 8, dtype=torch.uint8), [0], r"and 1 seeds"),
        (torch.zeros(2, 3, 8, 8, dtype=torch.int64), [0, 1], "torch.int64"),
        (torch.full((2, 3, 8, 8), 255.0), [0, 1], "from 255 to 255.*Divide them by 255"),
        (torch.full((2, 3, 8, 8), float("nan")), [0, 1], "nan"),
        (torch.full((2, 3, 8, 8), -0.1), [0, 1], "standardise after"),
    ],
)
def test_other_images_are_refused(images, samples, said):
    with pytest.raises(DataError, match=said):
        RandImageViewd("image").batch(images, samples)


def test_one_by_one_in_a_dictionary_it_makes_the_views_of_a_batch():
    images = random_images(3)
    transform = RandImageViewd("image", EVERYTHING)
    for image in images:
        transform.set_random_state(seed=5)
        made = transform({"image": image, "label": 3})
        assert made["label"] == 3
        assert torch.equal(made["image"], transform.batch(image[None], [transform.drawn])[0])
    among = Compose([RandImageViewd("image", EVERYTHING), RandGaussianNoised("image", prob=1.0)])
    one, two = TwoViews(among, seed=0)(images, ["a", "b", "c"], epoch=0)
    assert one.shape == two.shape == images.shape
    assert not torch.equal(one, two)


def test_without_kornia_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "kornia", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'neurocontrast\[images\]'"):
        RandImageViewd("image")


# --- what is drawn
# ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("probability", [0.0, 0.3, 1.0])
def test_operations_are_applied_as_often_as_said(probability):
    n = 4000
    size = (32, 32)
    affine = draw_affine(ImageAffineSettings(probability=probability), range(n), size)
    _, boxes = draw_boxes(
        ResizedCropSettings(probability=probability, scale=(0.2, 0.5)), range(n), size
    )
    applied = {
        "affine": (affine != np.eye(2, 3)).any(axis=(1, 2)),
        "crop": (boxes != 32).any(axis=1),
        "jitter": draw_jitter(ColourJitterSettings(probability=probability), range(n))[0],
    }
    for name, found in applied.items():
        # Five standard errors: wrong once in a million.
        assert abs(found.mean() - probability) <= 5 * np.sqrt(
            probability * (1 - probability) / n
        ), name


@pytest.mark.parametrize("size", [(32, 32), (20, 45), (1, 1), (3, 200)])
def test_boxes_lie_in_the_image_and_keep_to_their_ratio(size):
    corners, sizes = draw_boxes(ResizedCropSettings(scale=(0.08, 1.0)), range(3000), size)
    assert (sizes >= 1).all()
    assert (corners >= 0).all()
    assert (corners + sizes <= size).all()
    # Rounding of either side to whole pixels moves the ratio.
    low = (sizes[:, 1] - 1) / (sizes[:, 0] + 1)
    high = (sizes[:, 1] + 1) / np.maximum(sizes[:, 0] - 1, 0.5)
    assert (low <= 4 / 3).all()
    assert (high >= 3 / 4).all()


def test_an_image_too_long_for_every_try_gets_the_largest_box_in_the_middle():
    corners, sizes = draw_boxes(ResizedCropSettings(scale=(1.0, 1.0)), range(20), (12, 100))
    assert (sizes == [12, 16]).all()
    assert (corners == [0, 42]).all()


def test_areas_are_uniform_and_ratios_even_on_a_logarithmic_scale():
    size = (1000, 1000)
    corners, sizes = draw_boxes(
        ResizedCropSettings(scale=(0.1, 0.5), ratio=(0.5, 2.0)), range(4000), size
    )
    area = sizes.prod(axis=1) / 1e6
    ratio = np.log2(sizes[:, 1] / sizes[:, 0])
    assert stats.kstest(area, stats.uniform(0.1, 0.4).cdf).pvalue > 1e-3
    assert stats.kstest(ratio, stats.uniform(-1.0, 2.0).cdf).pvalue > 1e-3
    for place in (corners / (1001 - sizes)).T:
        assert stats.kstest(place, "uniform").pvalue > 1e-3
    # A box of the whole area fits only where it is square: so it is in torchvision, from whose rule
    # this is.
    area = draw_boxes(ResizedCropSettings(), range(4000), size)[1].prod(axis=1) / 1e6
    assert (area > 0.9).mean() < 0.6 * ((area > 0.4) & (area < 0.5)).mean()


def test_affine_numbers_lie_where_they_should():
    settings = ImageAffineSettings(degrees=20.0, translate=0.1, scale=(0.5, 2.0))
    back = draw_affine(settings, range(3000), (20, 40))
    linear = back[:, :, :2]
    centre = np.array([9.5, 19.5])
    assert np.isclose(
        np.abs(np.rad2deg(np.arctan2(linear[:, 0, 1], linear[:, 0, 0]))).max(), 20.0, atol=0.1
    )
    shift = np.linalg.solve(linear, (centre - back[:, :, 2])[..., None])[..., 0] - centre
    assert np.allclose(np.abs(shift).max(axis=0), [2.0, 4.0], atol=0.05)
    assert (
        stats.kstest(-np.log2(np.linalg.det(linear)) / 2, stats.uniform(-1.0, 2.0).cdf).pvalue
        > 1e-3
    )


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: ResizedCropSettings(scale=(0.9, 0.2)), "swap the two numbers"),
        (lambda: ImageAugmentSettings(color_jitter=None), "color_jitter"),
        (lambda: ImageAugmentSettings(kind="volumes"), "'images'"),
    ],
)
def test_wrong_settings_are_refused(make, named):
    with pytest.raises(ValidationError, match=named):
        make()


def test_the_defaults_are_supcons_and_survive_being_written():
    supcon = ImageAugmentSettings()
    jitter = supcon.colour_jitter.model_dump()
    assert jitter == {
        "probability": 0.8,
        "brightness": 0.4,
        "contrast": 0.4,
        "saturation": 0.4,
        "hue": 0.1,
    }
    assert (supcon.crop.scale, supcon.flip.probability, supcon.grayscale.probability) == (
        (0.2, 1.0),
        0.5,
        0.2,
    )
    for settings in (supcon, ImageAugmentSettings.off()):
        assert ImageAugmentSettings.model_validate_json(settings.model_dump_json()) == settings
