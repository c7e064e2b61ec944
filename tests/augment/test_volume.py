from __future__ import annotations

import numpy as np
import pytest
import torch

from neurocontrast.augment import (
    AugmentSettings,
    BlurSettings,
    CropSettings,
    CutoutSettings,
    FlipSettings,
    NoiseSettings,
    TwoViews,
    draw_view,
)
from neurocontrast.exceptions import DataError

SHAPE = (12, 14, 13)
REFERENCE = AugmentSettings.reference()
OPERATIONS = ("flip", "blur", "noise", "cutout", "crop")
DRAWN = dict(zip(OPERATIONS, ("flip_axis", "blur_sigma_voxels", "noise_sigma", "cutout", "crop"), strict=True))


@pytest.fixture
def volumes():
    return torch.randn(6, 1, *SHAPE, generator=torch.Generator().manual_seed(0))


def only(**operation) -> AugmentSettings:
    return AugmentSettings.off().model_copy(update=operation)


def draws(settings: AugmentSettings, n: int = 2000, **keys):
    fixed = {"seed": 0, "epoch": 0, "view": 0} | keys
    return [draw_view(settings, SHAPE, sample=sample, **fixed) for sample in range(n)]


def test_the_two_views_differ_and_leave_the_volumes_alone(volumes):
    before = volumes.clone()
    one, two = TwoViews(REFERENCE, seed=0)(volumes, range(6), epoch=0)
    assert one.shape == two.shape == volumes.shape
    assert not torch.equal(one, two)
    assert torch.equal(volumes, before)
    assert one.data_ptr() != volumes.data_ptr()


def test_a_view_does_not_depend_on_its_batch(volumes):
    views = TwoViews(REFERENCE, seed=3)
    whole = views.view(volumes, [10, 11, 12, 13, 14, 15], epoch=2, view=1)
    order = [4, 0, 5]
    part = views.view(volumes[order], torch.tensor([14, 10, 15]), epoch=2, view=1)
    assert torch.equal(part, whole[order])


def test_a_view_depends_on_no_global_state(volumes):
    views = TwoViews(REFERENCE, seed=3)
    torch.manual_seed(1)
    first = views.view(volumes, range(6), epoch=0, view=0)
    state = torch.get_rng_state()
    torch.manual_seed(2)
    assert torch.equal(first, views.view(volumes, range(6), epoch=0, view=0))
    torch.manual_seed(1)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("key", ["seed", "epoch", "sample", "view"])
def test_every_key_matters(volumes, key):
    keys = {"seed": 1, "epoch": 1, "sample": 1, "view": 0}
    settings = REFERENCE.model_copy(update={"noise": NoiseSettings(probability=1.0)})

    def made(seed, epoch, sample, view):
        return TwoViews(settings, seed=seed).view(volumes[:1], [sample], epoch=epoch, view=view)

    assert torch.equal(made(**keys), made(**keys))
    assert not torch.equal(made(**keys), made(**keys | {key: keys[key] + 1}))


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("probability", [0.0, 0.3, 1.0])
def test_an_operation_is_applied_as_often_as_asked(operation, probability):
    setting = getattr(REFERENCE, operation).model_copy(update={"probability": probability})
    applied = [getattr(drawn, DRAWN[operation]) is not None for drawn in draws(only(**{operation: setting}))]
    assert np.mean(applied) == pytest.approx(probability, abs=0.04)


def test_operations_are_applied_independently():
    applied = np.array([[getattr(drawn, name) is not None for name in DRAWN.values()] for drawn in draws(REFERENCE)])
    correlation = np.corrcoef(applied.T) - np.eye(5)
    assert np.abs(correlation).max() < 0.08


def test_strengths_fill_their_ranges():
    settings = AugmentSettings(
        flip=FlipSettings(probability=1.0, axes=(0, 2)),
        blur=BlurSettings(probability=1.0, sigma_voxels=(0.2, 0.6)),
        noise=NoiseSettings(probability=1.0, sigma=(0.1, 0.4)),
        cutout=CutoutSettings(probability=1.0, fraction=(0.2, 0.5)),
        crop=CropSettings(probability=1.0, fraction=(0.7, 0.9)),
    )
    drawn = draws(settings)
    for values, (low, high) in (
        ([d.blur_sigma_voxels for d in drawn], (0.2, 0.6)),
        ([d.noise_sigma for d in drawn], (0.1, 0.4)),
    ):
        assert min(values) >= low
        assert max(values) <= high
        assert np.mean(values) == pytest.approx((low + high) / 2, abs=0.01)
        assert np.std(values) == pytest.approx((high - low) / 12**0.5, rel=0.05)
    assert np.mean([d.flip_axis == 0 for d in drawn]) == pytest.approx(0.5, abs=0.04)
    assert {d.flip_axis for d in drawn} == {0, 2}
    assert {d.cutout.size[0] for d in drawn} == {3, 4, 5, 6}
    assert {d.crop.size[1] for d in drawn} == {10, 11, 12, 13}


def test_boxes_are_the_published_size_and_reach_every_border():
    settings = only(cutout=CutoutSettings(probability=1.0), crop=CropSettings(probability=1.0))
    drawn = draws(settings)
    assert {d.cutout.size for d in drawn} == {(3, 4, 4)}  # a quarter of 12, 14 and 13, rounded up
    assert {d.crop.size for d in drawn} == {(9, 11, 10)}
    for axis, side in enumerate(SHAPE):
        for box in ("cutout", "crop"):
            corners = [getattr(d, box).corner[axis] for d in drawn]
            length = getattr(drawn[0], box).size[axis]
            assert (min(corners), max(corners)) == (0, side - length)


def test_switching_one_operation_off_leaves_the_others():
    without = REFERENCE.model_copy(update={"blur": None})
    for with_blur, no_blur in zip(draws(REFERENCE, 50), draws(without, 50), strict=True):
        assert no_blur.blur_sigma_voxels is None
        assert (with_blur.noise_sigma, with_blur.noise_seed) == (no_blur.noise_sigma, no_blur.noise_seed)
        assert (with_blur.flip_axis, with_blur.cutout, with_blur.crop) == (
            no_blur.flip_axis,
            no_blur.cutout,
            no_blur.crop,
        )


def test_the_two_views_draw_independently():
    one, two = (np.array([d.crop is not None for d in draws(REFERENCE, view=view)]) for view in (0, 1))
    assert abs(np.corrcoef(one, two)[0, 1]) < 0.06


def test_all_off_gives_the_volume_itself(volumes):
    view = TwoViews(AugmentSettings.off(), seed=0).view(volumes, range(6), epoch=0, view=0)
    assert torch.equal(view, volumes)
    view.zero_()
    assert volumes.abs().sum() > 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_views_are_float32_whatever_comes_from_the_cache(volumes, dtype):
    views = TwoViews(REFERENCE, seed=0)
    cached = volumes.to(dtype)
    made = views.view(cached, range(6), epoch=0, view=0)
    assert made.dtype == torch.float32
    assert torch.equal(made, views.view(cached.float(), range(6), epoch=0, view=0))


def test_mixed_precision_around_does_not_reach_the_views(volumes):
    views = TwoViews(REFERENCE, seed=0)
    plain = views.view(volumes, range(6), epoch=0, view=0)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = views.view(volumes, range(6), epoch=0, view=0)
    assert mixed.dtype == torch.float32
    assert torch.equal(plain, mixed)


def test_constant_volumes_and_channels_pass(volumes):
    two_channels = torch.cat([volumes, torch.ones_like(volumes)], dim=1)
    settings = only(blur=BlurSettings(probability=1.0), crop=CropSettings(probability=1.0), flip=FlipSettings())
    view = TwoViews(settings, seed=0).view(two_channels, range(6), epoch=0, view=0)
    torch.testing.assert_close(view[:, 1], torch.ones_like(view[:, 1]))


@pytest.mark.parametrize(("shape", "samples"), [((6, *SHAPE), range(6)), ((6, 1, *SHAPE), range(5))])
def test_wrong_batches_are_named(shape, samples):
    with pytest.raises(DataError, match=r"\(batch, channels, D, H, W\) and one sample number for each"):
        TwoViews(REFERENCE, seed=0)(torch.zeros(shape), samples, epoch=0)
