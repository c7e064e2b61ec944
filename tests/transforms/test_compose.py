import os

import nibabel as nib
import numpy as np
import pytest
import torch
from monai.data import MetaTensor
from monai.transforms import Compose, RandFlipd, ScaleIntensityd

from neurocontrast.exceptions import DataError
from neurocontrast.transforms.brain import erode, fill_largest
from neurocontrast.transforms.compose import brain_transforms, load_volume
from neurocontrast.transforms.grids import preprocessed_grid
from neurocontrast.transforms.images import apply, to_image
from neurocontrast.transforms.preprocessing import Preprocessing


def preprocess(voxels, spacing, contract, name="scan"):
    """Preprocess voxels in RAS order that are in memory."""
    image = to_image(
        np.array(voxels, dtype=np.float32)[np.newaxis], np.diag([*spacing, 1.0]), name=name
    )
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
@pytest.mark.parametrize(
    ("spacing", "shape"), [(2.0, (24, 28, 20)), (1.5, (30, 36, 27)), (3.0, (16, 18, 14))]
)
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
    with pytest.raises(
        DataError, match=r"scan.nii.gz.*would be cropped away, at most 10% of a brain may"
    ):
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
            brain_transforms(
                spacing_mm=2.5, shape=(20, 22, 16), normalise="zscore-brain", erode_mm=3.0
            ),
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
    ("spacing", "shape"),
    [(2.0, (24, 28, 20)), (2.0, (21, 31, 20)), (1.7, (29, 33, 24)), (None, (25, 27, 19))],
)
def test_the_affine_finds_a_landmark_where_nibabel_does(write_nifti, axes, spacing, shape):
    spot = np.array([14, 9, 12])
    grid = np.stack(np.meshgrid(*map(np.arange, (24, 28, 20)), indexing="ij"), axis=-1)
    ball = (((grid - 10) / 12) ** 2).sum(axis=-1) < 1
    path = write_nifti(ball + 50 * np.exp(-((grid - spot) ** 2).sum(axis=-1) / 4), axes=axes)
    image = brain_transforms(spacing_mm=spacing, shape=shape, normalise="none")({"image": path})[
        "image"
    ]
    stored = nib.load(path)
    there = nib.affines.apply_affine(
        stored.affine, np.unravel_index(stored.get_fdata().argmax(), stored.shape)
    )
    voxels = image.numpy()[0]
    affine = image.affine.numpy()
    here = nib.affines.apply_affine(affine, np.unravel_index(voxels.argmax(), voxels.shape))
    np.testing.assert_allclose(here, there, atol=0.51 * (spacing or 2.0))
    assert nib.aff2axcodes(affine) == ("R", "A", "S")
    np.testing.assert_allclose(affine, preprocessed_grid(path, keeping(shape, spacing)).affine)


def test_wrong_settings_of_brain_transforms_are_named():
    with pytest.raises(
        DataError, match=r"brain_transforms: spacing_mm: .*greater than or equal to 0\.1, found 0"
    ):
        brain_transforms(spacing_mm=0)
    with pytest.raises(DataError, match=r"spacing: unknown key\. Did you mean 'spacing_mm'"):
        brain_transforms(spacing=2)
    with pytest.raises(DataError, match=r"normalise: must be 'zscore'.*found 'histogram'"):
        brain_transforms(normalise="histogram")
    with pytest.raises(DataError, match="a preprocessing or settings, not both; got shape too"):
        brain_transforms(Preprocessing(), shape=(20, 20, 20))


# --- each normalisation against a plain form of its definition
# -------------------------------------------------------
def settings(**keys):
    return Preprocessing(**{"spacing_mm": 4.0, "shape": (40, 44, 40)} | keys)


def done(voxels, contract):
    return preprocess(voxels, (4.0, 4.0, 4.0), contract, name="x.nii")[0]


PERCENTILE = settings(normalise="percentile", percentiles=(2, 98))


def test_percentiles_of_the_brain_become_0_and_1(voxels_of_head):
    low, high = np.percentile(voxels_of_head[voxels_of_head > 0], [2, 98])
    expected = np.where(voxels_of_head > 0, np.clip((voxels_of_head - low) / (high - low), 0, 1), 0)
    np.testing.assert_allclose(done(voxels_of_head, PERCENTILE), expected, atol=1e-6)


@pytest.mark.parametrize("gain", [1e-6, 37.0])
def test_a_gain_changes_nothing(voxels_of_head, gain):
    np.testing.assert_allclose(
        done(voxels_of_head * gain, PERCENTILE), done(voxels_of_head, PERCENTILE), atol=2e-5
    )


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
    np.testing.assert_array_equal(
        done(voxels_of_head, settings(normalise=normalise, erode_mm=8)), expected
    )


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
    small = np.where(
        erode(fill_largest(voxels_of_head != 0), 32.0, (4.0, 4.0, 4.0)), voxels_of_head, 0
    )
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
