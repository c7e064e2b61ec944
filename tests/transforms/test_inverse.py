"""Transforms that move voxels: the affine stays true, `Compose.inverse` leads back, and nothing pending is lost."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from monai.data import MetaTensor
from monai.transforms import Compose, Flipd, Orientationd, RandAffined, Spacingd

from neurocontrast.exceptions import DataError
from neurocontrast.transforms import (
    CheckVariesd,
    FromSignald,
    KeepBraind,
    MarkBraind,
    RandBlurd,
    RandBrainAffined,
    RandResizedCropd,
    ResampleByAread,
    ScaleByBrainPercentilesd,
    SmoothByFwhmd,
    ToSignald,
    ZScoreBraind,
    ZScored,
)

AFFINE = np.array([[-2.0, 0, 0, 30], [0, 0, 1.5, -20], [0, 2.5, 0, 5], [0, 0, 0, 1]])


@pytest.fixture
def image():
    """A lopsided smooth blob, (1, 31, 28, 34), on axes that are turned."""
    x, y, z = np.meshgrid(*(np.linspace(-1, 1, n) for n in (31, 28, 34)), indexing="ij")
    blob = 100 * np.exp(-((x - 0.1) ** 2 + 1.5 * (y + 0.1) ** 2 + 2 * z**2) / 0.1)
    return MetaTensor(torch.from_numpy(np.where(blob > 0.5, blob, 0)[None].astype(np.float32)), affine=AFFINE)


def middle(image):
    """Return where the bright voxels are, by the affine, in millimetres."""
    voxels = image.as_tensor()[0].double()
    places = torch.stack(torch.meshgrid(*map(torch.arange, voxels.shape), indexing="ij"), -1).double()
    mean = (places * voxels[..., None]).sum((0, 1, 2)) / voxels.sum()
    return (image.affine.cpu().double() @ torch.cat([mean, torch.ones(1).double()]))[:3].numpy()


def differ(one, other):
    return float((one.as_tensor() - other.as_tensor()).abs().mean() / other.as_tensor().abs().mean())


MOVING = {
    "finer": ResampleByAread("image", spacing_mm=1.0, axcodes="RAS"),
    "coarser": ResampleByAread("image", spacing_mm=3.0, shape=(26, 26, 26), axcodes="LPI"),
    "whole voxels": ResampleByAread("image", shape=(30, 33, 29), axcodes="RAS"),
    "affine": RandBrainAffined("image", prob=1.0, rotation_degrees=(10, 20), translation_voxels=(1, 3)),
    "scaled": RandBrainAffined("image", prob=1.0, scale=(1.1, 1.2), anisotropic=True),
    "crop": RandResizedCropd("image", prob=1.0, fraction=(0.8, 0.8)),
}


@pytest.mark.parametrize("how", MOVING)
def test_the_affine_is_true_and_the_inverse_leads_back(image, how):
    original = image.clone()
    way = Compose([Flipd("image", spatial_axis=0), MOVING[how], CheckVariesd("image"), Flipd("image", spatial_axis=1)])
    way.set_random_state(3)
    made = way({"image": image})["image"]
    np.testing.assert_allclose(middle(made), middle(image), atol=0.4)
    back = way.inverse({"image": made})["image"]
    np.testing.assert_allclose(back.affine, AFFINE, atol=1e-9)
    assert back.shape == image.shape
    assert differ(back, image) < (1e-5 if how == "whole voxels" else 0.15)
    np.testing.assert_allclose(middle(back), middle(image), atol=0.2)
    assert not back.applied_operations
    assert torch.equal(image.as_tensor(), original.as_tensor())
    assert not image.applied_operations


def test_a_random_transform_that_was_not_applied_leads_back_to_the_same(image):
    way = Compose([RandBrainAffined("image", prob=0.0), RandResizedCropd("image", prob=0.0), RandBlurd("image")])
    made = way({"image": image})["image"]
    np.testing.assert_array_equal(made.affine, AFFINE)
    assert differ(way.inverse({"image": made})["image"], made) < 1e-5
    assert not image.applied_operations


def test_between_to_signal_and_from_signal_too(image):
    way = Compose([ToSignald("image"), MOVING["affine"], FromSignald("image")])
    made = way({"image": image})["image"]
    np.testing.assert_allclose(middle(made), middle(image), atol=0.4)
    np.testing.assert_allclose(way.inverse({"image": made})["image"].affine, AFFINE, atol=1e-9)


def test_what_does_not_say_where_it_came_from_is_refused_in_a_sentence(image):
    plain = MOVING["crop"]({"image": image.as_tensor()})
    assert type(plain["image"]) is torch.Tensor
    with pytest.raises(DataError, match="does not say which grid it came from"):
        MOVING["crop"].inverse(plain)


@pytest.mark.parametrize(
    "transform",
    [
        *(
            ZScored("image"),
            ZScoreBraind("image"),
            ScaleByBrainPercentilesd("image"),
            SmoothByFwhmd("image", fwhm_mm=4),
        ),
        *(ResampleByAread("image", spacing_mm=2.0), RandBlurd("image", prob=1.0)),
        *(MOVING["crop"], MOVING["affine"], Compose([ToSignald("image"), FromSignald("image")])),
        Compose([MarkBraind("image"), KeepBraind("image")]),
    ],
    ids=lambda each: type(each).__name__,
)
def test_operations_that_are_pending_come_first(image, transform):
    lazy = [Orientationd("image", axcodes="RAS", lazy=True), Spacingd("image", pixdim=(2, 2, 2), lazy=True)]
    moved = RandAffined("image", prob=1.0, rotate_range=0.3, lazy=True, padding_mode="zeros").set_random_state(1)
    pending = moved({"image": Compose(lazy, lazy=True).transforms[1](lazy[0]({"image": image}))["image"]})["image"]
    assert pending.has_pending_operations
    from monai.transforms.lazy.functional import apply_pending

    applied = apply_pending(pending.clone())[0]
    for each in (transform, *getattr(transform, "transforms", ())):
        if hasattr(each, "set_random_state"):
            each.set_random_state(5)
    expected = transform({"image": applied})["image"]
    for each in (transform, *getattr(transform, "transforms", ())):
        if hasattr(each, "set_random_state"):
            each.set_random_state(5)
    found = transform({"image": pending})["image"]
    assert not found.has_pending_operations
    torch.testing.assert_close(found.as_tensor(), expected.as_tensor())
    torch.testing.assert_close(found.affine, expected.affine)
