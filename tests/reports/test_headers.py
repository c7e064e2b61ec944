"""Headers of NIfTI files that people have met: two affines that disagree, odd slopes, units and byte orders."""

import gzip
import struct
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest

import neurocontrast
from neurocontrast.cli.app import run as command_line
from neurocontrast.commands.prepare import prepare
from neurocontrast.data import read_cohort
from neurocontrast.data.quality import warn_of_headers
from neurocontrast.data.settings import DataSettings
from neurocontrast.data.sources import BrainVolumes
from neurocontrast.exceptions import DataError
from neurocontrast.progress import SILENT
from neurocontrast.transforms.loading import content_of_scan, read_scan, read_scan_header

AFFINE = nib.affines.from_matvec(np.diag([4.0, 4, 4]), [-80, -96, -72])
SHAPE = (40, 48, 36)


@pytest.fixture(scope="module")
def voxels():
    """A lopsided ellipsoid of whole numbers on a zero background."""
    x, y, z = np.meshgrid(*[np.linspace(-1, 1, n) for n in SHAPE], indexing="ij")
    inside = (x / 0.8) ** 2 + (y / 0.85) ** 2 + (z / 0.8) ** 2 < 1
    noise = np.random.default_rng(1).normal(0, 10, SHAPE)
    return np.where(inside, np.round(600 + 200 * x + 100 * y + 50 * z + noise), 0).astype(np.int16)


@pytest.fixture
def write(tmp_path, voxels):
    """Write a scan with two affines, each with its code."""

    def write(sform, qform=AFFINE, *, codes=(1, 1), name="scan.nii") -> Path:
        image = nib.Nifti1Image(voxels, AFFINE)
        image.set_sform(sform, codes[0])
        image.set_qform(qform, codes[1], strip_shears=True)
        image.to_filename(tmp_path / name)
        return tmp_path / name

    return write


def turned(degrees, affine=AFFINE):
    """Return an affine turned about the first axis, around the middle of the image."""
    middle = nib.affines.apply_affine(affine, (np.array(SHAPE) - 1) / 2)
    rotation = nib.eulerangles.euler2mat(x=np.radians(degrees))
    linear = rotation @ affine[:3, :3]
    start = rotation @ (affine[:3, 3] - middle) + middle
    return nib.affines.from_matvec(linear, start)


def changed(**entries):
    """Return the affine with other entries, ``at_01=1.5`` for row 0 and column 1."""
    affine = AFFINE.copy()
    for place, value in entries.items():
        affine[int(place[-2]), int(place[-1])] = value
    return affine


SHIFTED = nib.affines.from_matvec(AFFINE[:3, :3], [-40, -96, -72])
SMALL = nib.affines.from_matvec(np.eye(3), AFFINE[:3, 3])
FLIPPED = np.diag([-1.0, 1, 1, 1]) @ AFFINE
EXCHANGED = AFFINE[:, [1, 0, 2, 3]]
SHEARED = changed(at_01=1.5)


@pytest.mark.parametrize(
    ("sform", "qform", "differences"),
    [
        (AFFINE, FLIPPED, ["sform says RAS and qform LAS"]),
        (EXCHANGED, AFFINE, ["sform says ARS and qform RAS"]),
        (AFFINE, SMALL, ["the sform's voxels are 4 × 4 × 4 mm and the qform's 1 × 1 × 1 mm"]),
        (
            AFFINE,
            turned(17),
            ["axes are 17.0 degrees apart (sform tilted by 0.0 and qform by 17.0)"],
        ),
        (AFFINE, turned(1.2), ["axes are 1.2 degrees apart"]),  # less than a voxel at the corners
        (turned(20), turned(3), ["axes are 17.0 degrees", "tilted by 20.0 and qform by 3.0"]),
        (
            AFFINE,
            SHIFTED,
            ["at (-2.0, -2.0, -2.0) mm and the qform at (38.0, -2.0, -2.0) mm, 40.0 mm apart"],
        ),
        (SHEARED, AFFINE, ["the sform is sheared by 20.6 degrees, and a qform cannot be"]),
        (changed(at_00=4.1), AFFINE, ["the sform's voxels are 4.1 × 4 × 4 mm and the qform's 4 ×"]),
    ],
    ids=[
        "flip",
        "exchange",
        "size",
        "rotation",
        "1.2 degrees",
        "oblique",
        "shift",
        "shear",
        "2.5 %",
    ],
)
def test_affines_that_disagree_are_named_with_both_values_and_are_a_problem(
    write, sform, qform, differences
):
    header = read_scan_header(write(sform, qform))
    for text in (*differences, "the sform is used"):
        assert text in header.disagreement
    assert header.disagreement in header.warnings
    np.testing.assert_allclose(read_scan(write(sform, qform)).affine, sform, atol=1e-4)


def test_what_does_not_differ_is_not_named(write):
    assert read_scan_header(write(AFFINE, SHIFTED)).disagreement.count(";") == 1
    assert read_scan_header(write(AFFINE, turned(17))).disagreement.count(";") == 1
    assert read_scan_header(write(AFFINE, FLIPPED)).disagreement.count(";") == 1


@pytest.mark.parametrize(
    ("sform", "qform", "is_named"),
    [
        (changed(at_03=-81.5), AFFINE, True),
        (changed(at_00=4.03), AFFINE, True),
        (turned(0.4), AFFINE, True),
        (changed(at_03=-80.3), AFFINE, False),
        (changed(at_00=4.001), AFFINE, False),
    ],
    ids=["1.5 mm", "0.7 %", "0.4 degrees", "0.3 mm", "0.03 %"],
)
def test_less_than_a_voxel_two_percent_or_a_degree_is_no_problem(write, sform, qform, is_named):
    header = read_scan_header(write(sform, qform))
    assert not header.disagreement
    assert bool(header.warnings) == is_named


@pytest.mark.parametrize("degrees", [0, 12.34567, 90, 179.99, 180, -133])
def test_an_oblique_quaternion_in_single_precision_does_not_disagree(write, degrees):
    affine = turned(degrees)
    oblique = nib.affines.from_matvec(
        affine[:3, :3] @ nib.eulerangles.euler2mat(z=0.3, y=-0.2), affine[:3, 3]
    )
    for exact in (affine, oblique):
        assert not any("form" in text for text in read_scan_header(write(exact, exact)).warnings)


@pytest.mark.parametrize(("codes", "is_read"), [((1, 0), "sform"), ((0, 1), "qform")])
def test_with_one_code_nothing_can_disagree_and_that_affine_is_read(write, codes, is_read):
    path = write(AFFINE, SHIFTED, codes=codes)
    assert read_scan_header(path).warnings == ()
    expected = AFFINE if is_read == "sform" else SHIFTED
    np.testing.assert_allclose(read_scan(path).affine, expected, atol=1e-4)


def test_a_quaternion_that_is_no_rotation_is_a_disagreement(write):
    path = write(AFFINE)
    content = bytearray(path.read_bytes())
    content[256:268] = struct.pack("<fff", 2.0, 2.0, 2.0)
    path.write_bytes(bytes(content))
    assert "no rotation" in read_scan_header(path).disagreement


@pytest.fixture
def disagreeing(write, tmp_path):
    """Return a table of a scan that agrees with itself, and of four that do not."""
    rows = ["participant_id\tpath"]
    for name, qform in {
        "plain": AFFINE,
        "flip": FLIPPED,
        "size": SMALL,
        "turned": turned(17),
        "shift": SHIFTED,
    }.items():
        rows.append(f"sub-{name}\t{write(AFFINE, qform, name=f'{name}.nii').name}")
    (tmp_path / "participants.tsv").write_text("\n".join(rows) + "\n")
    return tmp_path / "participants.tsv"


@pytest.mark.parametrize("how", [[], ["--table-only"]])
def test_check_has_each_as_a_problem(disagreeing, capsys, how):
    good = disagreeing.with_name("good.tsv")
    shallow = neurocontrast.check(disagreeing, deep=not how, write_good=good)
    assert [problem.name for problem in shallow.problems.found] == [
        "sub-flip",
        "sub-size",
        "sub-turned",
        "sub-shift",
    ]
    assert not any("form" in text for text in shallow.warnings)
    assert good.read_text().count("sub-") == 1
    if not how:
        assert command_line(["check", str(disagreeing)]) == 2
        assert "17.0 degrees apart" in capsys.readouterr().out


class Heard(type(SILENT)):
    """Keeps the warnings."""

    def __init__(self):
        self.warned = []

    def warning(self, text):
        self.warned.append(text)


@pytest.mark.parametrize("door", ["make_ready", "failures"])
def test_scans_made_ready_for_training_or_embedding_are_warned_of(disagreeing, tmp_path, door):
    small = {"spacing_mm": 8.0, "shape": (16, 16, 16), "n_workers": 1, "cache_dir": tmp_path / "c"}
    cohort = read_cohort(disagreeing)
    source = BrainVolumes(DataSettings(**small)).prepared(cohort)
    for heard in (Heard(), Heard()):  # also where the volumes are in the cache
        getattr(source, door)(cohort, heard)
        assert len(heard.warned) == 1
        assert "4 of 5 scans have an sform and a qform that disagree" in heard.warned[0]
        assert "sform says RAS and qform LAS; the sform is used" in heard.warned[0]


def test_qc_warns_of_them(disagreeing, tmp_path):
    heard = Heard()
    neurocontrast.qc(disagreeing, out=tmp_path / "qc", n_workers=1, progress=heard)
    assert any("4 of 5 scans have an sform and a qform" in text for text in heard.warned)


def test_prepare_warns_of_them_before_it_begins(disagreeing, tmp_path, monkeypatch):
    def refuse(*_):
        raise DataError("begun")

    monkeypatch.setattr("neurocontrast.commands.prepare._prepare_all", refuse)
    heard = Heard()
    with pytest.raises(DataError, match="begun"):
        prepare(disagreeing, out=tmp_path / "prepared", n_workers=1, progress=heard)
    assert any("4 of 5 scans have an sform and a qform" in text for text in heard.warned)


def test_a_file_that_cannot_be_read_is_left_to_who_reads_its_voxels(tmp_path, write):
    heard = Heard()
    paths = [str(tmp_path / "absent.nii"), str(write(AFFINE, FLIPPED)), str(tmp_path / "a.npy")]
    warn_of_headers(paths, heard)
    assert heard.warned[0].startswith("1 of 3 scans")


def test_slopes_byte_orders_and_lengths_of_one_are_read_as_nibabel_reads_them(tmp_path, voxels):
    nib.Nifti1Image(voxels, AFFINE).to_filename(tmp_path / "plain.nii")
    content = (tmp_path / "plain.nii").read_bytes()
    for name, slope in {
        "zero": (0.0, 5.0),
        "nan": (np.nan, np.nan),
        "inf": (np.inf, 0.0),
        "half": (0.5, -10.0),
    }.items():
        other = bytearray(content)
        other[112:120] = struct.pack("<ff", *slope)
        (tmp_path / f"{name}.nii").write_bytes(bytes(other))
        expected = voxels * 0.5 - 10 if name == "half" else voxels
        np.testing.assert_allclose(read_scan(tmp_path / f"{name}.nii").voxels, expected)
    big = nib.Nifti1Image(voxels.astype(">i2"), AFFINE, nib.Nifti1Header(endianness=">"))
    big.to_filename(tmp_path / "big.nii")
    nib.Nifti1Image(voxels[..., None, None], AFFINE).to_filename(tmp_path / "5d.nii")
    unsigned = nib.Nifti1Image(voxels.astype(np.uint64), AFFINE, dtype=np.uint64)
    unsigned.to_filename(tmp_path / "uint64.nii")
    members = gzip.compress(content[:5000]) + gzip.compress(content[5000:])
    (tmp_path / "members.nii.gz").write_bytes(members)
    (tmp_path / "packed.nii").write_bytes(gzip.compress(content))
    (tmp_path / "unpacked.nii.gz").write_bytes(content)
    names = ["big.nii", "5d.nii", "uint64.nii", "members.nii.gz", "packed.nii", "unpacked.nii.gz"]
    for name in names:
        np.testing.assert_array_equal(read_scan(tmp_path / name).voxels, voxels)
        assert read_scan_header(tmp_path / name).warnings == ()


def test_an_image_of_freesurfer_has_one_affine(tmp_path, voxels):
    nib.save(nib.MGHImage(voxels.astype(np.int32), turned(12)), tmp_path / "t1.mgz")
    header = read_scan_header(tmp_path / "t1.mgz")
    assert (header.disagreement, header.warnings) == ("", ())


def with_units(tmp_path, voxels, size, code):
    nib.Nifti1Image(voxels, np.diag([size, size, size, 1])).to_filename(tmp_path / "x.nii")
    content = bytearray((tmp_path / "x.nii").read_bytes())
    content[123] = code
    (tmp_path / "x.nii").write_bytes(bytes(content))


def test_what_is_no_scan_in_millimetres_is_refused_by_name(tmp_path, voxels):
    for size, code in ((4000.0, 3), (0.004, 1)):
        with_units(tmp_path, voxels, size, code)
        for read in (read_scan, read_scan_header):
            with pytest.raises(DataError, match=r"x\.nii: the voxel size is"):
                read(tmp_path / "x.nii")
    background = np.where(voxels == 0, np.nan, voxels).astype(np.float32)
    nib.Nifti1Image(background, AFFINE).to_filename(tmp_path / "nan.nii")
    with pytest.raises(DataError, match=r"nan\.nii: .* voxels are not finite"):
        read_scan(tmp_path / "nan.nii")
    colours = np.zeros(SHAPE, [("R", "u1"), ("G", "u1"), ("B", "u1")])
    nib.Nifti1Image(colours, AFFINE).to_filename(tmp_path / "rgb.nii")
    nib.Nifti1Pair(voxels, AFFINE).to_filename(tmp_path / "pair.img")
    empty = nib.Nifti1Image(voxels, AFFINE)
    empty.set_sform(np.diag([0, 0, 0, 1.0]), 1)
    empty.to_filename(tmp_path / "zero.nii")
    for name in ("rgb.nii", "pair.img", "pair.hdr", "zero.nii"):
        with pytest.raises(DataError, match=name):
            read_scan_header(tmp_path / name)


@pytest.fixture
def guessed(write, tmp_path):
    """Return a table of a scan with an orientation, and of two without."""
    rows = ["participant_id\tpath", f"sub-plain\t{write(AFFINE, name='plain.nii').name}"]
    for name in ("a", "b"):
        rows.append(f"sub-{name}\t{write(AFFINE, codes=(0, 0), name=f'{name}.nii').name}")
    (tmp_path / "participants.tsv").write_text("\n".join(rows) + "\n")
    return tmp_path / "participants.tsv"


@pytest.mark.parametrize("door", ["make_ready", "failures"])
def test_scans_without_orientation_are_warned_of_at_training_and_embedding(guessed, tmp_path, door):
    small = {"spacing_mm": 8.0, "shape": (24, 28, 24), "n_workers": 1, "cache_dir": tmp_path / "c"}
    cohort = read_cohort(guessed)
    source = BrainVolumes(DataSettings(**small)).prepared(cohort)
    for heard in (Heard(), Heard()):
        getattr(source, door)(cohort, heard)
        (warning,) = [text for text in heard.warned if "orientation" in text]
        assert warning.startswith("2 of 3 scans have no orientation")
        assert warning.endswith("a.nii.")


def test_qc_warns_of_scans_without_orientation(guessed, tmp_path):
    heard = Heard()
    neurocontrast.qc(guessed, out=tmp_path / "qc", n_workers=1, progress=heard)
    assert any("2 of 3 scans have no orientation" in text for text in heard.warned)


TYPES = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float64")


def test_one_scan_in_any_type_order_and_length_is_one_content(tmp_path, voxels):
    small = (voxels // 10).astype(np.int16)
    nib.Nifti1Image(small, AFFINE).to_filename(tmp_path / "plain.nii")
    plain = content_of_scan(tmp_path / "plain.nii")
    images = {"four": nib.Nifti1Image(small[..., None], AFFINE)}
    images["two"] = nib.Nifti2Image(small, AFFINE)
    images["big"] = nib.Nifti1Image(small.astype(">f4"), AFFINE, nib.Nifti1Header(endianness=">"))
    for dtype in TYPES:
        images[dtype] = nib.Nifti1Image(small.astype(dtype), AFFINE, dtype=dtype)
    for name, image in images.items():
        image.to_filename(tmp_path / f"{name}.nii")
        assert content_of_scan(tmp_path / f"{name}.nii") == plain, name
