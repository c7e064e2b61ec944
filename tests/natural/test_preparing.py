from collections import Counter

import numpy as np
import pytest

from neurocontrast.exceptions import DataError
from neurocontrast.natural.pictures import paint
from neurocontrast.natural.preparing import divide, draw_backgrounds, stratified_order
from neurocontrast.natural.settings import ImagesSettings

NAMES = [f"x-{n:05d}" for n in range(1000)]
LABELS = [("rare", "common", "half")[min(n % 10, 2)] if n % 10 < 2 else "half" for n in range(1000)]


def parts(splits=None, **settings):
    return divide(NAMES, LABELS, splits, ImagesSettings(**settings))


# Splits


def test_fractions_are_met_in_each_class():
    counted = Counter(zip(parts(), LABELS, strict=True))
    for label, n in Counter(LABELS).items():
        assert counted["test", label] == 0.2 * n
        assert counted["validation", label] == 0.16 * n
        assert counted["train", label] == 0.64 * n


def test_the_splits_of_the_source_are_kept():
    official = ["train"] * 800 + ["test"] * 200
    found = parts(official)
    assert found[800:] == ["test"] * 200
    assert Counter(found[:800]) == {"train": 640, "validation": 160}
    official[0] = "validation"
    assert Counter(parts(official)) == {"train": 799, "validation": 1, "test": 200}


def test_every_beginning_is_stratified_and_part_of_every_longer_one():
    order = stratified_order(NAMES, LABELS, seed=3)
    assert sorted(order) == list(range(1000))
    for n in (10, 50, 333):
        counts = Counter(LABELS[row] for row in order[:n])
        for label, whole in Counter(LABELS).items():
            assert abs(counts[label] - n * whole / 1000) <= 1
    small, large = (
        {name for name, part in zip(NAMES, parts(n_train=n), strict=True) if part == "train"}
        for n in (64, 200)
    )
    assert len(small) == 64
    assert small < large


def test_a_split_depends_on_the_seed_and_the_names_alone():
    assert parts(seed=1) == parts(seed=1) != parts(seed=2)
    order = stratified_order(NAMES, LABELS, seed=0)
    turned = stratified_order(NAMES[::-1], LABELS[::-1], seed=0)
    assert [NAMES[row] for row in order] == [NAMES[::-1][row] for row in turned]


def test_the_split_of_known_names_stays_what_it_is():
    # A split that changed with a version would let test images into training.
    assert stratified_order([f"x-{n}" for n in range(6)], ["a"] * 6, seed=0).tolist() == [
        5,
        2,
        0,
        3,
        1,
        4,
    ]


def test_more_images_than_there_are_cannot_be_kept():
    with pytest.raises(
        DataError, match=r"n_validation: 161 images .* has 160\. Raise images\.validation_fraction"
    ):
        parts(n_validation=161)
    with pytest.raises(DataError, match="no image is left for training"):
        parts(["test"] * 1000)
    assert "validation" not in parts(validation_fraction=0)


# Backgrounds


def test_a_background_is_laid_behind_as_the_authors_do():
    grey = np.random.default_rng(0).integers(0, 256, (8, 8), dtype=np.uint8)
    colour = np.array([31, 119, 180], np.uint8)
    painted = paint(np.stack([grey] * 3), colour)
    for channel in range(3):
        expected = (255 - grey.astype(float)) / 255 * colour[channel]
        np.testing.assert_allclose(painted[channel], np.floor(expected + 1e-9), atol=0)
    black = np.zeros((3, 4, 4), np.uint8)
    assert (paint(black, colour) == colour[:, None, None]).all()


def test_the_colour_of_an_image_depends_on_no_other():
    whole = draw_backgrounds(NAMES, sd=40, seed=0)
    np.testing.assert_array_equal(draw_backgrounds(NAMES[700:], sd=40, seed=0), whole[700:])
    assert (draw_backgrounds(NAMES, sd=40, seed=1) != whole).any(axis=1).mean() > 0.95


def test_the_colours_of_known_names_stay_what_they_are():
    random = draw_backgrounds(["x-0", "x-1"], sd=40, seed=0)
    assert random.tolist() == [[126, 68, 160], [203, 127, 35]]
