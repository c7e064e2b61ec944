"""Pictures from the bytes of a file to red, green and blue of one size."""

from __future__ import annotations

import io
import struct

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps, UnidentifiedImageError

from neurocontrast.exceptions import DataError

__all__ = ["PICTURE_ENDINGS", "decode", "scale"]

PICTURE_ENDINGS = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff", ".gif", ".ppm", ".pgm")
_FORMATS = ("JPEG", "PNG", "BMP", "WEBP", "TIFF", "GIF", "PPM")
_MAX_PIXELS = 64_000_000
_FAULTS = (OSError, ValueError, SyntaxError, EOFError, struct.error, Image.DecompressionBombError, TypeError, KeyError)
_TO_EIGHT_BITS = 257


def decode(content: bytes) -> npt.NDArray[np.uint8]:
    """Return a picture as (3, H, W) bytes, turned the way its EXIF data say.

    Grey is repeated, transparency is laid on white, palettes and CMYK are converted, 16 bits become 8. Colour
    profiles are not applied.
    """
    try:
        with Image.open(io.BytesIO(content), formats=_FORMATS) as picture:
            if picture.width * picture.height > _MAX_PIXELS:
                raise DataError(f"{picture.width}×{picture.height} pixels are more than {_MAX_PIXELS:,}")
            n_frames = getattr(picture, "n_frames", 1)
            if picture.format != "MPO" and n_frames > 1:
                raise DataError(f"a moving picture ({n_frames} frames); save one frame")
            return _planes(_to_rgb(ImageOps.exif_transpose(picture) or picture))
    except UnidentifiedImageError:  # Pillow's message names an object in memory
        raise DataError(f"cannot be decoded (it does not begin as {', '.join(_FORMATS)} files do)") from None
    except _FAULTS as error:
        raise DataError(f"cannot be decoded ({error})") from None


def scale(image: npt.NDArray[np.uint8], size: tuple[int, int]) -> npt.NDArray[np.uint8]:
    """Scale a picture (3, H, W) to cover (height, width), and crop the rest around the centre.

    Pillow's bicubic resampling works in whole numbers: the same bytes on every machine.
    """
    height, width = size
    if image.shape[1:] == (height, width):
        return image
    picture = Image.fromarray(np.ascontiguousarray(image.transpose(1, 2, 0)))
    return _planes(ImageOps.fit(picture, (width, height), method=Image.Resampling.BICUBIC))


def _to_rgb(picture: Image.Image) -> Image.Image:
    if picture.mode.startswith("I;16"):
        grey = np.asarray(picture).astype(np.uint32)
        return Image.fromarray(((grey + _TO_EIGHT_BITS // 2) // _TO_EIGHT_BITS).astype(np.uint8)).convert("RGB")
    if picture.mode in ("I", "F"):
        raise DataError("32 bits a channel; save it with 8 or 16")
    if picture.has_transparency_data:
        layered = picture.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", layered.size, "white"), layered).convert("RGB")
    return picture.convert("RGB")


def _planes(picture: Image.Image) -> npt.NDArray[np.uint8]:
    return np.ascontiguousarray(np.asarray(picture).transpose(2, 0, 1))
