"""Pictures are decoded, and found in folders and archives; what is damaged or hostile is refused."""

import io
import os
import struct
import tarfile
import zipfile
import zlib

import numpy as np
import pytest
from PIL import Image

from neurocontrast.exceptions import DataError
from neurocontrast.natural.archives import open_files
from neurocontrast.natural.pictures import decode, scale


def saved(picture, kind="PNG", **options):
    stream = io.BytesIO()
    picture.save(stream, kind, **options)
    return stream.getvalue()


RAMP = np.arange(6 * 9 * 3, dtype=np.uint8).reshape(6, 9, 3)
GREY = RAMP[:, :, 0]


@pytest.mark.parametrize("kind", ["PNG", "BMP", "TIFF", "PPM"])
def test_colours_are_kept(kind):
    np.testing.assert_array_equal(
        decode(saved(Image.fromarray(RAMP), kind)), RAMP.transpose(2, 0, 1)
    )


def test_grey_of_eight_and_sixteen_bits_is_repeated():
    np.testing.assert_array_equal(decode(saved(Image.fromarray(GREY))), np.stack([GREY] * 3))
    sixteen = Image.fromarray(GREY.astype(np.uint16) * 257)
    np.testing.assert_array_equal(decode(saved(sixteen)), np.stack([GREY] * 3))
    np.testing.assert_array_equal(decode(saved(sixteen, "TIFF")), np.stack([GREY] * 3))


@pytest.mark.parametrize("mode", ["RGBA", "LA"])
def test_transparency_is_laid_on_white(mode):
    picture = Image.fromarray(RAMP).convert(mode)
    picture.putalpha(0)
    assert (decode(saved(picture)) == 255).all()
    picture.putalpha(255)
    np.testing.assert_array_equal(
        decode(saved(picture)), np.asarray(picture.convert("RGB")).transpose(2, 0, 1)
    )


def test_palettes_are_looked_up_and_their_transparency_is_white():
    picture = Image.fromarray(GREY, "L").convert("P")
    picture.putpalette([value for n in range(256) for value in (n, 255 - n, 7)])
    expected = np.stack([GREY, 255 - GREY, np.full_like(GREY, 7)])
    np.testing.assert_array_equal(decode(saved(picture)), expected)
    image = decode(saved(picture, transparency=int(GREY[0, 0])))
    assert image[:, 0, 0].tolist() == [255, 255, 255]
    np.testing.assert_array_equal(image[:, 1:], expected[:, 1:])


def test_a_picture_is_turned_as_its_exif_data_say():
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees
    image = decode(saved(Image.fromarray(RAMP), "PNG", exif=exif))
    np.testing.assert_array_equal(image, np.rot90(RAMP, -1).transpose(2, 0, 1))


def huge_png():
    def chunk(kind, content):
        return (
            struct.pack(">I", len(content))
            + kind
            + content
            + struct.pack(">I", zlib.crc32(kind + content))
        )

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 9000, 9000, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "cannot be decoded"),
        (b"GIF89a but not really", "cannot be decoded"),
        (b"%PDF-1.7", "does not begin as JPEG, PNG"),
        (saved(Image.fromarray(RAMP), "JPEG")[:-60], "cannot be decoded"),
        (saved(Image.fromarray(RAMP))[:-30], "cannot be decoded"),
        (huge_png(), "9000×9000 pixels are more than"),
        (saved(Image.fromarray(GREY.astype(np.float32)), "TIFF"), "32 bits"),
        (
            saved(
                Image.fromarray(GREY),
                "GIF",
                save_all=True,
                append_images=[Image.fromarray(255 - GREY)],
            ),
            "moving picture",
        ),
    ],
    ids=["empty", "no gif", "pdf", "cut jpeg", "cut png", "huge", "floats", "animation"],
)
def test_what_cannot_be_used_is_refused(content, told):
    with pytest.raises(DataError, match=told):
        decode(content)


def test_scaling_covers_the_size_and_crops_the_middle():
    image = np.zeros((3, 10, 30), np.uint8)
    image[:, :, 10:20] = 200
    assert (scale(image, (10, 10)) == 200).all()
    assert scale(image, (5, 20)).shape == (3, 5, 20)
    assert scale(image, (10, 30)) is image
    flat = np.full((3, 8, 8), 77, np.uint8)
    assert (scale(flat, (32, 32)) == 77).all()


# --- folders and archives
# --------------------------------------------------------------------------------------------
def link(name, kind=tarfile.SYMTYPE, target="/etc/passwd"):
    info = tarfile.TarInfo(name)
    info.type = kind
    info.linkname = target
    return info


@pytest.mark.parametrize("name", ["x.tar", "x.tar.gz", "x.tar.xz"])
def test_an_archive_is_read_by_name_and_leaves_nothing(write_tar, tmp_path, name):
    source = write_tar(
        {"./b/2.jpg": b"two", "a/1.jpg": b"one", "a/._1.jpg": b"noise", "notes.txt": b"no"}, name
    )
    (tmp_path / "scratch").mkdir()
    with open_files(source, scratch=tmp_path / "scratch") as found:
        assert found.names == ["a/1.jpg", "b/2.jpg", "notes.txt"]
        assert [found.read(name) for name in found.names] == [b"one", b"two", b"no"]
    assert list((tmp_path / "scratch").iterdir()) == []


@pytest.mark.parametrize(
    "member",
    [
        {"../up.jpg": b"x"},
        {"a/../../up.jpg": b"x"},
        {"s": link("soft.jpg")},
        {"s": link("soft.jpg", target="../../up.jpg")},
        {"d": link("device.jpg", tarfile.CHRTYPE)},
        {"p": link("pipe.jpg", tarfile.FIFOTYPE)},
    ],
    ids=["up", "up again", "absolute link", "link upwards", "device", "pipe"],
)
def test_a_hostile_archive_is_refused_and_writes_nowhere_else(write_tar, tmp_path, member):
    (tmp_path / "scratch").mkdir()
    source = write_tar(member, "x.tar")
    with (
        pytest.raises(DataError, match=r"x\.tar"),
        open_files(source, scratch=tmp_path / "scratch"),
    ):
        pass
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["scratch", "x.tar"]
    assert list((tmp_path / "scratch").iterdir()) == []


@pytest.mark.parametrize("name", ["x.tar", "x.tar.gz", "x.tar.xz"])
@pytest.mark.parametrize("kept", [0.3, 0.85])
def test_a_cut_archive_is_refused(write_tar, name, kept):
    source = write_tar({f"{n}.jpg": os.urandom(5000) for n in range(8)}, name)
    source.write_bytes(source.read_bytes()[: int(kept * source.stat().st_size)])
    with pytest.raises(DataError, match=r"x\.tar.*cut, damaged"), open_files(source):
        pass


def test_zip_archives_are_read_too(tmp_path):
    good = tmp_path / "good.zip"
    with zipfile.ZipFile(good, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("b/2.jpg", "two")
        archive.writestr("__MACOSX/b/2.jpg", "noise")
        archive.writestr("../../up.jpg", "leads elsewhere")
    (tmp_path / "scratch").mkdir()
    with open_files(good, scratch=tmp_path / "scratch") as files:
        assert files.names == ["b/2.jpg"]
        assert files.read("b/2.jpg") == b"two"
        assert sorted(entry.name for entry in tmp_path.iterdir()) == ["good.zip", "scratch"]


def test_a_folder_is_walked_once_with_its_links(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "1.jpg").write_bytes(b"one")
    (tmp_path / "a" / ".hidden.jpg").write_bytes(b"no")
    (tmp_path / "2.jpg").symlink_to(tmp_path / "a" / "1.jpg")
    (tmp_path / "broken.jpg").symlink_to(tmp_path / "nowhere")
    with open_files(tmp_path) as files:
        assert files.names == ["2.jpg", "a/1.jpg"]
        assert files.read("2.jpg") == b"one"
    (tmp_path / "loop").symlink_to(tmp_path)
    with pytest.raises(DataError, match="lead back to a folder above"), open_files(tmp_path):
        pass


def test_what_is_no_source_is_refused(tmp_path):
    (tmp_path / "x.rar").write_bytes(b"Rar!")
    with (
        pytest.raises(DataError, match="neither a folder nor an archive"),
        open_files(tmp_path / "x.rar"),
    ):
        pass
    with pytest.raises(DataError, match="no file or folder"), open_files(tmp_path / "absent"):
        pass
