"""The loader, alone and among MONAI's own transforms."""

import nibabel as nib
import numpy as np
import pytest
from monai.data import MetaTensor
from monai.transforms import LoadImaged

from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.transforms import LoadScand


def test_the_loader_gives_what_monais_gives_and_keeps_the_rest_of_the_item(brain, write_nifti):
    path = write_nifti(brain, axes="LSP", spacing=(2.0, 1.5, 1.0))
    item = LoadScand("image")({"image": path, "age": 34.2})
    monai = LoadImaged("image", ensure_channel_first=True)({"image": path})["image"]
    np.testing.assert_array_equal(item["image"], monai)
    np.testing.assert_array_equal(item["image"].affine, monai.affine)
    assert isinstance(item["image"], MetaTensor)
    assert item["image"].meta["filename_or_obj"] == str(path)
    assert item["age"] == 34.2


def test_missing_keys_and_wrong_settings(brain, write_nifti):
    path = write_nifti(brain)
    with pytest.raises(KeyError, match="scan"):
        LoadScand("scan")({"image": path})
    assert LoadScand("scan", allow_missing_keys=True)({"image": path}) == {"image": path}
    with pytest.raises(ConfigError, match=r"spacing_mm must be between 0\.1 and 20, got 0"):
        LoadScand("image", spacing_mm=0)
    with pytest.raises(DataError, match="no such file"):
        LoadScand("image")({"image": path.with_name("absent.nii.gz")})
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match="truncated"):
        LoadScand("image")({"image": path})


def test_an_array_takes_the_spacing_that_is_given(brain, tmp_path):
    np.save(tmp_path / "a.npy", brain[np.newaxis])
    image = LoadScand("image", spacing_mm=3.0)({"image": tmp_path / "a.npy"})["image"]
    assert image.pixdim.tolist() == [3.0, 3.0, 3.0]
    middle = (np.array(brain.shape) - 1) / 2
    np.testing.assert_allclose(nib.affines.apply_affine(image.affine.numpy(), middle), 0)
