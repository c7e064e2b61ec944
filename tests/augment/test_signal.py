from __future__ import annotations

import numpy as np
import pytest
import torch

from neurocontrast.augment import AugmentSettings, TwoViews
from neurocontrast.augment.signal import from_signal, to_signal

NORMALISATIONS = ("zscore", "zscore-brain", "percentile", "white-matter", "histogram", "none")
INTENSITIES = ("contrast", "histogram", "bias_field", "sharpness", "resolution", "ghosting", "rician")
PLACES = ("affine", "tight_mask", "mask_edge")


def only(*names: str) -> AugmentSettings:
    sites = AugmentSettings.sites()
    chosen = {name: getattr(sites, name).model_copy(update={"probability": 1.0}) for name in names}
    return AugmentSettings.off().model_copy(update=chosen)


def corner(x) -> float:
    return float(x.flatten()[0])


@pytest.mark.parametrize("how", NORMALISATIONS)
def test_the_brain_is_what_differs_from_the_background(how, brain, raw_brain):
    x = brain(how, 0)
    signal = to_signal(x)
    assert float(signal.background) == corner(x)
    there, found = raw_brain(0) != 0, signal.brain_CDHW[0].numpy()
    assert not found[~there].any()
    # These give the darkest 1 % of the brain the value of the background.
    assert found[there].mean() > (0.985 if how in ("percentile", "histogram") else 0.999)


@pytest.mark.parametrize("how", NORMALISATIONS)
def test_signal_is_positive_in_the_brain_and_one_at_its_bright_end(how, brain):
    signal = to_signal(brain(how, 0))
    inside = signal.signal_CDHW[signal.brain_CDHW]
    assert inside.min() > 0.0
    assert (signal.signal_CDHW[~signal.brain_CDHW] == 0.0).all()
    assert np.quantile(inside, 0.99) == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("how", NORMALISATIONS)
def test_signal_leads_back_to_the_volume(how, brain):
    x = brain(how, 0)
    scale = float(x.std())
    torch.testing.assert_close(from_signal(to_signal(x)) / scale, x / scale, atol=2e-3, rtol=0.0)


def test_signal_is_the_scanners_whatever_the_normalisation(brain, raw_brain):
    scan = torch.from_numpy(raw_brain(0))[None]
    expected = to_signal(scan).signal_CDHW
    for how in ("zscore", "white-matter", "none"):
        torch.testing.assert_close(to_signal(brain(how, 0)).signal_CDHW, expected, atol=5e-3, rtol=0.0)


@pytest.mark.parametrize("how", NORMALISATIONS)
@pytest.mark.parametrize("name", INTENSITIES)
def test_what_changes_intensities_leaves_the_background_one_constant(how, name, brain):
    x = brain(how, 0)
    inside = x != corner(x)
    for sample in range(3):
        view = TwoViews(only(name), seed=0).view(x[None], [sample], epoch=0, view=0)[0]
        assert (view[~inside] == corner(view)).all()
        if how != "zscore":  # over the box, the background's value is one of the things that tell sites apart
            assert corner(view) == 0.0


@pytest.mark.parametrize("how", NORMALISATIONS)
def test_views_are_normalised_as_scans_are(how, brain):
    x = brain(how, 0)
    for sample in range(6):
        view = TwoViews(only(*INTENSITIES, *PLACES), seed=0).view(x[None], [sample], epoch=0, view=0)[0]
        inside = view[view != corner(view)]
        if how == "zscore":
            assert (view.mean(), view.std()) == (pytest.approx(0.0, abs=1e-4), pytest.approx(1.0, abs=1e-3))
            assert (view[view != corner(view)] >= corner(view) - 1e-5).all()
            continue
        assert corner(view) == 0.0
        if how == "zscore-brain":
            assert (inside.mean(), inside.std()) == (pytest.approx(0.0, abs=1e-3), pytest.approx(1.0, abs=2e-3))
        else:
            assert view.min() >= 0.0
            assert view.max() <= x.max() * 1.00001
            bright = np.quantile(x[x != 0.0], 0.99)
            assert np.quantile(inside, 0.99) == pytest.approx(bright, rel=0.03)


def test_a_background_lighter_than_the_darkest_tissue_is_not_taken_for_it(brain):
    x = brain("zscore-brain", 0)
    assert x.min() < 0.0 == corner(x)
    view = TwoViews(only("contrast"), seed=0).view(x[None], [0], epoch=0, view=0)[0]
    inside = x != 0.0
    order, kept = x[inside].numpy(), view[inside].numpy()
    assert (np.diff(kept[np.argsort(order, kind="stable")]) > -1e-5).all()
    assert np.abs(order - kept).max() > 0.01


@pytest.mark.parametrize("x", [torch.zeros(1, 9, 9, 9), torch.full((2, 9, 10, 9), 3.5)])
def test_nothing_is_done_to_a_volume_in_which_nothing_varies(x):
    assert to_signal(x) is None
    assert torch.equal(TwoViews(only(*INTENSITIES, *PLACES), seed=0).view(x[None], [0], epoch=0, view=0)[0], x)


def test_channels_have_signals_of_their_own(brain):
    one, two = brain("white-matter", 0), brain("none", 1)
    both = to_signal(torch.cat([one, two]))
    torch.testing.assert_close(both.signal_CDHW[:1], to_signal(one).signal_CDHW)
    torch.testing.assert_close(both.signal_CDHW[1:], to_signal(two).signal_CDHW)


def test_a_head_with_noisy_air_keeps_its_scale():
    air = torch.rand(1, 24, 24, 24, generator=torch.Generator().manual_seed(0)) * 5.0
    head = air.clone()
    head[:, 6:18, 6:18, 6:18] += 100.0
    view = TwoViews(only("contrast"), seed=0).view(head[None], [0], epoch=0, view=0)[0]
    assert view.isfinite().all()
    assert view.max() <= head.max() + 1e-3
    assert view[:, 8:16, 8:16, 8:16].mean() > 10 * view[:, :4].mean()
