"""Files of a source, a folder or an archive; pictures of it in a fixed order; decoding; and class folders.

Class folders may lie below ``train/`` and ``test/``, or not.
"""

from __future__ import annotations

import io
import lzma
import os
import shutil
import struct
import tarfile
import tempfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps, UnidentifiedImageError

from neurocontrast.data.columns import is_missing, is_numeric
from neurocontrast.data.natural.images_settings import SPLIT_OF_NAME, ImagesSettings
from neurocontrast.data.problems import N_SHOWN, Problems, shown
from neurocontrast.exceptions import DataError, one_of
from neurocontrast.files import digest_of, digest_of_file

ARCHIVE_ENDINGS = tuple(ending for _, endings, _ in shutil.get_unpack_formats() for ending in endings)
ARCHIVE_FAULTS = (
    *(tarfile.TarError, zipfile.BadZipFile, lzma.LZMAError, zlib.error, EOFError, OSError),
    *(NotImplementedError, RuntimeError, ValueError),
)
"""What reading a damaged or encrypted archive can raise."""

_NOISE = ("__macosx", "thumbs.db", "desktop.ini")
_ENDINGS = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff", ".gif", ".ppm", ".pgm")
_FORMATS = ("JPEG", "PNG", "BMP", "WEBP", "TIFF", "GIF", "PPM")
_MAX_PIXELS = 64_000_000
_FAULTS = (OSError, ValueError, SyntaxError, EOFError, struct.error, Image.DecompressionBombError, TypeError, KeyError)
_TO_EIGHT_BITS = 257


@dataclass(frozen=True)
class FileSet:
    """Sizes of files below a folder by name, with ``/`` between its parts; `source` may be the archive they came in."""

    source: Path
    folder: Path
    sizes: dict[str, int]

    @property
    def names(self) -> list[str]:
        """Names in their order."""
        return sorted(self.sizes)

    def read(self, name: str) -> bytes:
        """Return the content of one file."""
        return (self.folder / name).read_bytes()

    def only(self, wanted: Callable[[str], bool]) -> FileSet:
        """Return the files whose name is wanted."""
        return replace(self, sizes={name: size for name, size in self.sizes.items() if wanted(name)})

    def digest(self) -> str:
        """Return the digest of the archive, or of the names and sizes of a folder's files."""
        if self.source.is_file():
            return digest_of_file(self.source)
        return digest_of(*(f"{name}\x1f{self.sizes[name]}" for name in self.names))

    def find(self, files: Sequence[str], *, dataset: str, hint: str = "") -> dict[str, str]:
        """Return the full name of each of `files`, in whichever folder; all absent ones are refused."""
        found = {file: [name for name in self.names if name.rpartition("/")[2] == file] for file in files}
        lacking = [file for file, places in found.items() if not places]
        if lacking:
            raise DataError(f"{self.source.name}: {dataset} needs {one_of(lacking)}, which is not there.{hint}")
        twice = [file for file, places in found.items() if len(places) > 1]
        if twice:
            raise DataError(
                f"{self.source.name}: {one_of(twice)} is there more than once; name the folder of one of them."
            )
        return {file: places[0] for file, places in found.items()}


@contextmanager
def open_files(source: Path, *, scratch: Path | None = None) -> Iterator[FileSet]:
    """Open the files of a folder, or of an archive, which is unpacked into a temporary folder in `scratch`."""
    if source.is_dir():
        yield FileSet(source, source, _sizes_below(source))
        return
    if not source.is_file():
        raise DataError(f"source: there is no file or folder {shown(source, 200)}.")
    if not source.name.lower().endswith(ARCHIVE_ENDINGS):
        raise DataError(
            f"source: {shown(source, 200)} is neither a folder nor an archive ({', '.join(ARCHIVE_ENDINGS)})."
        )
    with tempfile.TemporaryDirectory(prefix=".tmp-", dir=scratch) as unpacked:
        try:
            # Python's filter for archives of strangers; its reader of zip files leaves out what leads elsewhere.
            kept: dict[str, Any] = {} if source.name.lower().endswith(".zip") else {"filter": "data"}
            shutil.unpack_archive(source, unpacked, **kept)
        except ARCHIVE_FAULTS as error:
            raise DataError(
                f"{source.name}: cannot be read as an archive ({error or type(error).__name__}); it is cut, damaged or "
                "something else. Copy it again."
            ) from None
        yield FileSet(source, Path(unpacked), _sizes_below(Path(unpacked)))


def _sizes_below(folder: Path) -> dict[str, int]:
    """Return the files of a folder, without those that operating systems leave behind; links are followed."""
    sizes: dict[str, int] = {}
    visited: set[str] = set()
    for place, below, files in os.walk(folder, followlinks=True):
        below[:] = [name for name in below if not _is_noise(name)]
        if os.path.realpath(place) in visited:  # a link to a folder above
            below.clear()
            continue
        visited.add(os.path.realpath(place))
        for path in (Path(place, file) for file in files if not _is_noise(file)):
            if path.is_file():
                sizes[path.relative_to(folder).as_posix()] = path.stat().st_size
    return sizes


def _is_noise(name: str) -> bool:
    return name.startswith(".") or name.lower() in _NOISE


@dataclass(frozen=True, eq=False)
class Pictures:
    """Pictures of a source, none of them decoded yet; ``read(i)`` returns picture i, RGB, (3, H, W) uint8."""

    files: Sequence[str]  # unique names; numbers, unless `has_file_names`
    labels: Sequence[str]
    splits: Sequence[str] | None  # "train", "validation" or "test", where the source is divided
    read: Callable[[int], npt.NDArray[np.uint8]]
    origin: dict[str, object]  # for images.json
    columns: dict[str, Sequence[str]] = field(default_factory=dict)
    has_file_names: bool = False

    def __len__(self) -> int:
        return len(self.files)


def grey_to_rgb(image: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Repeat a grey picture (H, W) as red, green and blue, (3, H, W)."""
    return np.repeat(image[np.newaxis], 3, axis=0)


def class_names(labels: Sequence[str], *, word: str = "class") -> list[str]:
    """Return classes as text: behind a word where a table would take them for numbers or missing values."""
    if is_numeric(labels) or any(is_missing(label) for label in labels):
        return [f"{word} {label}" for label in labels]
    return list(labels)


def decode(content: bytes) -> npt.NDArray[np.uint8]:
    """Return a picture as RGB bytes (3, H, W), turned as its EXIF data say; transparency is laid on white."""
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
    """Scale a picture (3, H, W) to cover (height, width), and crop the rest around the centre; same bytes anywhere."""
    height, width = size
    if image.shape[1:] == (height, width):
        return image
    picture = Image.fromarray(np.ascontiguousarray(image.transpose(1, 2, 0)))
    return _planes(ImageOps.fit(picture, (width, height), method=Image.Resampling.BICUBIC))


def paint(image: npt.NDArray[np.uint8], colour: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Lay a grey picture (3, H, W), bright on black, as black on a colour: (255 - x)·c/255, rounded down."""
    if not (np.array_equal(image[0], image[1]) and np.array_equal(image[0], image[2])):
        raise DataError("a background is laid behind grey pictures, and this one has colours; leave out background")
    shade = 255 - image.astype(np.uint16)
    return (shade * colour.astype(np.uint16)[:, np.newaxis, np.newaxis] // 255).astype(np.uint8)


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


def is_picture(name: str) -> bool:
    """Say whether a file is a picture, by the ending of its name."""
    return name.lower().endswith(_ENDINGS)


def read_class_folders(_: ImagesSettings, files: FileSet) -> Pictures:
    """Return pictures by class and split (``cat/1.jpg``, ``train/cat/1.jpg``), without folders that all share."""
    n_files, files = len(files.sizes), files.only(is_picture)
    if not files.names:
        raise DataError(
            f"source: {shown(files.source, 200)} holds no picture ({', '.join(_ENDINGS)}); "
            f"it holds {n_files} other files."
        )
    names = files.names
    paths = _without_common_folders([name.split("/") for name in names])
    splits = _splits(paths, files.source.name)
    below = [path[1:] for path in paths] if splits else paths
    problems = Problems(files.source.name)
    for path, name in zip(below, names, strict=True):
        if len(path) < 2:
            problems.add("this picture lies in no class folder", name=shown(name))
    problems.raise_if_any()
    known = sorted({path[0] for path in below})
    named = dict(zip(known, class_names(known), strict=True))
    return Pictures(
        files=["/".join(path) for path in paths],
        labels=[named[path[0]] for path in below],
        splits=splits,
        read=lambda number: decode(files.read(names[number])),
        origin={"kind": "pictures", "n_files_skipped": n_files - len(names), "digest": files.digest()},
        has_file_names=True,
    )


def _without_common_folders(paths: list[list[str]]) -> list[list[str]]:
    while (
        all(len(path) > 2 for path in paths)
        and len({path[0] for path in paths}) == 1
        and paths[0][0].lower() not in SPLIT_OF_NAME
    ):
        paths = [path[1:] for path in paths]
    return paths


def _splits(paths: list[list[str]], source: str) -> list[str] | None:
    found = [SPLIT_OF_NAME.get(path[0].lower()) if len(path) > 1 else None for path in paths]
    if not any(found):
        return None
    outside = ["/".join(path) for path, split in zip(paths, found, strict=True) if split is None]
    if outside:
        counts = Counter(path[0] for path, split in zip(paths, found, strict=True) if split is not None)
        more = f" … and {len(outside) - N_SHOWN} more" if len(outside) > N_SHOWN else ""
        raise DataError(
            f"{source}: some pictures lie in {one_of(sorted(counts))}, and {len(outside)} beside them: "
            f"{one_of(outside[:N_SHOWN])}{more}. Divide all, or none."
        )
    return [split for split in found if split is not None]
