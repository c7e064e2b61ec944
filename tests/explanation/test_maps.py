"""Maps of what a score depends on, against encoders whose answer is known."""

import numpy as np
import pytest
import torch
from scipy import ndimage

from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.explanation import ExplanationSettings, LinearScore, explain_scans
from neurocontrast.explanation.maps import (
    brain_of,
    find_peaks,
    name_of_place,
    occlude,
    offset_of,
    patches_of,
)

SHAPE = (12, 14, 10)
PLACE = (4, 9, 6)
SPACING = (5.0, 5.0, 5.0)


class Voxels(torch.nn.Module):
    """An encoder with two features: a blob about one place, and the mean of everything."""

    def __init__(self, place=PLACE):
        super().__init__()
        grid = np.stack(np.meshgrid(*map(np.arange, SHAPE), indexing="ij"), axis=-1)
        blob = np.exp(-((grid - place) ** 2).sum(axis=-1) / 4)
        self.register_buffer("blob", torch.as_tensor(blob, dtype=torch.float32))

    def forward(self, volumes):
        return torch.stack(
            [(volumes[:, 0] * self.blob).sum(dim=(1, 2, 3)), volumes.mean(dim=(1, 2, 3, 4))], dim=1
        )


class Images:
    """Brains: a bright ball with noise, on a background of 0."""

    def __init__(self, n=6, *, broken=()):
        self.broken = broken
        grid = np.stack(np.meshgrid(*map(np.arange, SHAPE), indexing="ij"), axis=-1)
        ball = ((grid - np.array(SHAPE) / 2) ** 2).sum(axis=-1) < 36
        noise = np.random.default_rng(0).uniform(1, 3, (n, *SHAPE))
        self.volumes = torch.as_tensor(noise * ball, dtype=torch.float32)

    def __len__(self):
        return len(self.volumes)

    def __getitem__(self, index):
        volume = self.volumes[index][None]
        return {"image": volume * torch.nan if index in self.broken else volume, "index": index}


def _score(weight=1.0, **options):
    return LinearScore(Voxels(**options), np.array([weight, 0.0]), 0.5)


def _maps(score=None, *, rows=range(6), images=None, **changes):
    settings = ExplanationSettings(
        **{"accelerator": "cpu", "patch_mm": 15, "smooth_mm": 5, **changes}
    )
    return explain_scans(
        score or _score(), images or Images(), rows, settings=settings, spacing_mm=SPACING
    )


def test_the_score_is_the_probe_on_the_features():
    volumes = torch.stack([Images()[row]["image"] for row in range(3)])
    features = Voxels()(volumes).numpy().astype(float)
    weights = np.array([0.3, -2.0])
    found = LinearScore(Voxels(), weights, 1.5)(volumes)
    assert found.dtype == torch.float64
    np.testing.assert_allclose(found.numpy(), features @ weights + 1.5)


@pytest.mark.parametrize("offset", [(0, 0, 0), (2, 1, 0)])
def test_patches_cover_the_mask_and_no_voxel_twice(offset):
    mask = brain_of(Images()[0]["image"][0].numpy())[1]
    covered = np.zeros(SHAPE, dtype=int)
    for patch in patches_of(mask, (3, 3, 3), offset):
        covered[patch] += 1
    assert covered.max() == 1
    assert (covered[mask] == 1).all()


def test_patches_without_a_voxel_of_the_mask_are_left_out():
    mask = np.zeros(SHAPE, dtype=bool)
    mask[4, 4, 4] = True
    (patch,) = patches_of(mask, (4, 4, 4), (0, 0, 0))
    assert patch == (slice(4, 8), slice(4, 8), slice(4, 8))


def test_lattices_of_subjects_begin_in_different_places():
    offsets = {offset_of(number, (4, 4, 4)) for number in range(20)}
    assert len(offsets) > 12
    assert all(0 <= each < 4 for offset in offsets for each in offset)


@pytest.mark.parametrize("batch_size", [1, 4, 100])
def test_an_occlusion_of_a_linear_score_is_exactly_what_the_patch_added(batch_size):
    volume = Images()[0]["image"]
    blob = Voxels().blob
    patches = patches_of(np.ones(SHAPE, dtype=bool), (4, 4, 4), (1, 0, 2))
    maps, contributions = occlude(_score(), volume, patches, fill=0.7, batch_size=batch_size)
    for patch in patches:
        expected = float(((volume[0][patch] - 0.7) * blob[patch]).sum())
        np.testing.assert_allclose(maps[0][patch], expected, atol=1e-4)
    assert contributions == pytest.approx([float((volume[0] * blob).sum()) + 0.5], rel=1e-5)


@pytest.mark.parametrize("place", [PLACE, (8, 4, 3)])
def test_the_peak_is_where_the_score_looks(place):
    share = _maps(_score(place=place)).share
    peak = np.unravel_index(share.argmax(), SHAPE)
    assert np.abs(np.array(peak) - place).max() <= 2  # a patch is three voxels wide


def test_shares_of_a_linear_score_add_up_to_its_differences():
    share = _maps(smooth_mm=0, rows=range(4), fill="background").share
    brain = np.logical_or.reduce(
        [brain_of(Images()[row]["image"][0].numpy())[1] for row in range(4)]
    )
    places = [
        tuple(each.start for each in patch) for patch in patches_of(brain, (3, 3, 3), (0, 0, 0))
    ]
    assert sum(share[place] for place in places) == pytest.approx(1, abs=1e-4)


class TwoBlocks(Voxels):
    """The same features as two blocks: the blob is the network's, the mean a component."""

    def __init__(self):
        super().__init__()
        self.blocks = {"network": 1, "components": 1}


def test_each_block_has_a_map_of_its_part_of_the_score():
    weights = np.array([0.7, 300.0])
    both = _maps(LinearScore(TwoBlocks(), weights, 2.0))
    whole = _maps(LinearScore(Voxels(), weights, 2.0))
    np.testing.assert_array_equal(both.share, whole.share)
    assert both.scores == whole.scores
    assert (whole.by_block, whole.block_shares) == ({}, {})
    assert list(both.by_block) == ["network", "components"]
    np.testing.assert_allclose(sum(both.by_block.values()), both.share, atol=1e-5)
    peak = np.unravel_index(both.by_block["network"].argmax(), SHAPE)
    assert np.abs(np.array(peak) - PLACE).max() <= 2
    far = np.array(SHAPE) - PLACE  # where the blob is not, and the mean is
    assert abs(both.by_block["network"][tuple(far)]) < 0.01 * both.by_block["network"].max()
    assert both.by_block["components"][tuple(far)] > 0


def test_the_shares_of_blocks_are_those_of_a_regression_on_the_score():
    weights = np.array([0.7, 300.0])
    explained = _maps(LinearScore(TwoBlocks(), weights, 2.0))
    volumes = torch.stack([Images()[row]["image"] for row in range(6)])
    of_network = 0.7 * Voxels()(volumes)[:, 0].double().numpy()
    slope = np.polyfit(explained.scores, of_network, 1)[0]
    assert explained.block_shares["network"] == pytest.approx(slope, rel=1e-5)
    assert sum(explained.block_shares.values()) == pytest.approx(1)


def test_a_map_is_smoothed_by_its_full_width_at_half_maximum():
    width_voxels = 20 / SPACING[0]
    sigma = width_voxels / np.sqrt(8 * np.log(2))
    expected = ndimage.gaussian_filter(_maps(smooth_mm=0).share, sigma, mode="constant")
    np.testing.assert_allclose(_maps(smooth_mm=20).share, expected, rtol=1e-4, atol=1e-7)


def test_what_is_the_same_in_everybody_explains_no_difference():
    images = Images()
    images.volumes[:, 8, 4, 3] = 30  # the same bright spot in all, where the score looks too
    both = Voxels()
    both.blob[8, 4, 3] = 1.0
    share = _maps(LinearScore(both, np.array([1.0, 0.0]), 0.0), images=images).share
    assert abs(share[8, 4, 3]) < 0.2 * share[PLACE]


def test_maps_depend_on_neither_batches_nor_repetition():
    first, again, batches = (_maps(batch_size=size).share for size in (16, 16, 3))
    np.testing.assert_array_equal(first, again)
    np.testing.assert_allclose(first, batches, rtol=1e-4, atol=1e-6)


def test_the_brain_is_found_on_any_background():
    voxels = Images()[0]["image"][0].numpy()
    background, brain = brain_of(voxels * 3 - 7)
    assert background == -7
    np.testing.assert_array_equal(brain, voxels > 0)
    assert brain_of(np.zeros(SHAPE, dtype=np.float32))[1].all()


@pytest.mark.parametrize(
    ("mean", "sd", "air"), [(0, 1, 0), (1, 0.01, 0.01)], ids=["z-scored inside", "noisy air"]
)
def test_fluid_darker_than_the_background_is_brain_and_noise_in_the_air_is_not(mean, sd, air):
    random = np.random.default_rng(0)
    inside = np.zeros(SHAPE, dtype=bool)
    inside[tuple(slice(n // 4, -(n // 4)) for n in SHAPE)] = True
    voxels = np.where(inside, random.normal(mean, sd, SHAPE), random.normal(0, air, SHAPE))
    background, brain = brain_of(voxels.astype(np.float32))
    assert background == pytest.approx(0, abs=0.05)
    np.testing.assert_array_equal(brain, inside)


def test_peaks_are_apart_and_sorted_by_size():
    values = np.zeros((20, 20, 20), dtype=np.float32)
    values[4, 4, 4] = 3
    values[5, 4, 4] = 2
    values[15, 10, 3] = -4
    assert find_peaks(values, distance=[3, 3, 3]) == [(15, 10, 3), (4, 4, 4)]
    assert find_peaks(np.zeros_like(values), distance=[3, 3, 3]) == []


def test_a_patch_smaller_than_a_voxel_is_refused():
    settings = ExplanationSettings(patch_mm=4.0)
    with pytest.raises(
        ConfigError, match=r"explanation\.patch_mm: a patch of 4 mm is smaller than a voxel of 5 mm"
    ):
        explain_scans(_score(), Images(), [0], settings=settings, spacing_mm=SPACING)


def test_scans_with_one_score_have_no_difference_to_explain():
    with pytest.raises(DataError, match="all chosen scans have the same score"):
        _maps(_score(0.0))


def test_a_score_that_is_not_finite_is_refused():
    with pytest.raises(DataError, match="scan 2 of those chosen"):
        _maps(images=Images(broken=[3]), rows=[0, 3])


@pytest.mark.parametrize(
    ("place", "name"),
    [
        ((-24, -22, -15), "left hippocampus"),
        ((24, -2, -18), "right amygdala"),
        ((11, -12, 6), "right thalamus"),
        ((0, -55, 30), "precuneus"),
        ((-15, -27, -33), "22 mm from left hippocampus"),
    ],
)
def test_a_place_has_the_name_of_the_nearest_region(place, name):
    assert name_of_place(*map(float, place)) == name
