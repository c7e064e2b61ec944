"""Trees of every layout around real brains are indexed, read and checked; trees of empty images are refused."""

import nibabel as nib
import numpy as np
import pytest

from neurocontrast import check, index
from neurocontrast.data import read_cohort
from neurocontrast.exceptions import DataError
from neurocontrast.transforms.loading import read_scan
from tests.trees import TIV_ML, WRITERS, people_of, write_empty_bids

EXPECTED = {
    "fmriprep": {"stage": "preprocessed", "space": "MNI152NLin2009cAsym", "maps": ("mask_path", "gm", "wm", "csf")},
    "cat12": {"stage": "preprocessed", "space": "MNI152NLin2009cAsym", "maps": ("gm", "wm"), "tiv": TIV_ML},
    "freesurfer": {"stage": "stripped", "space": "native", "maps": ("mask_path",), "tiv": TIV_ML},
    "caps": {"stage": "preprocessed", "space": "MNI152NLin2009cSym"},
    "openbhb": {"stage": "tissue", "space": "MNI152NLin2009aSym", "maps": ("gm",), "site": "7.1"},
    "brainprep": {"stage": "stripped", "space": "MNI152"},
    "ixi": {"stage": "raw", "space": "native", "site": "Hammersmith Hospital"},
}


@pytest.fixture(scope="module")
def people(shared_folder):
    return people_of(shared_folder / "data" / "brains", 2)


@pytest.mark.parametrize("layout", WRITERS)
def test_a_tree_of_real_brains_is_found_joined_and_read(layout, people, tmp_path):
    root = tmp_path / "tree"
    root.mkdir()
    WRITERS[layout](root, people)
    sheets = {"phenotypes": [root / "IXI.csv"]} if layout == "ixi" else {}
    found = index(root, tmp_path / "participants.tsv", check_headers=True, **sheets)
    assert found.index.layout == layout
    table = read_cohort(found.path).table
    assert list(table["age"]) == [float(person.age) for person in people]
    assert list(table["sex"]) == [person.sex for person in people]
    expected = dict(EXPECTED[layout])
    for name in expected.pop("maps", ()):
        assert all((tmp_path / path).is_file() for path in table[name])
    for name, value in expected.items():
        assert list(table[name]) == [value] * len(people), name
    assert check(found.path, n_workers=0).passed
    scan = read_scan(table["path"][0])
    brain = people[0].image.get_fdata()
    assert np.corrcoef(np.squeeze(np.asarray(scan.voxels)).ravel(), brain.ravel())[0, 1] > 0.999


@pytest.mark.parametrize(("n_sessions", "n_runs"), [(0, 0), (2, 0), (2, 2)])
def test_a_tree_of_empty_images_is_refused_with_all_of_them(tmp_path, n_sessions, n_runs):
    root = tmp_path / "ds001"
    images = write_empty_bids(root, 3, n_sessions=n_sessions, n_runs=n_runs)
    choose = ["run=all"] if n_runs else []
    with pytest.raises(DataError, match=rf"{len(images)} problems") as error:
        index(root, tmp_path / "participants.tsv", choose=choose)
    assert all(f"{image}: is empty (0 bytes)" in str(error.value) for image in images)
    with pytest.raises(DataError, match="no scan is left"):
        index(root, tmp_path / "participants.tsv", choose=choose, skip=True)
    assert [path.name for path in tmp_path.iterdir()] == ["ds001"]


def test_empty_images_beside_whole_ones_are_left_out_when_asked_for(tmp_path):
    images = write_empty_bids(tmp_path / "ds001", 3)
    voxels = np.random.default_rng(0).normal(size=(10, 10, 10)).astype(np.float32)
    nib.save(nib.Nifti1Image(voxels, np.eye(4)), tmp_path / "ds001" / images[1])
    found = index(tmp_path / "ds001", tmp_path / "participants.tsv", skip=True)
    assert list(found.index.table["participant_id"]) == ["sub-02"]
    assert len(found.index.left_out) == 2
