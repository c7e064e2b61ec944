import os

import nibabel as nib
import numpy as np
import pytest
import torch
from monai.data import MetaTensor
from monai.transforms import Compose, RandFlipd, ScaleIntensityd

from neurocontrast.exceptions import DataError
from neurocontrast.transforms.compose import brain_transforms, load_volume
from neurocontrast.transforms.grids import preprocessed_grid
from neurocontrast.transforms.images import apply, to_image
from neurocontrast.transforms.preprocessing import Preprocessing


def preprocess(voxels, spacing, contract, name="scan"):
    """Preprocess voxels in RAS order that are in memory."""
    image = to_image(np.array(voxels, dtype=np.float32)[np.newaxis], np.diag([*spacing, 1.0]), name=name)
    return apply(contract.compose(), {"image": image}, start=1)["image"].numpy()


def keeping(shape, spacing=None, normalise="none"):
    return Preprocessing(spacing_mm=spacing, shape=shape, normalise=normalise)


@pytest.mark.parametrize("axes", ["RAS", "LAS", "PIR", "ILA"])
def test_a_marked_corner_lands_where_it_must(write_nifti, axes):
    voxels = np.zeros((16, 18, 20), dtype=np.float32)
    voxels[8, 9, 10] = 1
    voxels[-1, -1, 0] = 5  # right, front, bottom
    volume = load_volume(write_nifti(voxels, axes=axes), keeping((16, 18, 20)))
    assert volume.shape == (1, 16, 18, 20)
    assert volume[0, -1, -1, 0] == 5
    assert np.count_nonzero(volume) == 2


@pytest.mark.parametrize("axes", ["RAS", "LPS", "SAR"])
@pytest.mark.parametrize(("spacing", "shape"), [(2.0, (24, 28, 20)), (1.5, (30, 36, 27)), (3.0, (16, 18, 14))])
def test_the_orientation_of_the_file_changes_nothing(brain, write_nifti, axes, spacing, shape):
    contract = Preprocessing(spacing_mm=spacing, shape=shape)
    straight = load_volume(write_nifti(brain, "straight.nii.gz"), contract)
    turned = load_volume(write_nifti(brain, "turned.nii.gz", axes=axes), contract)
    np.testing.assert_allclose(turned, straight, atol=1e-5)
    assert turned.dtype == np.float32
    assert turned.flags.c_contiguous


def test_padding_continues_the_background(brain):
    volume = preprocess(brain - 7, (2.0, 2.0, 2.0), keeping((30, 30, 30)))
    assert volume[0, 0, 0, 0] == -7
    resampled = preprocess(brain - 7, (2.0, 2.0, 2.0), keeping((40, 40, 40), spacing=1.5))
    assert resampled[0, 0, 0, 0] == -7


def test_scans_that_do_not_fit_are_refused_by_name(brain, write_nifti):
    path = write_nifti(brain)
    with pytest.raises(DataError, match=r"scan.nii.gz.*less than 50% of the box would be filled"):
        load_volume(path, Preprocessing(spacing_mm=2, shape=(60, 60, 60)))
    with pytest.raises(DataError, match=r"scan.nii.gz.*would be cropped away, at most 10% of a brain may"):
        load_volume(path, Preprocessing(spacing_mm=2, shape=(12, 12, 12)))
    with pytest.raises(DataError, match="at most 20% of a head may"):
        preprocess(brain + 1, (2.0, 2.0, 2.0), Preprocessing(spacing_mm=2, shape=(12, 12, 12)))
    hollow = np.zeros((40, 40, 40), dtype=np.float32)
    hollow[::39, ::39, ::39] = np.linspace(1, 2, 8).reshape(2, 2, 2)
    hollow[20, 20, 20] = 0.0
    with pytest.raises(DataError, match="cropped away"):
        preprocess(hollow, (1.0, 1.0, 1.0), Preprocessing(spacing_mm=1, shape=(30, 30, 30)))


def test_native_scans_fit_the_reference_box(shared_folder):
    scans = sorted((shared_folder / "data" / "native").glob("*.nii.gz"))
    assert len(scans) == 4
    for path in scans:
        volume = load_volume(os.fspath(path), Preprocessing(spacing_mm=3.0, shape=(61, 73, 61)))
        assert np.isfinite(volume).all()
        with pytest.raises(DataError, match="cropped away"):
            load_volume(path, Preprocessing(spacing_mm=1.0, shape=(91, 109, 91)))


def test_an_item_keeps_its_metadata_and_goes_on_through_monais_transforms(brain, write_nifti):
    path = write_nifti(brain, axes="LPS")
    chain = Compose(
        [
            brain_transforms(spacing_mm=2.5, shape=(20, 22, 16), normalise="zscore-brain", erode_mm=3.0),
            RandFlipd("image", prob=1.0, spatial_axis=0),
            ScaleIntensityd("image"),
        ]
    )
    item = chain({"image": path, "age": 34.2, "sex": "F"})
    assert list(item) == ["image", "age", "sex"]  # the mask that is made on the way is gone
    assert isinstance(item["image"], MetaTensor)
    assert item["image"].shape == (1, 20, 22, 16)
    assert item["image"].dtype == torch.float32
    assert item["image"].meta["filename_or_obj"] == str(path)
    with pytest.raises(DataError, match="no such file"):
        apply(chain, {"image": path.with_name("absent.nii.gz")})


@pytest.mark.parametrize("axes", ["RAS", "LPI", "SAR"])
@pytest.mark.parametrize(
    ("spacing", "shape"), [(2.0, (24, 28, 20)), (2.0, (21, 31, 20)), (1.7, (29, 33, 24)), (None, (25, 27, 19))]
)
def test_the_affine_finds_a_landmark_where_nibabel_does(write_nifti, axes, spacing, shape):
    spot = np.array([14, 9, 12])
    grid = np.stack(np.meshgrid(*map(np.arange, (24, 28, 20)), indexing="ij"), axis=-1)
    ball = (((grid - 10) / 12) ** 2).sum(axis=-1) < 1
    path = write_nifti(ball + 50 * np.exp(-((grid - spot) ** 2).sum(axis=-1) / 4), axes=axes)
    image = brain_transforms(spacing_mm=spacing, shape=shape, normalise="none")({"image": path})["image"]
    stored = nib.load(path)
    there = nib.affines.apply_affine(stored.affine, np.unravel_index(stored.get_fdata().argmax(), stored.shape))
    voxels, affine = image.numpy()[0], image.affine.numpy()
    here = nib.affines.apply_affine(affine, np.unravel_index(voxels.argmax(), voxels.shape))
    np.testing.assert_allclose(here, there, atol=0.51 * (spacing or 2.0))
    assert nib.aff2axcodes(affine) == ("R", "A", "S")
    np.testing.assert_allclose(affine, preprocessed_grid(path, keeping(shape, spacing)).affine)


def test_wrong_settings_of_brain_transforms_are_named():
    with pytest.raises(DataError, match=r"brain_transforms: spacing_mm: .*greater than or equal to 0\.1, found 0"):
        brain_transforms(spacing_mm=0)
    with pytest.raises(DataError, match=r"spacing: unknown key\. Did you mean 'spacing_mm'"):
        brain_transforms(spacing=2)
    with pytest.raises(DataError, match=r"normalise: must be 'zscore'.*found 'histogram'"):
        brain_transforms(normalise="histogram")
    with pytest.raises(DataError, match="a preprocessing or settings, not both; got shape too"):
        brain_transforms(Preprocessing(), shape=(20, 20, 20))
