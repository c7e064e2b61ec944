"""Each transform by itself: several channels, missing keys, wrong settings, and MONAI's own where one exists."""

import numpy as np
import pytest
import torch
from monai.data import MetaTensor
from monai.transforms import Compose, ResizeWithPadOrCropd, ScaleIntensityRangePercentilesd

from neurocontrast import transforms
from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.transforms.images import to_image

ALL = {
    "CheckFieldOfViewd": {"shape": (24, 28, 20)},
    "CheckVariesd": {},
    "KeepBraind": {},
    "MarkBraind": {},
    "ResampleByAread": {"spacing_mm": 3.0},
    "ScaleByBrainPercentilesd": {},
}


@pytest.mark.parametrize("name", ALL)
def test_a_missing_key_is_an_error_unless_it_is_allowed(name, brain):
    made = getattr(transforms, name)
    item = {"other": to_image(brain[np.newaxis], np.eye(4)), "age": 3.0}
    with pytest.raises(KeyError, match="image"):
        made("image", **ALL[name])(item)
    assert made("image", **ALL[name], allow_missing_keys=True)(item) == item


@pytest.mark.parametrize("name", ["ResampleByAread", "ScaleByBrainPercentilesd"])
def test_channels_are_treated_one_by_one(name, voxels_of_head):
    transform = getattr(transforms, name)("image", **ALL[name])
    affine = np.diag([4.0, 4.0, 4.0, 1.0])
    both = np.stack([voxels_of_head, np.sqrt(voxels_of_head) * 3])
    made = transform({"image": to_image(both, affine)})["image"].numpy()
    for channel, expected in zip(both, made, strict=True):
        alone = transform({"image": to_image(channel[np.newaxis].copy(), affine)})["image"]
        np.testing.assert_array_equal(alone[0], expected)


def test_those_with_a_counterpart_in_monai_give_its_results(brain):
    item = {
        "image": MetaTensor(
            torch.from_numpy(brain)[None], affine=torch.diag(torch.tensor([2.0, 2.0, 2.0, 1.0]))
        )
    }
    one = transforms.ResampleByAread("image", shape=(20, 31, 21))(item)["image"]
    other = ResizeWithPadOrCropd("image", (20, 31, 21))(item)["image"]
    np.testing.assert_allclose(one, other, atol=2e-5)
    np.testing.assert_allclose(one.affine, other.affine)
    whole = {"image": item["image"] + 1}  # no background: the brain is the whole image
    one = transforms.ScaleByBrainPercentilesd("image", percentiles=(2, 98))(whole)["image"]
    other = ScaleIntensityRangePercentilesd("image", 2, 98, 0, 1, clip=True)(whole)["image"]
    np.testing.assert_allclose(one, other, atol=1e-5)


def test_plain_tensors_and_arrays_are_images_of_1_mm(brain):
    for image in (torch.from_numpy(brain)[None], brain[np.newaxis]):
        made = transforms.ResampleByAread("image", spacing_mm=2.0)({"image": image})["image"]
        assert made.shape == (1, 12, 14, 10)
        assert made.pixdim.tolist() == [2.0, 2.0, 2.0]
    with pytest.raises(
        ValueError, match=r"an image has the shape \(C, D, H, W\), got \(24, 28, 20\); load it with"
    ):
        transforms.ResampleByAread("image")({"image": brain})


def test_axes_are_turned_and_the_background_is_the_one_asked_for(brain):
    image = MetaTensor(
        torch.from_numpy(brain + 5)[None], affine=torch.diag(torch.tensor([-2.0, 2, 2, 1]))
    )
    for background, expected in (("corners", 5), (-3, -3)):
        resample = transforms.ResampleByAread(
            "image", shape=(30, 30, 30), axcodes="ras", background=background
        )
        made = resample({"image": image})["image"]
        assert float(made[0, 0, 0, 0]) == expected
        np.testing.assert_array_equal(made[0, 3:27, 1:29, 5:25], np.flip(brain + 5, 0))
        assert float(made.affine[0, 0]) == 2.0


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: transforms.ResampleByAread("image", spacing_mm=0),
            "spacing_mm must be between 0.1 and 20, got 0",
        ),
        (
            lambda: transforms.ResampleByAread("image", shape=(1, 2)),
            "shape must be three whole numbers from 1 on",
        ),
        (
            lambda: transforms.ResampleByAread("image", axcodes="RLS"),
            "axcodes must name three axes.*got 'RLS'",
        ),
        (
            lambda: transforms.ResampleByAread("image", axcodes="XAS"),
            "axcodes must name three axes.*got 'XAS'",
        ),
        (
            lambda: transforms.ResampleByAread("image", background="edge"),
            "a number or 'corners', got 'edge'",
        ),
        (
            lambda: transforms.KeepBraind("image", erode_mm=-1),
            "erode_mm must be between 0 and 30, got -1",
        ),
        (lambda: transforms.KeepBraind(("image", "two")), "keys must be one image"),
        (
            lambda: transforms.MarkBraind("image", mask_key="image"),
            "keys must be one image, and mask_key another",
        ),
        (
            lambda: transforms.ScaleByBrainPercentilesd("image", percentiles=(99, 1)),
            "two numbers from 0 to 100",
        ),
    ],
)
def test_wrong_settings_are_named(make, words):
    with pytest.raises(ConfigError, match=words):
        make()


def test_what_has_nothing_in_it_is_refused(brain):
    flat = {
        "image": to_image(np.full((1, 9, 9, 9), 3, dtype=np.float32), np.eye(4), name="flat.nii")
    }
    for name in ("CheckVariesd", "ScaleByBrainPercentilesd"):
        with pytest.raises(DataError, match=r"flat\.nii: nothing varies in the 9 × 9 × 9 box"):
            getattr(transforms, name)("image")(flat)
    mask = {
        "image": to_image(np.round(np.random.default_rng(0).random((1, 9, 9, 9))) * 7, np.eye(4))
    }
    with pytest.raises(DataError, match="nothing varies"):
        transforms.CheckVariesd("image", nonzero=True)(mask)
    assert Compose([transforms.CheckVariesd("image")])({"image": brain[np.newaxis]})
    for size in (1e30, 1e-30):
        with pytest.raises(DataError, match=r"largest intensity is .* Scale the image"):
            transforms.CheckVariesd("image")({"image": size * brain[np.newaxis]})


def test_a_point_is_smoothed_to_its_full_width_at_half_maximum():
    voxels = np.ones((1, 41, 41, 41), np.float32)
    voxels[0, 20, 20, 20] = 1001
    smooth = transforms.SmoothByFwhmd("image", fwhm_mm=16.0)(
        {"image": to_image(voxels, np.diag([2.0, 2, 2, 1]))}
    )
    above = np.asarray(smooth["image"])[0, 20, 20] - 1
    assert above[24] == pytest.approx(above[20] / 2, rel=0.02)  # 8 mm away: half of the width
