"""What is fitted on a cohort: from which scans, in which order, and what is refused."""

from __future__ import annotations

import nibabel as nib
import numpy as np
import pytest

from neurocontrast.data import VolumeCache, fit_preprocessing
from neurocontrast.data.quality import inspect_scan
from neurocontrast.exceptions import DataError
from neurocontrast.transforms import Preprocessing, load_volume
from neurocontrast.transforms.intensity import landmark_percentiles

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
    assert fitted.is_fitted
    assert fit_preprocessing(fitted, ["absent.nii"]) is fitted


def test_the_same_scans_give_the_same_bits_in_any_order(write):
    paths = [write(f"s{i}", seed=i, shift=i % 3) for i in range(9)]
    asked = settings(normalise="histogram", erode_mm=8)
    assert fit_preprocessing(asked, paths[::-1]) == fit_preprocessing(asked, paths)


@pytest.mark.slow  # two processes start
def test_the_number_of_workers_changes_no_bit(write):
    paths = [write(f"s{i}", seed=i) for i in range(9)]
    asked = settings(normalise="histogram")
    assert fit_preprocessing(asked, paths, n_workers=2) == fit_preprocessing(asked, paths)


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
    asked = settings(normalise="histogram")
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
        ({"landmarks": [0.0, 1.0]}, "landmarks are 11 numbers"),
        ({"landmarks": [*np.linspace(1, 0, 11)]}, "do not fall"),
        ({"common_view": "cohort", "view": "eJw"}, "common_view is 'cohort', which .* no more from version 0.3"),
        ({"erode_mm": 2.0}, r"data.erode_mm must be 0 or at least the spacing \(8 mm\), got 2"),
        ({"percentiles": [20, 99]}, "percentiles.0: .*less than 10"),
    ],
)
def test_a_damaged_contract_is_refused(write, changed, words):
    fitted = fit_preprocessing(settings(normalise="histogram"), [write("s")])
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
    asked = settings(normalise="histogram")
    assert inspect_scan(write("s"), asked, deep=True).problem == ""
    assert "voxels of its brain" in inspect_scan(write("t", radius=2), asked, deep=True).problem
