"""What is drawn for views of images: in range, as often as said, and distributed as torchvision's."""

import numpy as np
import pytest
from pydantic import ValidationError
from scipy import stats

pytest.importorskip("kornia")

from neurocontrast.transforms import ImageAugmentSettings
from neurocontrast.transforms.natural.settings import ColourJitterSettings, ImageAffineSettings, ResizedCropSettings
from neurocontrast.transforms.natural.views import draw_affine, draw_boxes, draw_jitter


@pytest.mark.parametrize("probability", [0.0, 0.3, 1.0])
def test_operations_are_applied_as_often_as_said(probability):
    n, size = 4000, (32, 32)
    affine = draw_affine(ImageAffineSettings(probability=probability), range(n), size)
    _, boxes = draw_boxes(ResizedCropSettings(probability=probability, scale=(0.2, 0.5)), range(n), size)
    applied = {
        "affine": (affine != np.eye(2, 3)).any(axis=(1, 2)),
        "crop": (boxes != 32).any(axis=1),
        "jitter": draw_jitter(ColourJitterSettings(probability=probability), range(n))[0],
    }
    for name, found in applied.items():
        # Five standard errors: wrong once in a million.
        assert abs(found.mean() - probability) <= 5 * np.sqrt(probability * (1 - probability) / n), name


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
    corners, sizes = draw_boxes(ResizedCropSettings(scale=(0.1, 0.5), ratio=(0.5, 2.0)), range(4000), size)
    area = sizes.prod(axis=1) / 1e6
    ratio = np.log2(sizes[:, 1] / sizes[:, 0])
    assert stats.kstest(area, stats.uniform(0.1, 0.4).cdf).pvalue > 1e-3
    assert stats.kstest(ratio, stats.uniform(-1.0, 2.0).cdf).pvalue > 1e-3
    for place in (corners / (1001 - sizes)).T:
        assert stats.kstest(place, "uniform").pvalue > 1e-3
    # A box of the whole area fits only where it is square: so it is in torchvision, from whose rule this is.
    area = draw_boxes(ResizedCropSettings(), range(4000), size)[1].prod(axis=1) / 1e6
    assert (area > 0.9).mean() < 0.6 * ((area > 0.4) & (area < 0.5)).mean()


def test_affine_numbers_lie_where_they_should():
    settings = ImageAffineSettings(degrees=20.0, translate=0.1, scale=(0.5, 2.0))
    back = draw_affine(settings, range(3000), (20, 40))
    linear, centre = back[:, :, :2], np.array([9.5, 19.5])
    assert np.isclose(np.abs(np.rad2deg(np.arctan2(linear[:, 0, 1], linear[:, 0, 0]))).max(), 20.0, atol=0.1)
    shift = np.linalg.solve(linear, (centre - back[:, :, 2])[..., None])[..., 0] - centre
    assert np.allclose(np.abs(shift).max(axis=0), [2.0, 4.0], atol=0.05)
    assert stats.kstest(-np.log2(np.linalg.det(linear)) / 2, stats.uniform(-1.0, 2.0).cdf).pvalue > 1e-3


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
    assert jitter == {"probability": 0.8, "brightness": 0.4, "contrast": 0.4, "saturation": 0.4, "hue": 0.1}
    assert (supcon.crop.scale, supcon.flip.probability, supcon.grayscale.probability) == ((0.2, 1.0), 0.5, 0.2)
    for settings in (supcon, ImageAugmentSettings.off()):
        assert ImageAugmentSettings.model_validate_json(settings.model_dump_json()) == settings
