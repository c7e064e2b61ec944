import gzip
import tracemalloc

import nibabel as nib
import numpy as np
import pytest
import torch
from monai.data import MetaTensor
from monai.transforms import LoadImaged, Orientation

from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.transforms import LoadScand
from neurocontrast.transforms.loading import read_scan, read_scan_header

ORIENTATIONS = ["RAS", "LPS", "PIR", "ILA"]


@pytest.mark.parametrize("axes", ORIENTATIONS)
@pytest.mark.parametrize("name", ["scan.nii.gz", "scan.nii"])
def test_any_orientation_is_read_as_ras(brain, write_nifti, axes, name):
    path = write_nifti(brain, name, axes=axes, spacing=(2.0, 1.5, 1.0))
    image = Orientation("RAS", labels=None)(LoadScand("image")({"image": path})["image"])
    np.testing.assert_array_equal(image[0], brain)
    assert image.dtype == torch.float32
    np.testing.assert_allclose(image.pixdim, (2.0, 1.5, 1.0), rtol=1e-6)
    np.testing.assert_allclose(image.affine[:3, 3], 0, atol=1e-6)
    header = read_scan_header(path)
    assert header.shape == brain.shape
    np.testing.assert_allclose(header.spacing_mm, (2.0, 1.5, 1.0), rtol=1e-6)
    assert header.warnings == ()


@pytest.mark.parametrize("lead", [(), (1,), (1, 1)])
def test_arrays_are_read_as_they_are(brain, tmp_path, lead):
    np.save(tmp_path / "a.npy", brain.reshape(*lead, *brain.shape).astype(np.float64))
    scan = read_scan(tmp_path / "a.npy")
    np.testing.assert_array_equal(scan.voxels, brain)
    assert scan.affine is None
    assert read_scan_header(tmp_path / "a.npy").shape == brain.shape


def test_a_fourth_axis_of_one_is_dropped(brain, tmp_path):
    nib.save(
        nib.Nifti1Image(np.round(brain)[..., np.newaxis].astype(np.int16), np.eye(4)),
        tmp_path / "a.nii.gz",
    )
    np.testing.assert_array_equal(read_scan(tmp_path / "a.nii.gz").voxels, np.round(brain))


@pytest.mark.parametrize("kind", ["u1", "i2", "i8", "f8", ">i2", ">f4"])
def test_every_stored_type_and_scale_is_read_as_nibabel_reads_it(brain, tmp_path, kind):
    kind = np.dtype(kind)
    header = nib.Nifti1Header(endianness=">" if kind.byteorder == ">" else "<")
    header.set_data_dtype(kind)
    voxels = (brain / brain.max() * 250).astype(kind)
    nib.save(nib.Nifti1Image(voxels, np.eye(4), header), tmp_path / "a.nii")
    for scale in (None, (1, 0), (1, -100), (0.5, 10), (1e-3, 0.25)):
        content = bytearray((tmp_path / "a.nii").read_bytes())
        if scale is not None:  # written behind nibabel's back, which would scale the stored numbers
            content[112:120] = np.array(scale, ">f4" if kind.byteorder == ">" else "<f4").tobytes()
        (tmp_path / "a.nii").write_bytes(content)
        image = nib.load(tmp_path / "a.nii")
        assert image.get_data_dtype() == kind
        expected = image.get_fdata(dtype=np.float32)
        found = read_scan(tmp_path / "a.nii").voxels
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, expected, err_msg=str(scale))


def test_nifti2_and_a_plain_file_named_gz_are_read(brain, tmp_path):
    nib.save(nib.Nifti2Image(brain, np.eye(4)), tmp_path / "two.nii")
    np.testing.assert_array_equal(read_scan(tmp_path / "two.nii").voxels, brain)
    (tmp_path / "plain.nii.gz").write_bytes((tmp_path / "two.nii").read_bytes())
    np.testing.assert_array_equal(read_scan(tmp_path / "plain.nii.gz").voxels, brain)
    assert read_scan_header(tmp_path / "plain.nii.gz").shape == brain.shape


def damage(path, change=lambda content: content[: len(content) // 2]):
    path.write_bytes(change(path.read_bytes()))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: content[: len(content) // 2], "truncated"),
        (lambda content: content[:-8], "truncated"),
        (
            lambda content: content[:5000] + bytes([content[5000] ^ 0xFF]) + content[5001:],
            "damaged|truncated",
        ),
        (lambda content: b"", r"empty \(0 bytes\)"),
        (lambda content: b"this is a note\n" * 100, "not a NIfTI image, though its name says so"),
        (lambda content: gzip.compress(gzip.decompress(content)[:-5000]), "truncated"),
    ],
    ids=["truncated", "no end", "flipped", "empty", "text", "inner"],
)
def test_damaged_files_are_named_with_the_reason(brain, write_nifti, change, message):
    path = write_nifti(brain)
    damage(path, change)
    with pytest.raises(DataError, match=message) as caught:
        read_scan(path)
    assert str(path) in str(caught.value)


def test_a_truncated_plain_file_and_a_truncated_array(brain, write_nifti, tmp_path):
    path = write_nifti(brain, "scan.nii")
    damage(path)
    for read in (read_scan, read_scan_header):
        with pytest.raises(DataError, match="truncated"):
            read(path)
    np.save(tmp_path / "a.npy", brain)
    damage(tmp_path / "a.npy")
    with pytest.raises(DataError, match="array"):
        read_scan(tmp_path / "a.npy")


def with_voxel(brain, value):
    changed = brain.copy()
    changed[0, 0, 0] = value
    return changed


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda brain: np.stack([brain, brain], axis=-1),
            r"4D \(24 × 28 × 20 × 2\); give one 3D volume",
        ),
        (lambda brain: brain[:, :, :1], "24 × 28"),
        (lambda brain: brain[:, :, :4], "at least 8 voxels"),
        (lambda brain: np.zeros_like(brain), "every voxel is 0"),
        (lambda brain: np.full_like(brain, 7), "every voxel is 7"),
        (lambda brain: with_voxel(brain, np.nan), "1 of 13440 voxels are not finite"),
        (lambda brain: with_voxel(brain, np.inf), "not finite"),
        (lambda brain: brain.astype(np.complex64), "complex64"),
    ],
)
def test_what_is_no_volume_is_refused(brain, tmp_path, make, message):
    path = tmp_path / "scan.nii.gz"
    nib.save(nib.Nifti1Image(make(brain), np.eye(4)), path)
    with pytest.raises(DataError, match=message):
        read_scan(path)


@pytest.mark.parametrize("spacing", [(0.001,) * 3, (1000.0,) * 3, (1.0, 1.0, 40.0)])
def test_impossible_voxel_sizes_are_refused(brain, write_nifti, spacing):
    path = write_nifti(brain, spacing=spacing)
    with pytest.raises(DataError, match=r"between 0\.1 and 20 mm"):
        read_scan(path)
    with pytest.raises(DataError, match=r"between 0\.1 and 20 mm"):
        read_scan_header(path)


def test_absent_files_are_named(tmp_path):
    for name in ("a.nii.gz", "a.npy"):
        with pytest.raises(DataError, match=f"{name}: there is no such file"):
            read_scan(tmp_path / name)
        with pytest.raises(DataError, match=f"{name}: there is no such file"):
            read_scan_header(tmp_path / name)


def test_doubtful_headers_are_warned_of(brain, tmp_path):
    image = nib.Nifti1Image(brain, None)
    nib.save(image, tmp_path / "none.nii")
    assert "no orientation" in read_scan_header(tmp_path / "none.nii").warnings[0]
    image = nib.Nifti1Image(brain, np.diag([-1.0, 1, 1, 1]))
    image.set_sform(np.diag([-1.0, 1, 1, 1]), 1)
    image.set_qform(np.diag([1.0, 1, 1, 1]), 1)
    nib.save(image, tmp_path / "two.nii")
    assert read_scan_header(tmp_path / "two.nii").warnings == (
        "sform says LAS and qform RAS; the sform is used",
    )
    angle = np.radians(30)
    tilted = np.eye(4)
    tilted[1:3, 1:3] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    nib.save(nib.Nifti1Image(brain, tilted), tmp_path / "tilted.nii")
    assert "tilted by 30 degrees" in read_scan_header(tmp_path / "tilted.nii").warnings[0]


def test_a_freesurfer_image_is_read_as_its_nifti_copy(brain, write_nifti, tmp_path):
    nifti = nib.load(write_nifti(brain, axes="LIA", spacing=(1.0, 1.0, 1.5)))
    nib.save(
        nib.MGHImage(nifti.get_fdata(dtype=np.float32), nifti.affine), tmp_path / "brainmask.mgz"
    )
    scan = read_scan(tmp_path / "brainmask.mgz")
    copy = read_scan(nifti.get_filename())
    np.testing.assert_allclose(scan.voxels, copy.voxels, rtol=1e-6)
    np.testing.assert_allclose(scan.affine, copy.affine, atol=1e-5)
    header = read_scan_header(tmp_path / "brainmask.mgz")
    assert header.shape == brain.shape
    assert header.warnings == ()
    damage(tmp_path / "brainmask.mgz")
    with pytest.raises(
        DataError,
        match=r"brainmask.mgz: (the image is truncated|this is not a readable FreeSurfer)",
    ):
        read_scan(tmp_path / "brainmask.mgz")
    damage(tmp_path / "brainmask.mgz", lambda content: b"")
    for read in (read_scan, read_scan_header):
        with pytest.raises(
            DataError, match=r"brainmask.mgz: the file is empty|not a readable FreeSurfer image"
        ):
            read(tmp_path / "brainmask.mgz")


def bomb(path, image, n_zeros=2**28, shape=None):
    """Write an image followed by zeros, which gzip makes a thousandth of; `shape` is what its header says."""
    content = bytearray(image.to_bytes())
    if shape is not None:
        at, kind = (4, ">i4") if path.suffix == ".mgz" else (42, "<i2")
        content[at : at + 3 * np.dtype(kind).itemsize] = np.array(shape, kind).tobytes()
    with gzip.open(path, "wb", compresslevel=6) as stream:
        stream.write(content)
        for _ in range(n_zeros // 2**22):
            stream.write(bytes(2**22))
    return path


@pytest.mark.parametrize(
    ("name", "image_type"), [("a.nii.gz", nib.Nifti1Image), ("a.mgz", nib.MGHImage)]
)
def test_a_file_that_decompresses_to_more_than_its_header_says_is_refused_without_filling_the_memory(
    brain, tmp_path, name, image_type
):
    image = image_type(brain, np.eye(4))
    path = bomb(tmp_path / name, image)
    tracemalloc.start()
    try:
        with pytest.raises(
            DataError, match=f"{name}: the file holds more than the 5.,... bytes that its header"
        ):
            read_scan(path)
        assert tracemalloc.get_traced_memory()[1] < 2**25
    finally:
        tracemalloc.stop()
    bomb(tmp_path / name, image, 0, (30_000, 30_000, 30_000))
    with pytest.raises(
        DataError, match=rf"{name}: its header announces .* at most 2,147,483,648 are read"
    ):
        read_scan(path)


def test_what_follows_the_voxels_of_a_whole_image_is_left(brain, tmp_path):
    np.testing.assert_array_equal(
        read_scan(bomb(tmp_path / "a.mgz", nib.MGHImage(brain, np.eye(4)), 0)).voxels, brain
    )
    padded = tmp_path / "a.nii.gz"
    padded.write_bytes(gzip.compress(nib.Nifti1Image(brain, np.eye(4)).to_bytes() + bytes(4096)))
    np.testing.assert_array_equal(read_scan(padded).voxels, brain)


# --- the loader among MONAI's transforms
# -----------------------------------------------------------------------------
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
