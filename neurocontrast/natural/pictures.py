"""Decode pictures to RGB bytes (3, H, W), scale pictures, and paint grey ones on a colour."""

import io
import struct

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps, UnidentifiedImageError

from neurocontrast.exceptions import DataError

_FORMATS = ("JPEG", "PNG", "BMP", "WEBP", "TIFF", "GIF", "PPM")
_MAX_PIXELS = 64_000_000
_FAULTS = (
    OSError,
    ValueError,
    SyntaxError,
    EOFError,
    struct.error,
    Image.DecompressionBombError,
    TypeError,
    KeyError,
)
_TO_EIGHT_BITS = 257

Pixels = npt.NDArray[np.uint8]


def grey_to_rgb(image: Pixels) -> Pixels:
    """Repeat a grey picture (H, W) as red, green and blue, (3, H, W)."""
    return np.repeat(image[np.newaxis], 3, axis=0)


def decode(content: bytes) -> Pixels:
    """Decode a picture to RGB bytes (3, H, W), turned as its EXIF data say.

    `content` has the bytes of a picture's file. Transparent pixels become white. A file that cannot
    be decoded, has several frames or too many pixels is a `DataError`.
    """
    try:
        with Image.open(io.BytesIO(content), formats=_FORMATS) as picture:
            if picture.width * picture.height > _MAX_PIXELS:
                raise DataError(
                    f"{picture.width}×{picture.height} pixels are more than {_MAX_PIXELS:,}"
                )
            n_frames = getattr(picture, "n_frames", 1)
            if picture.format != "MPO" and n_frames > 1:
                raise DataError(f"a moving picture ({n_frames} frames); save one frame")
            return _planes(_to_rgb(ImageOps.exif_transpose(picture) or picture))
    except UnidentifiedImageError:  # Pillow's message names an object in memory
        raise DataError(
            f"cannot be decoded (it does not begin as {', '.join(_FORMATS)} files do)"
        ) from None
    except _FAULTS as error:
        raise DataError(f"cannot be decoded ({error})") from None


def scale(image: Pixels, size: tuple[int, int]) -> Pixels:
    """Scale a picture (3, H, W) to cover `size`, height and width, and crop around the centre.

    The bytes of the result are the same on any machine. A picture of that size is returned
    unchanged.
    """
    height, width = size
    if image.shape[1:] == (height, width):
        return image
    picture = Image.fromarray(np.ascontiguousarray(image.transpose(1, 2, 0)))
    return _planes(ImageOps.fit(picture, (width, height), method=Image.Resampling.BICUBIC))


def paint(image: Pixels, colour: Pixels) -> Pixels:
    """Paint a grey picture (3, H, W), bright on black, as black on the background `colour` (3,).

    A value x of a channel becomes (255 - x)·c/255, rounded down, with c the channel's value of the
    colour. A picture with colours is a `DataError`.
    """
    if not (image == image[0]).all():
        raise DataError(
            "a background is laid behind grey pictures, and this one has colours; leave out "
            "background"
        )
    shade = 255 - image.astype(np.uint16)
    return (shade * colour.astype(np.uint16)[:, np.newaxis, np.newaxis] // 255).astype(np.uint8)


def _to_rgb(picture: Image.Image) -> Image.Image:
    """Convert a picture of Pillow, of any mode, to RGB of 8 bits; refuse 32 bits a channel."""
    if picture.mode.startswith("I;16"):
        grey = np.asarray(picture).astype(np.uint32)
        bytes_of_grey = ((grey + _TO_EIGHT_BITS // 2) // _TO_EIGHT_BITS).astype(np.uint8)
        return Image.fromarray(bytes_of_grey).convert("RGB")
    if picture.mode in ("I", "F"):
        raise DataError("32 bits a channel; save it with 8 or 16")
    if picture.has_transparency_data:
        layered = picture.convert("RGBA")
        white = Image.new("RGBA", layered.size, "white")
        return Image.alpha_composite(white, layered).convert("RGB")
    return picture.convert("RGB")


def _planes(picture: Image.Image) -> Pixels:
    """Return the colours of a picture of Pillow as an array (3, H, W)."""
    return np.ascontiguousarray(np.asarray(picture).transpose(2, 0, 1))
