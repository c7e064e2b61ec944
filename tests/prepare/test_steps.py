"""Each step of preparation finds what was planted."""

import nibabel as nib
import numpy as np
import pytest

pytest.importorskip("SimpleITK")

from nilearn.datasets import load_mni152_brain_mask, load_mni152_template

from neurocontrast.exceptions import MissingDependencyError
from neurocontrast.prepare import extraction
from neurocontrast.prepare.extraction import extract_brain, is_stripped
from neurocontrast.prepare.registration import (
    correct_bias,
    register_to_mni,
    resample_to_grid,
    template_mask,
)
from neurocontrast.prepare.tissue import segment_tissue, tissue_priors
from neurocontrast.transforms.preprocessing import mni_grid


def dice(one, other):
    return 2 * (one & other).sum() / (one.sum() + other.sum())


def rotation(degrees, axis=0):
    turn = np.radians(degrees)
    matrix = np.eye(4)
    others = [each for each in range(3) if each != axis]
    matrix[np.ix_(others, others)] = [[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]]
    return matrix


@pytest.fixture(scope="module")
def template():
    image = load_mni152_template(resolution=4)
    mask = load_mni152_brain_mask(resolution=4).get_fdata() > 0
    return np.where(mask, image.get_fdata(dtype=np.float32), 0), mask, image.affine


@pytest.mark.parametrize(
    ("degrees", "shift"),
    [(20, (30, 0, 0)), pytest.param(-20, (0, -30, 30), marks=pytest.mark.slow)],
)
def test_a_disturbed_brain_is_brought_back(template, degrees, shift):
    voxels, mask, affine = template
    disturbance = rotation(degrees)
    disturbance[:3, 3] = shift
    found = register_to_mni(voxels, mask, disturbance @ affine)
    points = np.argwhere(mask) @ affine[:3, :3].T + affine[:3, 3]
    moved = points @ found.matrix[:3, :3].T + found.matrix[:3, 3]
    expected = points @ disturbance[:3, :3].T + disturbance[:3, 3]
    assert np.linalg.norm(moved - expected, axis=1).mean() < 1
    assert np.allclose(found.scales(), 1, atol=0.02)
    again = register_to_mni(voxels, mask, disturbance @ affine)
    assert np.array_equal(found.matrix, again.matrix)


def test_resampling_to_the_grid_is_one_map(template):
    voxels, mask, affine = template
    found = register_to_mni(voxels, mask, affine)
    grid, shape = mni_grid(4.0)
    assert shape == (46, 55, 46)
    assert mni_grid(1.5)[1] == (121, 145, 121)
    resampled = resample_to_grid(mask, affine, found, grid, shape) > 0.5
    assert dice(resampled, template_mask(grid, shape)) > 0.95


@pytest.mark.slow
def test_a_planted_bias_field_is_corrected(template):
    voxels, mask, affine = template
    ramp = 1 + 0.4 * np.linspace(-1, 1, voxels.shape[1], dtype=np.float32)[None, :, None]
    before = voxels * ramp
    after = correct_bias(voxels * ramp, mask, affine)
    place = np.broadcast_to(ramp, voxels.shape)[mask]
    slope = [np.polyfit(place, each[mask] / voxels[mask], 1)[0] for each in (before, after)]
    assert abs(slope[1]) < 0.3 * slope[0]


def test_planted_tissues_are_found_under_noise_and_bias():
    grid, shape = mni_grid(4.0)
    priors = tissue_priors(grid, shape)
    mask = priors[1:].sum(axis=0) > 0.6
    generator = np.random.default_rng(0)
    truth = priors.argmax(axis=0)
    voxels = np.array([0.35, 1.0, 1.35])[truth] + generator.normal(0, 0.08, shape)
    voxels *= 1 + 0.2 * np.linspace(-1, 1, shape[0])[:, None, None]
    maps = segment_tissue((100 * voxels * mask).astype(np.float32), mask, priors)
    found = np.stack([maps.fluid, maps.grey, maps.white]).argmax(axis=0)
    assert [dice((found == k) & mask, (truth == k) & mask) > 0.9 for k in (1, 2)] == [True, True]
    total = maps.grey + maps.white + maps.fluid
    assert np.allclose(total[mask], 1, atol=1e-5)
    assert not total[~mask].any()
    assert maps.means[0] < maps.means[1] < maps.means[2]


def test_weights_of_another_content_are_refused(tmp_path, monkeypatch):
    (tmp_path / "model.pt").write_bytes(b"something else")

    class File:
        name = "model.pt"

        def locate(self):
            return tmp_path / "model.pt"

    monkeypatch.setattr(extraction.metadata, "files", lambda _: [File()])
    extraction._network.cache_clear()
    with pytest.raises(MissingDependencyError, match=r"not those of deepbet 1.0.2"):
        extraction._network("model.pt")
    extraction._network.cache_clear()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sub-ds000011x01", "sub-ds000011x02"])
def test_the_brain_of_a_real_head_is_that_of_the_prepared_one(name, shared_folder):
    pytest.importorskip("deepbet")
    data = shared_folder / "data"
    image = nib.as_closest_canonical(nib.load(data / "native" / f"{name}_T1w.nii.gz"))
    voxels = image.get_fdata(dtype=np.float32)
    assert not is_stripped(voxels)
    mask = extract_brain(voxels)
    prepared = nib.as_closest_canonical(
        nib.load(next((data / "brains" / "images").glob(f"{name}*")))
    )
    corrected = correct_bias(voxels, mask, image.affine)
    found = register_to_mni(corrected, mask, image.affine)
    ours = resample_to_grid(mask, image.affine, found, prepared.affine, prepared.shape) > 0.5
    assert dice(ours, prepared.get_fdata() > 0) > 0.94
