"""Each normalisation against a plain form of its definition, and what it is to be blind to."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from neurocontrast.data import fit_preprocessing
from neurocontrast.exceptions import DataError
from neurocontrast.transforms import Preprocessing, load_volume
from neurocontrast.transforms.brain import erode, fill_largest
from neurocontrast.transforms.images import apply, to_image
from neurocontrast.transforms.intensity import find_landmarks, map_landmarks, standard_landmarks, white_matter_peak

SHAPE = (40, 44, 40)
STANDARD = (0.0, 0.1, 0.15, 0.3, 0.4, 0.5, 0.62, 0.7, 0.8, 0.95, 1.0)


def head(seed=0, *, white=200.0, grey=140.0, fluid=40.0, noise=8.0):
    """A ball of grey matter around one of white, with fluid at the edge, 4 mm: sizes as in a brain."""
    generator = np.random.default_rng(seed)
    grid = np.indices(SHAPE) - (np.array(SHAPE)[:, None, None, None] - 1) / 2
    radius = np.sqrt((grid**2).sum(axis=0)) * 4
    voxels = np.select([radius < 48, radius < 66, radius < 70], [white, grey, fluid], 0.0)
    return np.where(voxels > 0, np.clip(voxels + generator.normal(0, noise, SHAPE), 1, None), 0).astype(np.float32)


def settings(**keys):
    return Preprocessing(**{"spacing_mm": 4.0, "shape": SHAPE} | keys)


def done(voxels, contract):
    image = to_image(voxels[np.newaxis].astype(np.float32), np.diag([4.0, 4.0, 4.0, 1.0]), name="x.nii")
    return apply(contract.compose(), {"image": image}, start=1)["image"].numpy()[0]


CHOICES = {
    "percentile": settings(normalise="percentile", percentiles=(2, 98)),
    "white-matter": settings(normalise="white-matter"),
    "histogram": settings(normalise="histogram", landmarks=STANDARD),
}


def test_percentiles_of_the_brain_become_0_and_1():
    voxels = head()
    low, high = np.percentile(voxels[voxels > 0], [2, 98])
    expected = np.where(voxels > 0, np.clip((voxels - low) / (high - low), 0, 1), 0)
    np.testing.assert_allclose(done(voxels, CHOICES["percentile"]), expected, atol=1e-6)


def test_the_peak_of_white_matter_becomes_1():
    voxels = head(white=187.0)
    normalised = done(voxels, CHOICES["white-matter"])
    scale = (voxels[voxels > 0] / normalised[voxels > 0]).mean()
    assert scale == pytest.approx(187.0, abs=2.0)
    np.testing.assert_allclose(normalised, voxels / scale, atol=1e-5)
    # Grey matter has more voxels, and the highest peak of the whole brain.
    assert (normalised > 0.9).sum() < (np.abs(normalised - 140 / 187) < 0.1).sum()


def test_the_peak_is_that_of_scipys_kernel_density():
    generator = np.random.default_rng(1)
    deep = np.concatenate([generator.normal(100, 9, 3000), generator.normal(160, 6, 5000)]).astype(np.float32)
    spread = min(deep.std(), np.subtract(*np.percentile(deep, [75, 25])) / 1.349)
    width = 2 * 0.9 * spread * deep.size**-0.2
    density = scipy.stats.gaussian_kde(deep, width / deep.std(ddof=1))
    fine = np.linspace(130, 190, 3001)
    assert white_matter_peak(deep) == pytest.approx(fine[density(fine).argmax()], abs=0.15)
    assert white_matter_peak(np.full(500, 7.0)) is None


def test_histograms_meet_at_their_landmarks():
    voxels = head()
    inside = voxels[voxels > 0]
    percentiles = [1, *range(10, 100, 10), 99]
    expected = np.where(voxels > 0, np.interp(voxels, np.percentile(inside, percentiles), STANDARD), 0)
    np.testing.assert_allclose(done(voxels, CHOICES["histogram"]), expected, atol=1e-5)
    normalised = done(voxels, CHOICES["histogram"])[voxels > 0]
    np.testing.assert_allclose(np.percentile(normalised, percentiles), STANDARD, atol=2e-3)


@pytest.mark.parametrize("choice", ["percentile", "histogram"])
def test_an_affine_change_of_intensities_changes_nothing(choice):
    voxels = head()
    changed = np.where(voxels > 0, 3.7 * voxels + 55, 0)
    np.testing.assert_allclose(done(changed, CHOICES[choice]), done(voxels, CHOICES[choice]), atol=1e-5)


@pytest.mark.parametrize("choice", list(CHOICES))
@pytest.mark.parametrize("gain", [1e-6, 0.01, 37.0, 1e6])
def test_a_gain_changes_nothing(choice, gain):
    np.testing.assert_allclose(done(head() * gain, CHOICES[choice]), done(head(), CHOICES[choice]), atol=2e-5)


def test_a_monotone_change_in_pieces_between_landmarks_is_undone_by_the_histogram():
    voxels = head()
    inside = voxels > 0
    places = np.percentile(voxels[inside], [1, *range(10, 100, 10), 99]).astype(float)
    places = np.array([0.0, *places, 1000.0])
    targets = np.cumsum(np.random.default_rng(5).uniform(5, 60, len(places)))
    changed = np.where(inside, np.interp(voxels, places, targets), 0)
    np.testing.assert_allclose(done(changed, CHOICES["histogram"]), done(voxels, CHOICES["histogram"]), atol=2e-3)
    assert np.abs(done(changed, CHOICES["percentile"]) - done(voxels, CHOICES["percentile"])).max() > 0.1


def test_landmarks_that_coincide_take_the_mean_of_theirs():
    found = np.array([0.0, 1.0, 1.0, 1.0, 2.0])
    mapped = map_landmarks(np.array([1.0, 0.5, 3.0], np.float32), found, [0.0, 0.2, 0.4, 0.6, 1.0])
    np.testing.assert_allclose(mapped, [0.4, 0.2, 1.0])


def test_standard_landmarks_are_the_mean_of_those_of_scans_in_any_order():
    generator = np.random.default_rng(2)
    scans = [np.sort(generator.uniform(0, 900, 11)) for _ in range(7)]
    expected = np.mean([(each - each[0]) / (each[-1] - each[0]) for each in scans], axis=0)
    np.testing.assert_allclose(standard_landmarks(scans), expected)
    assert standard_landmarks(scans) == standard_landmarks(scans[::-1])
    assert find_landmarks(np.full(600, 3.0, np.float32), (1, 99)) is None


@pytest.mark.parametrize("choice", list(CHOICES))
def test_what_is_not_brain_is_0_and_changes_nothing(choice):
    voxels = head()
    speckled = voxels.copy()
    speckled[1, 1, 1:5] = 5000
    np.testing.assert_array_equal(done(speckled, CHOICES[choice]), done(voxels, CHOICES[choice]))
    assert done(voxels, CHOICES[choice])[voxels == 0].max() == 0


@pytest.mark.parametrize("normalise", ["zscore", "zscore-brain", "none", *CHOICES])
def test_erosion_takes_the_edge_before_intensities_are_looked_at(normalise):
    fitted = {"landmarks": STANDARD} if normalise == "histogram" else {}
    voxels = head()
    inside = erode(fill_largest(voxels != 0), 8.0, (4.0, 4.0, 4.0))
    assert 0 < inside.sum() < (voxels > 0).sum()
    expected = done(np.where(inside, voxels, 0), settings(normalise=normalise, **fitted))
    np.testing.assert_array_equal(done(voxels, settings(normalise=normalise, erode_mm=8, **fitted)), expected)


def refused(voxels, contract, words):
    with pytest.raises(DataError, match=words):
        done(voxels, contract)


def test_scans_that_have_no_such_brain_are_refused_by_name():
    whole = head() + 1
    for contract in (*CHOICES.values(), settings(erode_mm=4)):
        refused(whole, contract, r"x\.nii: 4\.5 litres of it are not 0.*strip the skulls")
    tiny = np.zeros(SHAPE)
    tiny[18:22, 18:22, 18:22] = np.random.default_rng(0).uniform(1, 2, (4, 4, 4))
    refused(tiny, CHOICES["percentile"], "x.nii: 64 voxels of its brain .* at least 500 are needed")
    small = np.where(erode(fill_largest(head() != 0), 32.0, (4.0, 4.0, 4.0)), head(), 0)
    refused(small, settings(erode_mm=30), r"voxels of its brain .* before data.erode_mm: 30")
    refused(head(), settings(spacing_mm=None, erode_mm=3), r"x\.nii: data\.erode_mm must be .* spacing \(4 mm\), got 3")
    flat = np.where(head() > 0, 3, 0)
    flat[20, 20, 20] = 4
    for choice in ("percentile", "histogram"):
        refused(flat, CHOICES[choice], "nothing varies")


def test_white_matter_that_is_not_there_is_refused_by_name():
    no_peak = "no peak of white matter to scale by: the histogram of the .* voxels deep in the brain has no peak"
    refused(np.where(head() > 0, 7, 0), CHOICES["white-matter"], no_peak)
    refused(head(white=100, fluid=250), CHOICES["white-matter"], "at 1[34].*, is not 1.03 times the brain's median")
    refused(np.where(head() > 0, head() - 150, 0), CHOICES["white-matter"], "of the brain is below 0")
    slab = np.where(abs(np.arange(SHAPE[2]) - 19.5) < 1, head(), 0)
    refused(slab, CHOICES["white-matter"], "voxels lie deep in the brain, and at least 100 are needed")


def test_white_matter_lies_at_one_place_at_three_sites_of_real_brains(shared_folder):
    """Its median, by the template's map of white matter, is within 6 % of 1."""
    from nilearn.datasets import load_mni152_wm_template
    from nilearn.image import resample_img

    from neurocontrast.transforms.grids import preprocessed_grid

    contract = Preprocessing(spacing_mm=4.0, shape=(48, 56, 48), normalise="white-matter")
    images = shared_folder / "data" / "brains" / "images"
    names = ["IXI014HH1236", "IXI048HH1326", "ds002748x01", "ds002748x30", "ds000011x01", "ds000011x05"]
    paths = [path for name in names for path in images.glob(f"sub-{name}*_T1w.nii.gz")]
    assert len(paths) >= 5
    placed = resample_img(
        load_mni152_wm_template(), preprocessed_grid(paths[0], contract).affine, contract.shape,
        force_resample=True, copy_header=True,
    )  # fmt: skip
    white = placed.get_fdata() > 0.95
    medians = [np.median(load_volume(path, contract)[0][white]) for path in paths]
    np.testing.assert_allclose(medians, 1, atol=0.06)


def test_heads_of_real_scans_are_refused_and_brains_are_not(shared_folder):
    contract = Preprocessing(spacing_mm=4.0, shape=(48, 56, 48), normalise="white-matter")
    native = shared_folder / "data" / "native"
    for path in native.glob("*ds000011*"):
        with pytest.raises(DataError, match=r"8\.\d litres of it are not 0"):
            load_volume(path, contract)
    for path in native.glob("*ds002748*"):
        assert 0.9 < np.percentile(load_volume(path, contract), 99) < 1.5


def test_nothing_is_done_with_what_is_not_fitted():
    with pytest.raises(DataError, match="no landmarks yet, which `pretrain` fits"):
        done(head(), settings(normalise="histogram"))
    fitted = settings(normalise="histogram", landmarks=STANDARD)
    assert fit_preprocessing(fitted, []) is fitted


def test_landmarks_of_a_scan_do_not_depend_on_its_scale():
    found = np.sort(np.random.default_rng(0).uniform(0, 5, 11))
    once = standard_landmarks([found])
    assert once[0] == 0
    assert once[-1] == 1
    assert standard_landmarks([found, 100 * found + 7]) == pytest.approx(once)
