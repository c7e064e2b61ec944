"""Views of maps of tissue, as another scanner would make them."""

import numpy as np
import pytest
import torch
from scipy.ndimage import gaussian_filter

from neurocontrast.transforms import AugmentSettings, RandTissueShiftd, TwoViews, brain_views
from neurocontrast.transforms.augment import TissueShift
from neurocontrast.transforms.rand_volumes import draw_all

SHIFT = RandTissueShiftd("image")


def shifted(maps, *, gain, shift, seed):
    """Return maps with smooth factors and shifts of a size, by the fields of a seed."""
    (drawn,) = draw_all([SHIFT], [seed], n_channels=len(maps))
    coefficients = drawn.numbers["coefficients"]
    sizes = {"gain": np.array([gain]), "shift": np.array([shift])}
    return SHIFT.change(maps[None].clone(), coefficients=coefficients, **sizes)[0]


@pytest.fixture
def maps(voxels_of_head):
    """Probabilities of grey and white matter, (2, D, H, W), with partial volumes."""
    grey, white = (
        gaussian_filter((abs(voxels_of_head - value) < 28).astype(np.float32), 1.0)
        for value in (140, 200)
    )
    both = np.stack([grey, white])
    both[both < 1e-3] = 0
    return torch.from_numpy(both)


def test_a_view_stays_in_the_range_of_maps_and_off_the_background(maps):
    outside = maps.sum(0) == 0
    for seed in range(8):
        view = shifted(maps, gain=0.5, shift=0.3, seed=seed)
        assert (float(view.min()), float(view.max()) <= 1.0) == (0.0, True)
        assert (view[:, outside] == 0).all()
        assert not torch.equal(view, maps)


def test_the_gain_is_smooth_differs_by_map_and_has_the_asked_spread():
    flat = torch.full((2, 20, 22, 20), 0.1)
    logs = []
    flat[:, 0] = flat[:, -1] = flat[:, :, 0] = 0.0
    for seed in range(300):
        logs.append(
            (shifted(flat, gain=0.2, shift=0.0, seed=seed) / flat)[:, 1:-1, 1:].log().numpy()
        )
    found = np.stack(logs)
    assert found.std() == pytest.approx(0.2, rel=0.1)
    assert found.mean() == pytest.approx(0.0, abs=0.02)
    assert found.mean((2, 3, 4)).std() == pytest.approx(0.2 / 2**0.5, rel=0.2)
    assert abs(np.corrcoef(found.mean((2, 3, 4)).T)[0, 1]) < 0.2
    assert np.abs(np.diff(found, axis=2)).max() < 0.2


def test_a_shift_is_added_where_the_brain_is_whatever_the_map_holds_there(maps):
    inside = maps.sum(0) > 0.6
    changes = [shifted(maps, gain=0.0, shift=0.05, seed=seed) - maps for seed in range(40)]
    risen = torch.stack([change for change in changes if change[0][inside].mean() > 0.02])
    only_white = inside & (maps[0] < 0.01)
    assert only_white.sum() > 100
    assert float(risen[:, 0, only_white].mean()) > 0.01


def test_values_count_from_the_background(maps):
    moved = 2.0 * maps - 1.0
    view = shifted(moved, gain=0.1, shift=0.05, seed=4)
    assert float(view.min()) == -1.0
    expected = 2.0 * shifted(maps, gain=0.1, shift=0.05, seed=4) - 1.0
    unclipped = expected < 0.9
    torch.testing.assert_close(view[unclipped], expected[unclipped], atol=1e-5, rtol=0)


def test_views_are_keyed_and_the_configuration_makes_the_transform(maps):
    settings = AugmentSettings.off().model_copy(
        update={"tissue_shift": TissueShift(probability=1.0)}
    )
    (transform,) = brain_views(settings).transforms
    assert type(transform) is RandTissueShiftd
    views = TwoViews(brain_views(settings), seed=0)
    batch = torch.stack([maps, maps.flip(1)])
    first, second = views(batch, ["a", "b"], epoch=1)
    assert not torch.equal(first, second)
    (again, _), (later, _) = views(batch[1:], ["b"], epoch=1), views(batch[1:], ["b"], epoch=2)
    assert torch.equal(again[0], first[1])
    assert not torch.equal(later[0], first[1])
