"""What is drawn for views of images: keyed, in range, and distributed as said."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from scipy import stats

from neurocontrast.transforms import ImageAugmentSettings
from neurocontrast.transforms.natural.settings import (
    ColourJitterSettings,
    GrayscaleSettings,
    ImageAffineSettings,
    ImageBlurSettings,
    ImageFlipSettings,
    ResizedCropSettings,
    draw_image_views,
)

EVERYTHING = ImageAugmentSettings(affine=ImageAffineSettings(probability=0.5), blur=ImageBlurSettings())
KEYS = {"size": (32, 32)}


def same(a, b) -> bool:
    return all(np.array_equal(getattr(a, field.name), getattr(b, field.name)) for field in fields(a))


def test_what_is_drawn_does_not_depend_on_the_batch():
    whole = draw_image_views(EVERYTHING, range(50), **KEYS)
    assert same(draw_image_views(EVERYTHING, [40, 3], **KEYS), whole.of(np.array([40, 3])))


def test_every_seed_draws_anew():
    a, b = (draw_image_views(EVERYTHING, range(first, first + 200), **KEYS) for first in (0, 2**62))
    for name in ("flipped", "corners", "factors", "order", "radians", "sigma_pixels", "gray"):
        assert not np.array_equal(getattr(a, name), getattr(b, name)), name


@pytest.mark.parametrize("operation", ["affine", "crop", "flip", "colour_jitter", "grayscale", "blur"])
def test_switching_one_operation_off_leaves_the_others(operation):
    own = {
        "affine": {"turned", "radians", "zoom", "translation"},
        "crop": {"cropped", "corners", "sizes"},
        "flip": {"flipped"},
        "colour_jitter": {"jittered", "factors", "order"},
        "grayscale": {"gray"},
        "blur": {"blurred", "sigma_pixels"},
    }[operation]
    a = draw_image_views(EVERYTHING, range(100), **KEYS)
    b = draw_image_views(EVERYTHING.model_copy(update={operation: None}), range(100), **KEYS)
    changed = {f.name for f in fields(a) if not np.array_equal(getattr(a, f.name), getattr(b, f.name))}
    assert changed == own


@pytest.mark.parametrize("probability", [0.0, 0.3, 1.0])
def test_operations_are_applied_as_often_as_said(probability):
    n = 4000
    settings = ImageAugmentSettings(
        affine=ImageAffineSettings(probability=probability),
        crop=ResizedCropSettings(probability=probability),
        flip=ImageFlipSettings(probability=probability),
        colour_jitter=ColourJitterSettings(probability=probability),
        grayscale=GrayscaleSettings(probability=probability),
        blur=ImageBlurSettings(probability=probability),
    )
    drawn = draw_image_views(settings, range(n), **KEYS)
    for name in ("turned", "cropped", "flipped", "jittered", "gray", "blurred"):
        applied = getattr(drawn, name)
        # Five standard errors: wrong once in a million.
        assert abs(applied.mean() - probability) <= 5 * np.sqrt(probability * (1 - probability) / n), name
    assert (drawn.sizes[~drawn.cropped] == 32).all()
    assert (drawn.corners[~drawn.cropped] == 0).all()
    assert (drawn.radians[~drawn.turned] == 0).all()


@pytest.mark.parametrize("size", [(32, 32), (20, 45), (8, 8), (1, 1), (3, 200)])
def test_boxes_lie_in_the_image_and_keep_to_their_ratio(size):
    settings = ImageAugmentSettings(crop=ResizedCropSettings(scale=(0.08, 1.0)))
    drawn = draw_image_views(settings, range(3000), **KEYS | {"size": size})
    assert (drawn.sizes >= 1).all()
    assert (drawn.corners >= 0).all()
    assert (drawn.corners + drawn.sizes <= size).all()
    # Rounding of either side to whole pixels moves the ratio.
    low = (drawn.sizes[:, 1] - 1) / (drawn.sizes[:, 0] + 1)
    high = (drawn.sizes[:, 1] + 1) / np.maximum(drawn.sizes[:, 0] - 1, 0.5)
    assert (low <= 4 / 3).all()
    assert (high >= 3 / 4).all()


def test_an_image_too_long_for_every_try_gets_the_largest_box_in_the_middle():
    settings = ImageAugmentSettings(crop=ResizedCropSettings(scale=(1.0, 1.0)))
    drawn = draw_image_views(settings, range(20), **KEYS | {"size": (12, 100)})
    assert (drawn.sizes == [12, 16]).all()
    assert (drawn.corners == [0, 42]).all()


def test_areas_are_uniform_and_ratios_even_on_a_logarithmic_scale():
    settings = ImageAugmentSettings(crop=ResizedCropSettings(scale=(0.1, 0.5), ratio=(0.5, 2.0)))
    drawn = draw_image_views(settings, range(4000), **KEYS | {"size": (1000, 1000)})
    area = drawn.sizes.prod(axis=1) / 1e6
    ratio = np.log2(drawn.sizes[:, 1] / drawn.sizes[:, 0])
    assert stats.kstest(area, stats.uniform(0.1, 0.4).cdf).pvalue > 1e-3
    assert stats.kstest(ratio, stats.uniform(-1.0, 2.0).cdf).pvalue > 1e-3
    place = drawn.corners / (1001 - drawn.sizes)
    for axis in (0, 1):
        assert stats.kstest(place[:, axis], "uniform").pvalue > 1e-3


def test_the_largest_boxes_are_rarer_where_they_do_not_fit():
    """A box of the whole area fits only where it is square: so it is in torchvision, from whose rule this is."""
    drawn = draw_image_views(ImageAugmentSettings(), range(4000), **KEYS | {"size": (1000, 1000)})
    area = drawn.sizes.prod(axis=1) / 1e6
    assert (area > 0.9).mean() < 0.6 * ((area > 0.4) & (area < 0.5)).mean()


def test_every_order_of_the_colour_steps_is_as_likely():
    drawn = draw_image_views(ImageAugmentSettings(), range(4800), **KEYS)
    orders, counts = np.unique(drawn.order, axis=0, return_counts=True)
    assert len(orders) == 24
    assert stats.chisquare(counts).pvalue > 1e-3


def test_factors_lie_where_they_should():
    settings = ImageAugmentSettings(
        colour_jitter=ColourJitterSettings(brightness=0.2, contrast=1.0, saturation=0.0, hue=0.3)
    )
    factors = draw_image_views(settings, range(3000), **KEYS).factors
    low, high = [0.8, 0.0, 1.0, -0.3], [1.2, 2.0, 1.0, 0.3]
    assert (factors >= low).all()
    assert (factors <= high).all()
    assert np.allclose(factors.min(axis=0), low, atol=0.01)
    assert np.allclose(factors.max(axis=0), high, atol=0.01)


def test_affine_numbers_lie_where_they_should():
    settings = ImageAugmentSettings(affine=ImageAffineSettings(degrees=20.0, translate=0.1, scale=(0.5, 2.0)))
    drawn = draw_image_views(settings, range(3000), **KEYS | {"size": (20, 40)})
    assert np.isclose(np.abs(np.rad2deg(drawn.radians)).max(), 20.0, atol=0.1)
    assert np.allclose(np.abs(drawn.translation).max(axis=0), [2.0, 4.0], atol=0.05)
    assert stats.kstest(np.log2(drawn.zoom), stats.uniform(-1.0, 2.0).cdf).pvalue > 1e-3
