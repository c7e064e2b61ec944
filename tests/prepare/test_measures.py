"""Measures of a scan find what was planted in the template's brain."""

import nibabel as nib
import numpy as np
import pytest
from nilearn.datasets import load_mni152_brain_mask, load_mni152_template
from nilearn.image import resample_img
from scipy.ndimage import gaussian_filter

from neurocontrast.exceptions import DataError
from neurocontrast.prepare.measures import compare_with_others, measure_scan


@pytest.fixture(scope="module")
def template():
    image = load_mni152_template(resolution=2)
    mask = load_mni152_brain_mask(resolution=2).get_fdata() > 0
    return np.where(mask, image.get_fdata(dtype=np.float32), 0), image.affine


@pytest.fixture
def measure(tmp_path, template):
    def write(voxels, affine=template[1], **others):
        nib.save(nib.Nifti1Image(voxels.astype(np.float32), affine), tmp_path / "a.nii")
        return measure_scan(str(tmp_path / "a.nii"), **others)

    return write


def test_the_template_is_like_itself(measure, template):
    measured = measure(template[0])
    assert measured.thumbnail.startswith(b"\xff\xd8")
    assert len(measured.thumbnail) < 12_000
    found = measured.measures
    assert found["correlation"] > 0.999
    assert found["dice"] > 0.999
    assert found["shift_mm"] < 0.2
    assert found["flip_gain"] < -0.1
    assert found["flip"] == ""
    assert found["brain_ml"] == pytest.approx((template[0] > 0).sum() * 8 / 1000, rel=0.001)


@pytest.mark.parametrize("mm", [(10, 0, 0), (0, -10, 0), (3, 0, 8)])
def test_a_shift_is_found_in_mm_with_its_sign(measure, template, mm):
    found = measure(template[0], nib.affines.from_matvec(np.eye(3), mm) @ template[1]).measures
    assert [found[f"shift_{axis}_mm"] for axis in "xyz"] == pytest.approx(mm, abs=0.8)


@pytest.mark.parametrize(
    ("axes", "name"),
    [((1,), "front-back"), ((2,), "up-down"), ((1, 2), "front-back and up-down"), ((0,), "")],
)
def test_a_flip_is_named_but_left_and_right_cannot_be_told(measure, template, axes, name):
    found = measure(np.flip(template[0], axes)).measures
    assert found["flip"] == name
    assert (found["flip_gain"] > 0) == bool(name)
    assert found["correlation"] < 0.9 or not name


def test_measures_depend_little_on_grid_and_order_of_axes(tmp_path, measure, template):
    expected = measure(template[0]).measures
    image = nib.Nifti1Image(template[0], template[1])
    las = image.as_reoriented(np.array([[0, -1], [1, 1], [2, 1]]))
    assert measure(np.asarray(las.dataobj), las.affine).measures == expected
    coarse = resample_img(
        image, target_affine=np.diag([3.0, 3.0, 3.0]), copy_header=True, force_resample=True
    )
    other = measure(np.maximum(coarse.get_fdata(), 0), coarse.affine).measures
    for name in ("correlation", "dice"):
        assert other[name] == pytest.approx(expected[name], abs=0.05)
    box = np.zeros((91, 109, 91), np.float32)
    box[:] = image.get_fdata()[4:95, 4:113, :91]  # the box of MNI152 at 2 mm
    np.save(tmp_path / "a.npy", box)
    assert measure_scan(str(tmp_path / "a.npy")).measures["shift_mm"] < 1.1


def test_efc_is_that_of_mriqc(measure, template):
    image = template[0].astype(float)
    n = image.size
    top = np.sqrt((image**2).sum())
    most = n / np.sqrt(n) * np.log(1 / np.sqrt(n))
    expected = np.sum(image / top * np.log((image + 1e-16) / top)) / most
    assert measure(template[0]).measures["efc"] == pytest.approx(expected, abs=1e-4)


def test_cjv_is_that_of_the_maps_and_rises_with_noise_and_bias(tmp_path, measure, template):
    voxels, affine = template
    generator = np.random.default_rng(0)
    inside = voxels > 0
    grey = inside & (voxels < 0.75)
    white = inside & (voxels >= 0.75)
    image = np.where(grey, 100, 140) * inside + generator.normal(0, 5, voxels.shape) * inside
    for name, tissue in (("gm", grey), ("wm", white)):
        nib.save(nib.Nifti1Image(tissue.astype(np.float32), affine), tmp_path / f"{name}.nii")
    maps = {"grey_path": str(tmp_path / "gm.nii"), "white_path": str(tmp_path / "wm.nii")}
    assert measure(image, **maps).measures["cjv"] == pytest.approx((5 + 5) / 40, rel=0.05)
    ramp = 1 + 0.3 * np.linspace(-1, 1, voxels.shape[1])[:, None]
    noise = inside * np.abs(generator.normal(0, 0.15, voxels.shape))
    plain = measure(voxels).measures["cjv"]
    assert measure(voxels * ramp).measures["cjv"] > plain
    assert measure(voxels + noise).measures["cjv"] > plain


def test_a_mask_takes_the_place_of_what_is_bright(tmp_path, measure, template):
    head = template[0] + 0.3
    head[0] = 0
    assert measure(head).measures["brain_ml"] > 4000
    nib.save(
        nib.Nifti1Image((template[0] > 0).astype(np.uint8), template[1]), tmp_path / "mask.nii"
    )
    assert measure(head, mask_path=str(tmp_path / "mask.nii")).measures["dice"] > 0.999
    with pytest.raises(DataError, match="no such file"):
        measure(head, mask_path=str(tmp_path / "none.nii"))


def test_scans_are_compared_with_the_mean_of_the_others(measure, template):
    generator = np.random.default_rng(0)
    inside = template[0] > 0
    lopsided = gaussian_filter(generator.normal(size=inside.shape), 6) * inside
    own = [gaussian_filter(generator.normal(size=inside.shape), 4) for _ in range(5)]
    people = [template[0] + inside * (4 * lopsided + each) for each in own]
    people[1] = people[1][::-1]
    vectors = np.stack([measure(np.maximum(each, 0)).vector for each in people]).astype(float)
    scans, asymmetries = compare_with_others(vectors)
    for row in range(5):
        others = np.delete(vectors, row, axis=0).mean(axis=0)
        assert scans[row] == pytest.approx(np.corrcoef(vectors[row], others)[0, 1], abs=1e-3)
    assert list(asymmetries < -0.05) == [False, True, False, False, False]
    owners = np.array([0, 1, 2, 3, 3])
    of_people = compare_with_others(vectors, owners)[0]
    for row, owner in enumerate(owners):
        means = [vectors[owners == person].mean(axis=0) for person in range(4) if person != owner]
        expected = np.corrcoef(vectors[row], np.mean(means, axis=0))[0, 1]
        assert of_people[row] == pytest.approx(expected, abs=1e-3)
    often = compare_with_others(np.stack([*vectors, *[vectors[1]] * 6]), np.r_[:5, [1] * 6])
    np.testing.assert_allclose(often[1][:5], asymmetries, atol=1e-6)
    swapped = [
        measure(np.maximum(each[::-1] if row == 0 else each, 0)).vector
        for row, each in enumerate(people[:4])
    ]
    assert np.isnan(compare_with_others(np.stack(swapped))[1]).all()
