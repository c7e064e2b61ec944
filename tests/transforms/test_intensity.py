"""Each normalisation against a plain form of its definition, and what it is to be blind to."""

import numpy as np
import pytest

from neurocontrast.exceptions import DataError
from neurocontrast.transforms import Preprocessing, load_volume
from neurocontrast.transforms.brain import erode, fill_largest
from neurocontrast.transforms.images import apply, to_image


def settings(**keys):
    return Preprocessing(**{"spacing_mm": 4.0, "shape": (40, 44, 40)} | keys)


def done(voxels, contract):
    image = to_image(voxels[np.newaxis].astype(np.float32), np.diag([4.0, 4.0, 4.0, 1.0]), name="x.nii")
    return apply(contract.compose(), {"image": image}, start=1)["image"].numpy()[0]


PERCENTILE = settings(normalise="percentile", percentiles=(2, 98))


def test_percentiles_of_the_brain_become_0_and_1(voxels_of_head):
    low, high = np.percentile(voxels_of_head[voxels_of_head > 0], [2, 98])
    expected = np.where(voxels_of_head > 0, np.clip((voxels_of_head - low) / (high - low), 0, 1), 0)
    np.testing.assert_allclose(done(voxels_of_head, PERCENTILE), expected, atol=1e-6)


@pytest.mark.parametrize("gain", [1e-6, 37.0])
def test_a_gain_changes_nothing(voxels_of_head, gain):
    np.testing.assert_allclose(done(voxels_of_head * gain, PERCENTILE), done(voxels_of_head, PERCENTILE), atol=2e-5)


def test_what_is_not_brain_is_0_and_changes_nothing(voxels_of_head):
    speckled = voxels_of_head.copy()
    speckled[1, 1, 1:5] = 5000
    np.testing.assert_array_equal(done(speckled, PERCENTILE), done(voxels_of_head, PERCENTILE))
    assert done(voxels_of_head, PERCENTILE)[voxels_of_head == 0].max() == 0


@pytest.mark.parametrize("normalise", ["zscore", "zscore-brain", "none", "percentile"])
def test_erosion_takes_the_edge_before_intensities_are_looked_at(voxels_of_head, normalise):
    inside = erode(fill_largest(voxels_of_head != 0), 8.0, (4.0, 4.0, 4.0))
    assert 0 < inside.sum() < (voxels_of_head > 0).sum()
    expected = done(np.where(inside, voxels_of_head, 0), settings(normalise=normalise))
    np.testing.assert_array_equal(done(voxels_of_head, settings(normalise=normalise, erode_mm=8)), expected)


def refused(voxels, contract, words):
    with pytest.raises(DataError, match=words):
        done(voxels, contract)


def test_scans_that_have_no_such_brain_are_refused_by_name(voxels_of_head):
    whole = voxels_of_head + 1
    for contract in (PERCENTILE, settings(erode_mm=4)):
        refused(whole, contract, r"x\.nii: 4\.5 litres of it are not 0.*strip the skulls")
    tiny = np.zeros((40, 44, 40))
    tiny[18:22, 18:22, 18:22] = np.random.default_rng(0).uniform(1, 2, (4, 4, 4))
    refused(tiny, PERCENTILE, "x.nii: 64 voxels of its brain .* at least 500 are needed")
    small = np.where(erode(fill_largest(voxels_of_head != 0), 32.0, (4.0, 4.0, 4.0)), voxels_of_head, 0)
    refused(small, settings(erode_mm=30), r"voxels of its brain .* before data.erode_mm: 30")
    refused(
        voxels_of_head,
        settings(spacing_mm=None, erode_mm=3),
        r"x\.nii: data\.erode_mm must be .* spacing \(4 mm\), got 3",
    )
    flat = np.where(voxels_of_head > 0, 3, 0)
    flat[20, 20, 20] = 4
    refused(flat, PERCENTILE, "nothing varies")


def test_heads_of_real_scans_are_refused_and_brains_are_not(shared_folder):
    contract = Preprocessing(spacing_mm=4.0, shape=(48, 56, 48), normalise="percentile")
    native = shared_folder / "data" / "native"
    heads, brains = (sorted(native.glob(name)) for name in ("*ds000011*", "*ds002748*"))
    assert heads
    assert brains
    for path in heads:
        with pytest.raises(DataError, match=r"8\.\d litres of it are not 0"):
            load_volume(path, contract)
    for path in brains:
        assert load_volume(path, contract).max() == 1
