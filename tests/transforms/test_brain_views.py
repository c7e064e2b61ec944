"""The views that a configuration asks for: what is drawn, how often, and what comes out."""

import inspect

import numpy as np
import pytest
import torch
from monai.transforms import Compose
from pydantic import ValidationError
from scipy import ndimage, stats

from neurocontrast.transforms import (
    AugmentSettings,
    RandBlurd,
    RandBrainRiciand,
    TwoViews,
    brain_views,
)
from neurocontrast.transforms.rand_intensity import smooth_fields
from neurocontrast.transforms.rand_volumes import RandVolumed, draw_all
from neurocontrast.transforms.signal import to_signal
from tests.transforms.conftest import AT_SITE, normalised_brain, view_of

SITES = AugmentSettings.sites()
EVERYTHING = AugmentSettings.reference().model_copy(
    update={name: value for name, value in SITES if value is not None and name != "cutout"}
)
DRAWN = ("flip", *AT_SITE, "blur", "noise", "cutout", "crop")


def only(name: str, **changes) -> AugmentSettings:
    return AugmentSettings.off().model_copy(
        update={name: getattr(AugmentSettings(**{name: {"probability": 1.0} | changes}), name)}
    )


def operation(name: str, **changes):
    """Return the transform that a configuration with one operation makes."""
    transforms = brain_views(only(name, **changes)).transforms
    made = [each for each in transforms if isinstance(each, RandVolumed)]
    assert len(made) == 1, f"transforms/compose.py: which transform is '{name}'?"
    return made[0]


def draws(name: str, n: int = 1500, **changes):
    """Return the numbers of one operation for many seeds."""
    (drawn,) = draw_all([operation(name, **changes)], range(n), n_channels=1)
    return drawn


@pytest.fixture
def volumes():
    return torch.stack([normalised_brain("zscore", index) for index in range(3)])


# --- the configuration and its transforms
# ----------------------------------------------------------------------------
def test_all_operations_come_in_their_order_and_each_as_asked():
    views = brain_views(EVERYTHING)
    assert isinstance(views, Compose)
    assert [type(each).__name__ for each in views.transforms] == [
        *["RandMirrord", "ToSignald", "RandBrainAffined", "RandBrainContrastd"],
        *["RandBrainBiasFieldd", "RandBrainSharpnessd"],
        *["RandBrainRiciand", "RandTightMaskd", "RandMaskEdged", "FromSignald"],
        *["RandBlurd", "RandNoised", "RandCutoutd", "RandResizedCropd"],
    ]
    given = [each.settings for each in views.transforms if hasattr(each, "settings")]
    assert given == [getattr(EVERYTHING, name) for name in DRAWN]


def test_a_transform_takes_the_ranges_of_its_settings_and_refuses_what_they_refuse():
    assert RandBrainRiciand("image").settings == SITES.rician
    assert (RandBlurd("image").prob, RandBlurd("image", prob=0.7).prob) == (0.5, 0.7)
    assert RandBlurd(["image"], 1.0, sigma_voxels=[0.2, 0.4]).settings.sigma_voxels == (0.2, 0.4)
    for wrong in ({"sigma_voxels": (0.4, 0.2)}, {"prob": 1.5}):
        with pytest.raises(ValidationError):
            RandBlurd("image", **wrong)
    with pytest.raises(TypeError, match="sigma"):
        RandBlurd("image", sigma=1.0)


@pytest.mark.parametrize("name", sorted(AugmentSettings.model_fields.keys() - {"transforms"}))
def test_a_constructor_says_the_defaults_of_the_configuration(name):
    configured = operation(name, probability=0.5)
    parameters = inspect.signature(type(configured)).parameters
    assert set(parameters) - {"keys", "prob", "allow_missing_keys"} == set(
        type(configured.settings).model_fields
    ) - {"probability"}
    assert type(configured)("image").settings == type(configured.settings)()


# --- what is drawn
# ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", DRAWN)
def test_an_operation_is_applied_as_often_as_asked(name):
    for probability in (0.0, 0.3, 1.0):
        found = draws(name, 6000, probability=probability).is_changed.mean()
        assert found == pytest.approx(probability, abs=0.025 if probability == 0.3 else 0.0)


def test_flips_are_as_frequent_as_asked_and_axes_as_likely():
    x = torch.arange(64.0).reshape(1, 4, 4, 4)
    views = brain_views(only("flip", probability=0.6, axes=(0, 2)))
    found = []
    for seed in range(400):
        view = views.set_random_state(seed=seed)({"image": x})["image"]
        assert type(view) is torch.Tensor
        found.append(next((axis for axis in range(3) if torch.equal(view, x.flip(axis + 1))), None))
    assert found.count(None) / 400 == pytest.approx(0.4, abs=0.06)
    assert found.count(0) / 400 == pytest.approx(0.3, abs=0.06)
    assert found.count(2) / 400 == pytest.approx(0.3, abs=0.06)


def uniform(drawn, key: str, low: float, high: float, axis: int | None = None) -> None:
    numbers = drawn.numbers[key]
    values = numbers if axis is None else numbers[:, axis]
    assert low <= values.min()
    assert values.max() <= high
    assert stats.kstest(values, stats.uniform(low, high - low).cdf).pvalue > 1e-3


def test_strengths_fill_their_ranges():
    uniform(draws("blur", sigma_voxels=(0.2, 0.6)), "sigma_voxels", 0.2, 0.6)
    for name in ("noise", "rician"):
        noise = draws(name, sigma=(0.02, 0.3))
        uniform(noise, "sigma", 0.02, 0.3)
        # A CPU's generator takes the low half of a seed.
        assert len(set((noise.numbers["seed"] % 2**32).tolist())) == 1500
    for name in ("cutout", "crop"):
        boxes = draws(name, fraction=(0.2, 0.5))
        uniform(boxes, "fraction", 0.2, 0.5)
        for axis in range(3):
            uniform(boxes, "place", 0.0, 1.0, axis)
    uniform(draws("sharpness", amount=(-1.0, 2.0)), "amount", -1.0, 2.0)
    uniform(draws("contrast", gamma=(0.5, 3.0)), "gamma", 0.5, 3.0)
    uniform(draws("bias_field", strength=(0.1, 0.4)), "strength", 0.1, 0.4)
    edges = draws("mask_edge", depth_voxels=(-2.0, 1.0), rim=(0.1, 0.9))
    uniform(edges, "depth_voxels", -2.0, 1.0)
    uniform(edges, "rim", 0.1, 0.9)
    cuts = draws("tight_mask", depth_voxels=(1.0, 3.0), below=(0.2, 0.3))
    uniform(cuts, "depth_voxels", 1.0, 3.0)
    uniform(cuts, "below", 0.2, 0.3)
    moves = draws("affine", rotation_degrees=(-9, 4), translation_voxels=(-2, 1), scale=(0.8, 1.6))
    for axis in range(3):
        uniform(moves, "rotation_degrees", -9.0, 4.0, axis)
        uniform(moves, "translation_voxels", -2.0, 1.0, axis)
        uniform(moves, "shrinking", 1 / 1.6, 1 / 0.8, axis)


def test_no_two_numbers_of_a_view_are_alike_and_each_operation_has_its_own():
    every = [operation(name) for name in DRAWN]
    drawn = draw_all(every, range(400), n_channels=1)
    columns = [
        values.reshape(400, -1)[:, :12] for each in drawn for values in each.numbers.values()
    ]
    table = np.concatenate(columns, axis=1)
    alike = np.corrcoef(table[:, table.std(axis=0) > 0].T)
    assert np.abs(alike - np.eye(len(alike))).max() < 0.3
    alone = draw_all([operation("blur")], range(400), n_channels=1)[0]
    among = drawn[DRAWN.index("blur")]
    assert np.array_equal(alone.numbers["sigma_voxels"], among.numbers["sigma_voxels"])
    twice = draw_all([operation("blur")] * 2, range(400), n_channels=1)
    first, second = (each.numbers["sigma_voxels"] for each in twice)
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.2


@pytest.mark.slow
@pytest.mark.parametrize("scale", [0.8, 1.2])
def test_scale_is_a_factor_on_lengths_of_the_brain(scale):
    x = normalised_brain("zscore-brain", 0)
    view = view_of(
        x, only("affine", rotation_degrees=(0, 0), translation_voxels=(0, 0), scale=(scale, scale))
    )
    places = [torch.nonzero(each[0]).float() for each in (x, torch.as_tensor(view))]
    found = places[1].std(0) / places[0].std(0)
    torch.testing.assert_close(found, torch.full((3,), scale), rtol=0.04, atol=0.0)


@pytest.mark.parametrize("order", [1, 3, 6])
def test_fields_have_the_spread_asked_and_the_mean_0(order):
    drawn = draws("bias_field", 5, order=order, strength=(0.2, 0.2)).numbers
    for strength, coefficients in zip(drawn["strength"], drawn["coefficients"], strict=True):
        (field,) = smooth_fields(strength * coefficients[None], (40, 48, 40))
        assert field.mean() == pytest.approx(0.0, abs=2e-3)
        assert field.std() == pytest.approx(0.2, rel=0.03)
        degrees = np.argwhere(coefficients != 0).sum(1)
        assert (degrees.min(), degrees.max()) == (1, order)


# --- what comes out
# --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", DRAWN)
def test_each_operation_alone_changes_the_volume_as_its_keys_say(name, volumes):
    def made(seed=1, epoch=1, called="sub-01", view=0):
        return TwoViews(brain_views(only(name)), seed=seed).view(
            volumes[:1], [called], epoch=epoch, view=view
        )

    first = made()
    assert first.isfinite().all()
    assert (first - volumes[:1]).abs().max() > 0.01
    assert torch.equal(first, made())
    if name != "flip":  # one of three axes: two keys may draw the same
        for other in (made(seed=2), made(epoch=2), made(called="sub-02"), made(view=1)):
            assert not torch.equal(first, other)


def test_where_nothing_is_applied_a_view_is_the_volume_to_rounding(volumes):
    never = {
        name: value.model_copy(update={"probability": 0.0})
        for name, value in EVERYTHING
        if value is not None
    }
    torch.testing.assert_close(
        view_of(volumes[0], EVERYTHING.model_copy(update=never)), volumes[0], atol=2e-3, rtol=0
    )
    assert torch.equal(view_of(volumes[0], AugmentSettings.off()), volumes[0])


# --- what a site does
# ------------------------------------------------------------------------------------------------
def test_brain_extraction_changes_the_rim_alone():
    x = normalised_brain("none", 0)
    deep = torch.from_numpy(ndimage.distance_transform_edt((x != 0)[0].numpy()) > 5)[None]
    for name in ("tight_mask", "mask_edge"):
        view = view_of(x, only(name))
        ratio = view[deep] / x[deep]
        assert ratio.std() < 1e-4 * ratio.mean()  # one factor: the bright end is put back
        assert (view[~deep] != x[~deep]).any()


def test_a_rim_is_cut_or_left_as_the_depth_says():
    x = normalised_brain("zscore", 0)
    n = int(to_signal(x[None]).brain_BCDHW.sum())
    for depth, smaller in ((0.8, True), (-0.8, False)):
        settings = only("mask_edge", depth_voxels=(depth, depth), variation_voxels=0.2)
        view = view_of(x, settings)
        assert (int(to_signal(view[None]).brain_BCDHW.sum()) < n) is smaller
