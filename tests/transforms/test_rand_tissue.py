"""Views of maps of tissue, as another scanner would make them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.ndimage import gaussian_filter

from neurocontrast.transforms import AugmentSettings, RandSynthesised, RandTissueShiftd, TwoViews, brain_views
from neurocontrast.transforms.augment import Synthesise, TissueShift

SHIFT, SYNTHESISE = RandTissueShiftd("image"), RandSynthesised("image")


@pytest.fixture
def maps(voxels_of_head):
    """Probabilities of grey and white matter, (2, D, H, W), with partial volumes."""
    grey, white = (gaussian_filter((abs(voxels_of_head - value) < 28).astype(np.float32), 1.0) for value in (140, 200))
    both = np.stack([grey, white])
    both[both < 1e-3] = 0
    return torch.from_numpy(both)


def test_a_view_stays_in_the_range_of_maps_and_off_the_background(maps):
    outside = maps.sum(0) == 0
    for seed in range(8):
        view = SHIFT.change(maps, gain=0.5, shift=0.3, seed=seed)
        assert (float(view.min()), float(view.max()) <= 1.0) == (0.0, True)
        assert (view[:, outside] == 0).all()
        assert not torch.equal(view, maps)


def test_without_strength_a_view_is_the_maps(maps):
    torch.testing.assert_close(SHIFT.change(maps, gain=0.0, shift=0.0, seed=3), maps)


def test_the_gain_is_smooth_differs_by_map_and_has_the_asked_spread():
    flat, logs = torch.full((2, 20, 22, 20), 0.1), []
    flat[:, 0] = flat[:, -1] = flat[:, :, 0] = 0.0
    for seed in range(300):
        logs.append((SHIFT.change(flat, gain=0.2, shift=0.0, seed=seed) / flat)[:, 1:-1, 1:].log().numpy())
    found = np.stack(logs)
    assert found.std() == pytest.approx(0.2, rel=0.1)
    assert found.mean() == pytest.approx(0.0, abs=0.02)
    assert found.mean((2, 3, 4)).std() == pytest.approx(0.2 / 2**0.5, rel=0.2)
    assert abs(np.corrcoef(found.mean((2, 3, 4)).T)[0, 1]) < 0.2
    assert np.abs(np.diff(found, axis=2)).max() < 0.2


def test_a_shift_is_added_where_the_brain_is_whatever_the_map_holds_there(maps):
    inside = maps.sum(0) > 0.6
    changes = [SHIFT.change(maps, gain=0.0, shift=0.05, seed=seed) - maps for seed in range(40)]
    risen = torch.stack([change for change in changes if change[0][inside].mean() > 0.02])
    only_white = inside & (maps[0] < 0.01)
    assert only_white.sum() > 100
    assert float(risen[:, 0, only_white].mean()) > 0.01


def test_values_count_from_the_background(maps):
    moved = 2.0 * maps - 1.0
    view = SHIFT.change(moved, gain=0.1, shift=0.05, seed=4)
    assert float(view.min()) == -1.0
    expected = 2.0 * SHIFT.change(maps, gain=0.1, shift=0.05, seed=4) - 1.0
    unclipped = expected < 0.9
    torch.testing.assert_close(view[unclipped], expected[unclipped], atol=1e-5, rtol=0)


def test_empty_maps_stay_empty():
    empty = torch.zeros(2, 9, 9, 9)
    assert torch.equal(SHIFT.change(empty, gain=0.5, shift=0.5, seed=0), empty)


def test_views_are_keyed_and_the_configuration_makes_the_transform(maps):
    settings = AugmentSettings.off().model_copy(update={"tissue_shift": TissueShift(probability=1.0)})
    (transform,) = brain_views(settings).transforms
    assert type(transform) is RandTissueShiftd
    views, batch = TwoViews(brain_views(settings), seed=0), torch.stack([maps, maps.flip(1)])
    first, second = views(batch, ["a", "b"], epoch=1)
    assert not torch.equal(first, second)
    (again, _), (later, _) = views(batch[1:], ["b"], epoch=1), views(batch[1:], ["b"], epoch=2)
    assert torch.equal(again[0], first[1])
    assert not torch.equal(later[0], first[1])


class TestSynthesise:
    @pytest.fixture
    def scan(self, voxels_of_head, maps):
        """A scan, z-scored over the box, with its two maps behind it."""
        voxels = torch.from_numpy(voxels_of_head)[None]
        return torch.cat([(voxels - voxels.mean()) / voxels.std(correction=0), maps])

    def test_each_tissue_has_its_signal_and_the_view_is_normalised_as_the_scan(self, scan):
        view = SYNTHESISE.change(scan, tissues=[1.0, 0.2] + [0.0] * 14, rim=0.5)
        assert view.shape == (1, *scan.shape[1:])
        assert float(view.mean()) == pytest.approx(0.0, abs=1e-4)
        assert float(view.std(correction=0)) == pytest.approx(1.0, abs=1e-3)
        grey, white = (each / each.max() for each in scan[1:])
        over = (grey + white).clamp(min=1.0)
        expected = ((grey + 0.2 * white - 0.5 * (grey + white)) / over + 0.5).numpy()
        expected[scan[0] == scan[0, 0, 0, 0]] = 0.0
        found = view[0].numpy()
        assert (expected > 0.9).any()
        slope, intercept = np.polyfit(expected.ravel(), found.ravel(), 1)
        np.testing.assert_allclose(found, slope * expected + intercept, atol=1e-3)
        assert slope > 0

    def test_scale_and_overlap_of_maps_do_not_matter_more_than_their_sum(self, scan):
        drawn = {"tissues": [0.9, 0.4] + [0.0] * 14, "rim": 0.1}
        scaled = scan * torch.tensor([1.0, 255.0, 3.0])[:, None, None, None]
        torch.testing.assert_close(SYNTHESISE.change(scaled, **drawn), SYNTHESISE.change(scan, **drawn))

    @pytest.mark.parametrize("probability", [0.0, 1.0])
    def test_a_view_has_one_channel_whether_synthesised_or_not(self, scan, probability):
        settings = AugmentSettings.off().model_copy(update={"synthesise": Synthesise(probability=probability)})
        views = TwoViews(brain_views(settings), seed=0, n_channels=1)
        first, second = views(scan[None], ["a"], epoch=0)
        assert first.shape == (1, 1, *scan.shape[1:])
        assert torch.equal(first[0, 0], scan[0]) == (probability == 0)
        assert torch.equal(first, second) == (probability == 0)

    def test_an_empty_scan_stays_as_it_is(self, scan):
        empty = torch.cat([torch.zeros_like(scan[:1]), scan[1:]])
        assert torch.equal(SYNTHESISE.change(empty, tissues=[1.0] * 16, rim=1.0), empty[:1])
