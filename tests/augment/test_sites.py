from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from neurocontrast.augment import AugmentSettings, TwoViews, draw_site, draw_view, operations
from neurocontrast.augment.signal import to_signal
from neurocontrast.augment.site_operations import smooth_field
from neurocontrast.augment.sites import SiteParameters, seen_at_site

DRAWN = {
    "affine": "affine",
    "contrast": "gamma",
    "histogram": "slopes",
    "bias_field": "bias",
    "sharpness": "sharpness",
    "resolution": "slices",
    "ghosting": "ghosts",
    "rician": "noise",
    "tight_mask": "tight",
    "mask_edge": "edge",
}
SITES = AugmentSettings.sites()


def only(name: str, **changes) -> AugmentSettings:
    setting = type(getattr(SITES, name))(**{"probability": 1.0} | changes)
    return AugmentSettings.off().model_copy(update={name: setting})


def draws(settings: AugmentSettings, n: int = 1500, **keys) -> list[SiteParameters]:
    fixed = {"seed": 0, "epoch": 0, "view": 0} | keys
    return [draw_site(settings, sample=sample, **fixed) for sample in range(n)]


def as_text(drawn: SiteParameters, field: str) -> str:
    return repr(getattr(drawn, field))


@pytest.fixture
def volumes(brain):
    return torch.stack([brain("zscore", index) for index in range(3)])


# --- what other settings draw stays as it was ------------------------------------------------------------------------
def test_the_published_operations_draw_what_they_always_drew():
    drawn = draw_view(AugmentSettings.reference(), (12, 14, 13), seed=3, epoch=2, sample=1, view=1)
    assert (drawn.flip_axis, drawn.blur_sigma_voxels, drawn.noise_sigma) == (0, None, None)
    assert drawn.noise_seed == 8308902940498287611
    assert (drawn.cutout.corner, drawn.cutout.size) == ((9, 0, 5), (3, 4, 4))


@pytest.mark.parametrize("settings", [AugmentSettings(), AugmentSettings.reference()])
def test_without_site_operations_views_are_bit_for_bit_what_they_were(settings, volumes):
    assert draw_site(settings, seed=4, epoch=1, sample=0, view=0).nothing
    made = TwoViews(settings, seed=4).view(volumes, range(3), epoch=1, view=0)
    for sample, (x, view) in enumerate(zip(volumes, made, strict=True)):
        drawn = draw_view(settings, x.shape[1:], seed=4, epoch=1, sample=sample, view=0)
        if drawn.flip_axis is not None:
            x = operations.flip(x, axis=drawn.flip_axis)
        if drawn.blur_sigma_voxels is not None:
            x = operations.blur(x, sigma_voxels=drawn.blur_sigma_voxels)
        if drawn.noise_sigma is not None:
            generator = torch.Generator().manual_seed(drawn.noise_seed)
            x = operations.add_noise_(x.clone(), sigma=drawn.noise_sigma, generator=generator)
        if drawn.cutout is not None:
            x = operations.cut_out_(x.clone(), corner=drawn.cutout.corner, size=drawn.cutout.size)
        if drawn.crop is not None:
            x = operations.crop_resize(x, corner=drawn.crop.corner, size=drawn.crop.size)
        assert torch.equal(view, x)


def test_site_operations_change_no_other_draw():
    both = AugmentSettings.reference().model_copy(update={name: getattr(SITES, name) for name in DRAWN})
    keys = {"seed": 1, "epoch": 2, "sample": 3, "view": 0}
    assert draw_view(both, (12, 14, 13), **keys) == draw_view(AugmentSettings.reference(), (12, 14, 13), **keys)


@pytest.mark.parametrize("name", DRAWN)
def test_switching_one_off_leaves_the_others(name):
    without = SITES.model_copy(update={name: None})
    for whole, rest in zip(draws(SITES, 40), draws(without, 40), strict=True):
        assert getattr(rest, DRAWN[name]) is None
        for field in set(DRAWN.values()) - {DRAWN[name]}:
            assert as_text(whole, field) == as_text(rest, field)


# --- keys ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", DRAWN)
def test_each_operation_alone_changes_the_volume_as_its_keys_say(name, volumes):
    def made(seed=1, epoch=1, sample=1, view=0):
        return TwoViews(only(name), seed=seed).view(volumes[:1], [sample], epoch=epoch, view=view)

    first = made()
    assert first.isfinite().all()
    assert (first - volumes[:1]).abs().max() > 0.01
    assert torch.equal(first, made())
    for other in (made(seed=2), made(epoch=2), made(sample=2), made(view=1)):
        assert not torch.equal(first, other)


def test_a_view_does_not_depend_on_its_batch_nor_on_global_state(volumes):
    views = TwoViews(SITES, seed=3)
    torch.manual_seed(1)
    whole = views.view(volumes, [10, 11, 12], epoch=2, view=1)
    torch.manual_seed(2)
    assert torch.equal(views.view(volumes[[2, 0]], [12, 10], epoch=2, view=1), whole[[2, 0]])
    state = torch.get_rng_state()
    views.view(volumes, [10, 11, 12], epoch=2, view=1)
    assert torch.equal(torch.get_rng_state(), state)


def test_views_leave_the_volumes_alone(volumes):
    before = volumes.clone()
    one, two = TwoViews(SITES, seed=0)(volumes, range(3), epoch=0)
    assert torch.equal(volumes, before)
    assert not torch.equal(one, two)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_views_are_float32_whatever_comes_and_whatever_is_around(volumes, dtype):
    views = TwoViews(SITES, seed=0)
    given = volumes.to(dtype)
    plain = views.view(given.float(), range(3), epoch=0, view=0)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        made = views.view(given, range(3), epoch=0, view=0)
    assert made.dtype == torch.float32
    assert torch.equal(made, plain)


# --- distributions ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", DRAWN)
@pytest.mark.parametrize("probability", [0.0, 0.3, 1.0])
def test_an_operation_is_applied_as_often_as_asked(name, probability):
    applied = [getattr(one, DRAWN[name]) is not None for one in draws(only(name, probability=probability))]
    assert np.mean(applied) == pytest.approx(probability, abs=0.04)


def test_operations_are_applied_independently():
    half = AugmentSettings.off().model_copy(
        update={name: getattr(SITES, name).model_copy(update={"probability": 0.5}) for name in DRAWN}
    )
    applied = np.array([[getattr(one, field) is not None for field in DRAWN.values()] for one in draws(half)])
    assert np.abs(np.corrcoef(applied.T) - np.eye(len(DRAWN))).max() < 0.1


def uniform(values, low: float, high: float) -> None:
    values = np.asarray(values)
    assert low <= values.min()
    assert values.max() <= high
    assert values.mean() == pytest.approx((low + high) / 2, abs=0.05 * (high - low))
    assert values.std() == pytest.approx((high - low) / 12**0.5, rel=0.08)


def test_strengths_fill_their_ranges():
    uniform([math.log(one.gamma) for one in draws(only("contrast", gamma=(0.5, 1.5)))], math.log(0.5), math.log(1.5))
    noise = [one.noise for one in draws(only("rician", sigma=(0.02, 0.3)))]
    uniform([one.sigma for one in noise], 0.02, 0.3)
    assert len({one.seed for one in noise}) == len(noise)
    uniform([one.sharpness.amount for one in draws(only("sharpness", amount=(-1.0, 2.0)))], -1.0, 2.0)
    edges = [one.edge for one in draws(only("mask_edge", depth_voxels=(-2.0, 1.0), rim=(0.1, 0.9)))]
    uniform([edge.depth_voxels for edge in edges], -2.0, 1.0)
    uniform([edge.rim for edge in edges], 0.1, 0.9)
    cuts = [one.tight for one in draws(only("tight_mask", depth_voxels=(1.0, 3.0), below=(0.2, 0.3)))]
    uniform([cut.depth_voxels for cut in cuts], 1.0, 3.0)
    uniform([cut.below for cut in cuts], 0.2, 0.3)


def test_slices_and_ghosts_fill_their_ranges():
    slices = [one.slices for one in draws(only("resolution", factor=(1.5, 4.0), axes=(0, 2), all_axes=0.3))]
    uniform([one.factor for one in slices], 1.5, 4.0)
    uniform([one.phase for one in slices], 0.0, 1.0)
    found = [one.axes for one in slices]
    assert found.count((0, 1, 2)) / len(found) == pytest.approx(0.3, abs=0.04)
    assert found.count((0,)) / len(found) == pytest.approx(0.35, abs=0.04)
    assert found.count((2,)) / len(found) == pytest.approx(0.35, abs=0.04)
    ghosts = [one.ghosts for one in draws(only("ghosting", axes=(1, 2), intensity=(0.1, 0.2), distance=(0.1, 0.3)))]
    uniform([one.intensity for one in ghosts], 0.1, 0.2)
    uniform([one.distance for one in ghosts], 0.1, 0.3)
    uniform([one.phase for one in ghosts], 0.0, 2 * math.pi)
    assert np.mean([one.axis == 1 for one in ghosts]) == pytest.approx(0.5, abs=0.04)


def test_positions_fill_their_ranges():
    changes = {"rotation_degrees": (-5, 10), "translation_voxels": (-2, 1), "scale": (0.9, 1.2)}
    drawn = [one.affine for one in draws(only("affine", **changes))]
    scales = np.array([np.linalg.det(one.matrix) for one in drawn]) ** (-1 / 3)
    uniform(scales, 0.9, 1.2)
    for axis in range(3):
        uniform([one.translation[axis] for one in drawn], -2, 1)
    for one, scale in zip(drawn[:50], scales[:50], strict=True):
        np.testing.assert_allclose(one.matrix @ one.matrix.T, np.eye(3) / scale**2, atol=1e-9)
    uneven = [one.affine.matrix for one in draws(only("affine", **changes, anisotropic=True), 50)]
    assert all(np.linalg.cond(matrix) > 1.001 for matrix in uneven)
    still = draws(only("affine", rotation_degrees=(0, 0), translation_voxels=(0, 0)), 3)
    assert all(np.array_equal(one.affine.matrix, np.eye(3)) for one in still)
    turned = draws(only("affine", rotation_degrees=(6, 6), translation_voxels=(0, 0)), 1)[0].affine.matrix
    assert np.degrees(np.arccos(turned[2, 2])) == pytest.approx(math.hypot(6, 6), abs=0.3)


@pytest.mark.parametrize("order", [1, 3, 6])
def test_fields_have_the_spread_asked_and_the_mean_0(order):
    for one in draws(only("bias_field", order=order, strength=(0.2, 0.2)), 5):
        field = smooth_field(one.bias, (40, 48, 40))
        assert field.mean() == pytest.approx(0.0, abs=2e-3)
        assert field.std() == pytest.approx(0.2, rel=0.03)
        degrees = np.argwhere(one.bias != 0).sum(1)
        assert (degrees.min(), degrees.max()) == (1, order)


def test_slopes_have_the_spread_asked():
    drawn = [one.slopes for one in draws(only("histogram", n_pieces=6, strength=(0.3, 0.3)))]
    assert {len(slopes) for slopes in drawn} == {6}
    assert np.log(drawn).std() == pytest.approx(0.3, rel=0.03)


# --- what a site does ------------------------------------------------------------------------------------------------
def test_nothing_drawn_gives_the_volume_itself(volumes):
    assert seen_at_site(volumes[0], SiteParameters()).data_ptr() == volumes.data_ptr()


def test_default_strengths_keep_the_anatomy(brain):
    x = brain("zscore", 0)
    inside = to_signal(x).brain_CDHW
    views = TwoViews(SITES.model_copy(update={"affine": None, "cutout": None}), seed=0)
    for sample in range(20):
        view = views.view(x[None], [sample], epoch=0, view=0)[0]
        kept = to_signal(view).brain_CDHW
        assert 0.7 < kept.sum() / inside.sum() < 1.35  # at 6 mm the outermost voxels are a fifth of the brain
        both = kept & inside
        assert np.corrcoef(view[both], x[both])[0, 1] > 0.5


def test_brain_extraction_changes_the_rim_alone(brain):
    from scipy import ndimage

    x = brain("white-matter", 0)
    deep = torch.from_numpy(ndimage.distance_transform_edt((x != 0)[0].numpy()) > 5)[None]
    for name in ("tight_mask", "mask_edge"):
        view = TwoViews(only(name), seed=0).view(x[None], [0], epoch=0, view=0)[0]
        ratio = view[deep] / x[deep]
        assert ratio.std() < 1e-4 * ratio.mean()  # one factor: the bright end is put back
        assert (view[~deep] != x[~deep]).any()


def test_a_rim_is_cut_or_left_as_the_depth_says(brain):
    x = brain("zscore", 0)
    n = int(to_signal(x).brain_CDHW.sum())
    for depth, smaller in ((0.8, True), (-0.8, False)):
        settings = only("mask_edge", depth_voxels=(depth, depth), variation_voxels=0.2)
        view = TwoViews(settings, seed=0).view(x[None], [0], epoch=0, view=0)[0]
        assert (int(to_signal(view).brain_CDHW.sum()) < n) is smaller
