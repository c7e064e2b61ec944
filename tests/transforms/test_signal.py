from itertools import product

import numpy as np
import pytest
import torch
from monai.data import MetaTensor
from monai.transforms import Compose, RandAffined

from neurocontrast.exceptions import DataError
from neurocontrast.transforms import (
    AugmentSettings,
    FromSignald,
    RandBrainRiciand,
    RandBrainSharpnessd,
    RandTightMaskd,
    ToSignald,
    brain_views,
)
from neurocontrast.transforms.signal import from_signal, to_signal
from tests.transforms.conftest import normalised_brain, raw_brain, view_of

NORMALISATIONS = ("zscore", "zscore-brain", "percentile", "none")
INTENSITIES = ("contrast", "bias_field", "sharpness", "rician")
PLACES = ("affine", "tight_mask", "mask_edge")


def only(*names: str) -> AugmentSettings:
    sites = AugmentSettings.sites()
    chosen = {name: getattr(sites, name).model_copy(update={"probability": 1.0}) for name in names}
    return AugmentSettings.off().model_copy(update=chosen)


def corner(x) -> float:
    return float(x.flatten()[0])


@pytest.mark.parametrize("how", NORMALISATIONS)
def test_the_brain_is_what_differs_from_the_background(how):
    x = normalised_brain(how, 0)
    signal = to_signal(x[None])
    assert float(signal.scale.background) == corner(x)
    there = raw_brain(0) != 0
    found = signal.brain_BCDHW[0, 0].numpy() == 1
    assert not found[~there].any()
    # These give the darkest 1 % of the brain the value of the background.
    assert found[there].mean() > (0.985 if how == "percentile" else 0.999)


@pytest.mark.parametrize("how", NORMALISATIONS)
def test_signal_is_positive_in_the_brain_and_one_at_its_bright_end(how):
    signal = to_signal(normalised_brain(how, 0)[None])
    inside = signal.x_BCDHW[signal.brain_BCDHW == 1.0]
    assert inside.min() > 0.0
    assert (signal.x_BCDHW[signal.brain_BCDHW == 0.0] == 0.0).all()
    assert np.quantile(inside, 0.99) == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("how", NORMALISATIONS)
def test_signal_leads_back_to_the_volume(how):
    x = normalised_brain(how, 0)
    scale = float(x.std())
    torch.testing.assert_close(
        from_signal(to_signal(x[None]))[0] / scale, x / scale, atol=2e-3, rtol=0.0
    )


@pytest.mark.parametrize("how", NORMALISATIONS)
def test_what_changes_intensities_leaves_the_background_one_constant(how):
    x = normalised_brain(how, 0)
    inside = x != corner(x)
    for name, sample in product(INTENSITIES, range(3)):
        view = view_of(x, only(name), sample)
        assert (view[~inside] == corner(view)).all(), name
        if (
            how != "zscore"
        ):  # over the box, the background's value is one of the things that tell sites apart
            assert corner(view) == 0.0, name


@pytest.mark.parametrize("how", NORMALISATIONS)
def test_views_are_normalised_as_scans_are(how):
    x = normalised_brain(how, 0)
    for sample in range(6):
        view = view_of(x, only(*INTENSITIES, *PLACES), sample)
        inside = view[view != corner(view)]
        if how == "zscore":
            assert (view.mean(), view.std()) == (
                pytest.approx(0.0, abs=1e-4),
                pytest.approx(1.0, abs=1e-3),
            )
            assert (view[view != corner(view)] >= corner(view) - 1e-5).all()
            continue
        assert corner(view) == 0.0
        if how == "zscore-brain":
            assert (inside.mean(), inside.std()) == (
                pytest.approx(0.0, abs=1e-3),
                pytest.approx(1.0, abs=2e-3),
            )
        else:
            assert view.min() >= 0.0
            assert view.max() <= x.max() * 1.00001
            bright = np.quantile(x[x != 0.0], 0.99)
            assert np.quantile(inside, 0.99) == pytest.approx(bright, rel=0.03)


@pytest.mark.parametrize("x", [torch.zeros(1, 9, 9, 9), torch.full((2, 9, 10, 9), 3.5)])
def test_nothing_is_done_to_a_volume_in_which_nothing_varies(x):
    assert not to_signal(x[None]).brain_BCDHW.any()
    assert torch.equal(view_of(x, only(*INTENSITIES, *PLACES), 0), x)


def test_channels_have_signals_of_their_own():
    one = normalised_brain("percentile", 0)
    two = normalised_brain("none", 1)
    both = to_signal(torch.cat([one, two])[None]).x_BCDHW[0]
    assert torch.equal(both[:1], to_signal(one[None]).x_BCDHW[0])
    assert torch.equal(both[1:], to_signal(two[None]).x_BCDHW[0])


def test_a_head_with_noisy_air_keeps_its_scale():
    air = torch.rand(1, 24, 24, 24, generator=torch.Generator().manual_seed(0)) * 5.0
    head = air.clone()
    head[:, 6:18, 6:18, 6:18] += 100.0
    view = view_of(head, only("contrast"), 0)
    assert view.isfinite().all()
    assert view.max() <= head.max() + 1e-3
    assert view[:, 8:16, 8:16, 8:16].mean() > 10 * view[:, :4].mean()


# --- in dictionaries
# -------------------------------------------------------------------------------------------------
CHANGES = [RandBrainRiciand, RandBrainSharpnessd, RandTightMaskd]


def test_transforms_alone_do_what_they_do_between_to_and_from_signal():
    x = normalised_brain("zscore", 0)
    for change in CHANGES:
        alone = change("image", prob=1.0).set_random_state(seed=3)({"image": x})
        among = change("image", prob=1.0).set_random_state(seed=3)
        shared = FromSignald("image")(among(ToSignald("image")({"image": x})))
        assert set(alone) == set(shared) == {"image"}
        assert torch.equal(alone["image"], shared["image"])
        assert not torch.equal(alone["image"], x)


def test_transforms_of_monai_move_signal_and_brain_between_ours():
    x = normalised_brain("zscore-brain", 0)
    keys = ["image", "image_brain"]
    modes = ("bilinear", "nearest")
    shift = RandAffined(
        keys, prob=1.0, translate_range=[(2, 2), (0, 0), (0, 0)], mode=modes, padding_mode="zeros"
    )
    views = Compose(
        [
            ToSignald("image"),
            shift,
            *[change("image", prob=1.0) for change in CHANGES],
            FromSignald("image"),
        ]
    )
    view = views.set_random_state(seed=0)({"image": x})["image"]
    inside = view != corner(view)
    assert corner(view) == 0.0
    assert (view[inside].mean(), view[inside].std()) == (
        pytest.approx(0.0, abs=1e-3),
        pytest.approx(1.0, abs=2e-3),
    )
    centre = [np.argwhere((y != corner(y))[0].numpy()).mean(0) for y in (x, view)]
    assert abs(centre[0] - centre[1])[0] == pytest.approx(2.0, abs=0.3)


def test_metadata_stay_and_dictionaries_and_volumes_given_are_not_changed():
    x = MetaTensor(
        normalised_brain("zscore", 0), affine=torch.diag(torch.tensor([6.0, 6.0, 6.0, 1.0]))
    )
    given = {"image": x, "age": 30.0}
    before = x.as_tensor().clone()
    settings = AugmentSettings.sites().model_copy(update={"affine": None})
    made = brain_views(settings).set_random_state(seed=0)(given)
    assert set(given) == set(made) == {"image", "age"}
    assert torch.equal(given["image"].as_tensor(), before)
    assert isinstance(made["image"], MetaTensor)
    assert torch.equal(made["image"].affine, x.affine)


def test_what_stands_in_the_wrong_place_is_named():
    with pytest.raises(DataError, match="put ToSignald before it"):
        FromSignald("image")({"image": normalised_brain("zscore", 0)})
    with pytest.raises(
        DataError, match=r"'image' must be .* \(channels, D, H, W\)\. Got shape \(9, 9, 9\)"
    ):
        ToSignald("image")({"image": torch.rand(9, 9, 9)})
    with pytest.raises(KeyError, match="scan"):
        RandBrainRiciand("scan", prob=1.0)({"image": normalised_brain("zscore", 0)})
    assert RandBrainRiciand("scan", prob=1.0, allow_missing_keys=True)({"image": 1}) == {"image": 1}
