import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from neurocontrast.data.natural.pictures import decode, scale
from neurocontrast.exceptions import DataError


def saved(picture, kind="PNG", **options):
    stream = io.BytesIO()
    picture.save(stream, kind, **options)
    return stream.getvalue()


RAMP = np.arange(6 * 9 * 3, dtype=np.uint8).reshape(6, 9, 3)
GREY = RAMP[:, :, 0]


@pytest.mark.parametrize("kind", ["PNG", "BMP", "TIFF", "PPM"])
def test_colours_are_kept(kind):
    np.testing.assert_array_equal(decode(saved(Image.fromarray(RAMP), kind)), RAMP.transpose(2, 0, 1))


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
    np.testing.assert_array_equal(decode(saved(picture)), np.asarray(picture.convert("RGB")).transpose(2, 0, 1))


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
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

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
            saved(Image.fromarray(GREY), "GIF", save_all=True, append_images=[Image.fromarray(255 - GREY)]),
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
