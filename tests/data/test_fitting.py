"""What is fitted on a cohort: from which scans, in which order, and what is refused."""

from __future__ import annotations

import nibabel as nib
import numpy as np
import pytest

from neurocontrast.data import VolumeCache, fit_preprocessing
from neurocontrast.data.fitting import template_on_grid
from neurocontrast.data.quality import inspect_scan
from neurocontrast.exceptions import DataError
from neurocontrast.transforms import Preprocessing, load_volume
from neurocontrast.transforms.intensity import landmark_percentiles
from neurocontrast.transforms.preprocessing import pack, unpack

SHAPE = (24, 28, 24)
MNI = np.array([[8.0, 0, 0, -92], [0, 8, 0, -126], [0, 0, 8, -74], [0, 0, 0, 1]])
"""A grid of 8 mm with its centre at (0, -18, 18)."""


@pytest.fixture
def write(tmp_path):
    """Write a ball of noise with fluid around it, shifted along the second axis; its affine is that of MNI152."""

    def write(name, *, seed=0, shift=0, radius=9.0, gain=1.0, affine=MNI):
        generator = np.random.default_rng(seed)
        grid = np.indices(SHAPE) - (np.array(SHAPE)[:, None, None, None] - 1) / 2
        grid[1] -= shift
        distance = np.sqrt((grid**2).sum(axis=0))
        voxels = np.where(distance < radius, gain * (100 + 10 * (distance < 6) + generator.gamma(3, 9, SHAPE)), 0)
        path = tmp_path / f"{name}.nii.gz"
        image = nib.Nifti1Image(voxels.astype(np.float32), affine)
        image.set_sform(affine, 4)
        nib.save(image, path)
        return str(path)

    return write


def settings(**keys):
    return Preprocessing(**{"spacing_mm": 8.0, "shape": SHAPE, "normalise": "none"} | keys)


def test_landmarks_are_the_mean_of_the_scans_they_are_fitted_on(write):
    paths = [write(f"s{i}", seed=i, gain=1 + i) for i in range(5)]
    fitted = fit_preprocessing(settings(normalise="histogram"), paths[:4], others=paths[4:])
    scaled = []
    for path in paths[:4]:
        voxels = nib.load(path).get_fdata()
        found = np.percentile(voxels[voxels > 0], landmark_percentiles((1, 99)))
        scaled.append((found - found[0]) / (found[-1] - found[0]))
    np.testing.assert_allclose(fitted.landmarks, np.mean(scaled, axis=0), atol=1e-6)
    assert fitted.unfitted == ()
    assert fit_preprocessing(fitted, ["absent.nii"]) is fitted


def test_the_same_scans_give_the_same_bits_in_any_order(write):
    paths = [write(f"s{i}", seed=i, shift=i % 3) for i in range(9)]
    sites = ["a", "b", None] * 3
    asked = settings(normalise="histogram", common_view="cohort", erode_mm=8)
    fitted = fit_preprocessing(asked, paths, sites=sites)
    assert fit_preprocessing(asked, paths[::-1], sites=sites[::-1]) == fitted


@pytest.mark.slow  # two processes start
def test_the_number_of_workers_changes_no_bit(write):
    paths = [write(f"s{i}", seed=i) for i in range(9)]
    asked = settings(normalise="histogram")
    assert fit_preprocessing(asked, paths, n_workers=2) == fit_preprocessing(asked, paths)


def test_the_common_view_is_brain_in_enough_scans_of_every_site(write):
    paths = [
        write(f"s{i}", seed=i, shift=[0, 0, 0, 0.4, 0.3, 0.6][i], radius=[9, 8.9, 8.8, 8.7, 8.8, 9][i])
        for i in range(6)
    ]
    sites = ["a"] * 4 + ["b"] * 2
    brains = np.array([nib.load(path).get_fdata() > 0 for path in paths])
    for fraction, n_a, n_b in ((0.75, 3, 2), (1.0, 4, 2), (0.5, 2, 1)):
        fitted = fit_preprocessing(settings(common_view="cohort", common_fraction=fraction), paths, sites=sites)
        expected = (brains[:4].sum(axis=0) >= n_a) & (brains[4:].sum(axis=0) >= n_b)
        np.testing.assert_array_equal(unpack(fitted.view, SHAPE), expected)
        for path in paths:
            volume = load_volume(path, fitted)[0]
            np.testing.assert_array_equal(volume, np.where(expected, nib.load(path).get_fdata(dtype=np.float32), 0))


def test_landmarks_are_fitted_inside_the_view(write):
    paths = [write(f"s{i}", seed=i) for i in range(3)]
    view = np.zeros(SHAPE, bool)
    view[5:19, 7:21, 7:17] = nib.load(paths[0]).get_fdata()[5:19, 7:21, 7:17] > 0
    fitted = fit_preprocessing(settings(normalise="histogram", common_view="cohort", view=pack(view)), paths)
    whole = fit_preprocessing(settings(normalise="histogram"), paths)
    assert fitted.landmarks != whole.landmarks
    normalised = np.concatenate([load_volume(path, fitted)[0][view] for path in paths])
    np.testing.assert_allclose(np.percentile(normalised, landmark_percentiles((1, 99))), fitted.landmarks, atol=0.01)


def test_the_template_is_where_the_headers_say(write, tmp_path):
    from nilearn.datasets import load_mni152_brain_mask

    path = write("s")
    view = template_on_grid([path], settings(common_view="template"))
    template = load_mni152_brain_mask(resolution=2)
    litres = float(template.get_fdata().sum()) * 8 / 1e6
    assert view.sum() * 8**3 / 1e6 == pytest.approx(litres, rel=0.03)
    centre = nib.affines.apply_affine(MNI, np.argwhere(view)).mean(axis=0)
    expected = nib.affines.apply_affine(template.affine, np.argwhere(template.get_fdata() > 0)).mean(axis=0)
    np.testing.assert_allclose(centre, expected, atol=1.5)
    np.save(tmp_path / "a.npy", nib.load(path).get_fdata(dtype=np.float32))
    array = template_on_grid([str(tmp_path / "a.npy")], settings(common_view="template"))
    np.testing.assert_array_equal(array, view)  # the centre of the usual boxes is the centre of this one


def test_scans_that_are_not_registered_are_refused_all_at_once(write):
    away = MNI.copy()
    away[1, 3] += 40
    paths = [write("a"), write("b", seed=1), write("c", affine=away), write("d", affine=away), write("e", seed=2)]
    with pytest.raises(DataError, match=r"2 problems\n.*c\.nii\.gz: its header puts it 40 mm.*\n.*d\.nii\.gz") as told:
        fit_preprocessing(settings(common_view="template"), paths)
    assert "Register all scans to MNI152" in str(told.value)
    nowhere = MNI.copy()
    nowhere[2, 3] += 500
    lost = write("f", affine=nowhere)
    with pytest.raises(DataError, match="where the MNI152 template has no brain"):
        fit_preprocessing(settings(common_view="template"), [lost])
    mean = fit_preprocessing(settings(common_view="cohort"), paths[:2])
    with pytest.raises(DataError, match=r"z\.nii\.gz: its brain fills \d+% of the common view .* at least 90%"):
        load_volume(write("z", shift=4), mean)
    far = [write("n", shift=-7, radius=6), write("s", shift=7, radius=6)]
    with pytest.raises(DataError, match=r"0% of the mean brain.*within one site: north 100%, south 100%"):
        fit_preprocessing(settings(common_view="cohort"), far, sites=["north", "south"])


def test_all_bad_scans_are_named_even_those_that_nothing_is_fitted_on(write, tmp_path):
    good = [write(f"s{i}", seed=i) for i in range(3)]
    empty = write("small", radius=2)
    (tmp_path / "broken.nii.gz").write_bytes(b"")
    with pytest.raises(DataError, match="2 problems") as told:
        fit_preprocessing(
            settings(normalise="histogram"), [*good, empty], others=[str(tmp_path / "broken.nii.gz")], n_workers=0
        )
    assert "small.nii.gz" in str(told.value)
    assert "broken.nii.gz" in str(told.value)
    with pytest.raises(DataError, match="at least one scan"):
        fit_preprocessing(settings(normalise="histogram"), [])


def test_what_is_fitted_makes_another_place_in_the_cache_and_goes_round(write, tmp_path):
    paths = [write(f"s{i}", seed=i) for i in range(3)]
    asked = settings(normalise="histogram", common_view="cohort")
    one, other = fit_preprocessing(asked, paths[:2]), fit_preprocessing(asked, paths)
    folders = {VolumeCache(tmp_path, each).folder for each in (asked, one, other)}
    assert len(folders) == 3
    for each in (asked, one, settings(erode_mm=8), settings(normalise="percentile", percentiles=(0, 100))):
        assert Preprocessing.from_contract(each.contract()) == each
    read = VolumeCache(tmp_path, one, dtype="float32").read(paths[2])
    np.testing.assert_array_equal(read, load_volume(paths[2], Preprocessing.from_contract(one.contract())))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"view": "AAAA"}, "view must hold a mask"),
        ({"landmarks": [0.0, 1.0]}, "landmarks are 11 numbers"),
        ({"landmarks": [*np.linspace(1, 0, 11)]}, "do not fall"),
        ({"common_view": "none"}, "view belongs to common_view"),
        ({"erode_mm": 2.0}, r"data.erode_mm must be 0 or at least the spacing \(8 mm\), got 2"),
        ({"percentiles": [20, 99]}, "percentiles.0: .*less than 10"),
    ],
)
def test_a_damaged_contract_is_refused(write, changed, words):
    fitted = fit_preprocessing(settings(normalise="histogram", common_view="cohort"), [write("s")])
    with pytest.raises(DataError, match=words):
        Preprocessing.from_contract(fitted.contract() | changed)


def test_what_is_off_leaves_contracts_as_they_were():
    assert Preprocessing().contract() == {
        "transform_version": 1,
        "spacing_mm": 1.5,
        "shape": [121, 145, 121],
        "normalise": "zscore",
        "orientation": "RAS",
    }
    # Of an installation before there was anything to fit: its cache is found again.
    assert Preprocessing().digest() == "df60c0f5378511d908490fae5f1c36ba"


def test_scans_are_looked_at_before_anything_is_fitted(write):
    asked = settings(normalise="histogram", common_view="cohort")
    assert inspect_scan(write("s"), asked, deep=True).problem == ""
    assert "voxels of its brain" in inspect_scan(write("t", radius=2), asked, deep=True).problem
