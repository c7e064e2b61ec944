"""Pictures of a folder or an archive: decoded, or CIFAR-10, CIFAR-100, MNIST, Fashion-MNIST; scikit-learn's digits."""

import gzip
import io
import lzma
import math
import shutil
import struct
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps, UnidentifiedImageError

from neurocontrast.cells import is_missing
from neurocontrast.data.columns import is_numeric
from neurocontrast.data.layouts.tree import joined_path, read_tree
from neurocontrast.data.problems import N_SHOWN, Problems, shown
from neurocontrast.exceptions import DataError, one_of
from neurocontrast.files import digest_of, digest_of_file
from neurocontrast.natural.record import ImagesOrigin

ARCHIVE_ENDINGS = tuple(
    ending for _, endings, _ in shutil.get_unpack_formats() for ending in endings
)
ARCHIVE_FAULTS = (
    *(tarfile.TarError, zipfile.BadZipFile, lzma.LZMAError, zlib.error, EOFError, OSError),
    *(NotImplementedError, RuntimeError, ValueError),
)
"""What reading a damaged or encrypted archive can raise."""

_NOISE = ("__macosx", "thumbs.db", "desktop.ini")
_ENDINGS = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff", ".gif", ".ppm", ".pgm")
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
_SPLIT_OF_NAME = {
    **{"train": "train", "training": "train", "test": "test", "testing": "test"},
    **dict.fromkeys(("val", "valid", "validation"), "validation"),
}
"""Names of folders that are splits, in lower case."""

_N_PIXELS = 3 * 32 * 32
_CLASSES = {
    "mnist": [f"digit {digit}" for digit in range(10)],
    "fashion-mnist": [
        *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
        *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
    ],
}
_FILES_OF_CIFAR = {
    "cifar10": ([f"data_batch_{number}.bin" for number in range(1, 6)], "test_batch.bin"),
    "cifar100": (["train.bin"], "test.bin"),
}
_LABELS_OF_CIFAR = {
    "cifar10": {"label": ("batches.meta.txt", 10)},
    "cifar100": {
        "coarse_label": ("coarse_label_names.txt", 20),
        "label": ("fine_label_names.txt", 100),
    },
}
"""Columns of labels, in the order of the bytes of a record: file with the names, and number of classes."""

Pixels = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class FileSet:
    """Files below a folder by name, with ``/`` between its parts; `source` may be the archive they came in."""

    source: Path
    folder: Path
    names: list[str]

    def read(self, name: str) -> bytes:
        """Return the content of one file."""
        return (self.folder / name).read_bytes()

    def called(self, last: str) -> str | None:
        """Return the name of the file whose last part is `last`, in any folder, or None; two such files are refused."""
        found = [name for name in self.names if name.rpartition("/")[2] == last]
        if len(found) > 1:
            raise DataError(
                f"{self.source.name}: '{last}' is there more than once; name the folder of one of them."
            )
        return found[0] if found else None

    def digest(self) -> str:
        """Return the digest of the archive, or of the names and sizes of a folder's files."""
        if self.source.is_file():
            return digest_of_file(self.source)
        return digest_of(
            *(f"{name}\x1f{(self.folder / name).stat().st_size}" for name in self.names)
        )


@contextmanager
def open_files(source: Path, *, scratch: Path | None = None) -> Iterator[FileSet]:
    """Open the files of a folder, or of an archive, which is unpacked into a temporary folder in `scratch`."""
    if source.is_dir():
        yield FileSet(source, source, _names_below(source))
        return
    if not source.is_file():
        raise DataError(f"source: there is no file or folder {shown(source, 200)}.")
    if not source.name.lower().endswith(ARCHIVE_ENDINGS):
        raise DataError(
            f"source: {shown(source, 200)} is neither a folder nor an archive ({', '.join(ARCHIVE_ENDINGS)})."
        )
    with tempfile.TemporaryDirectory(prefix=".tmp-", dir=scratch) as unpacked:
        try:
            # Python's filter for archives of strangers; its reader of zip files leaves out what
            # leads elsewhere.
            if source.name.lower().endswith(".zip"):
                shutil.unpack_archive(source, unpacked)
            else:
                shutil.unpack_archive(source, unpacked, filter="data")
        except ARCHIVE_FAULTS as error:
            raise DataError(
                f"{source.name}: cannot be read as an archive ({error or type(error).__name__}); it is cut, damaged or "
                "something else. Copy it again."
            ) from None
        yield FileSet(source, Path(unpacked), _names_below(Path(unpacked)))


def _names_below(folder: Path) -> list[str]:
    """Return the files of a folder in their order, without those that operating systems leave; links are followed."""
    found = (
        joined_path(place, name)
        for place, names in read_tree(folder).folders.items()
        for name in names
    )
    kept = (name for name in found if not any(part.lower() in _NOISE for part in name.split("/")))
    return sorted(name for name in kept if (folder / name).is_file())


@dataclass(frozen=True, eq=False)
class Pictures:
    """Pictures of a source, none of them decoded yet; ``read(i)`` returns picture i, RGB, (3, H, W) uint8."""

    files: Sequence[str]  # unique names; numbers, unless `has_file_names`
    labels: Sequence[str]
    splits: Sequence[str] | None  # "train", "validation" or "test", where the source is divided
    read: Callable[[int], Pixels]
    origin: ImagesOrigin
    """Section of ``images.json``, without the name of the source."""
    columns: dict[str, Sequence[str]] = field(default_factory=dict)
    has_file_names: bool = False

    def __len__(self) -> int:
        return len(self.files)


def grey_to_rgb(image: Pixels) -> Pixels:
    """Repeat a grey picture (H, W) as red, green and blue, (3, H, W)."""
    return np.repeat(image[np.newaxis], 3, axis=0)


def class_names(labels: Sequence[str], *, word: str = "class") -> list[str]:
    """Return classes as text: behind a word where a table would take them for numbers or missing values."""
    if is_numeric(labels) or any(map(is_missing, labels)):
        return [f"{word} {label}" for label in labels]
    return list(labels)


def decode(content: bytes) -> Pixels:
    """Return a picture as RGB bytes (3, H, W), turned as its EXIF data say; transparency is laid on white."""
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
    """Scale a picture (3, H, W) to cover (height, width), and crop the rest around the centre; same bytes anywhere."""
    height, width = size
    if image.shape[1:] == (height, width):
        return image
    picture = Image.fromarray(np.ascontiguousarray(image.transpose(1, 2, 0)))
    return _planes(ImageOps.fit(picture, (width, height), method=Image.Resampling.BICUBIC))


def paint(image: Pixels, colour: Pixels) -> Pixels:
    """Lay a grey picture (3, H, W), bright on black, as black on a colour: (255 - x)·c/255, rounded down."""
    if not (image == image[0]).all():
        raise DataError(
            "a background is laid behind grey pictures, and this one has colours; leave out background"
        )
    shade = 255 - image.astype(np.uint16)
    return (shade * colour.astype(np.uint16)[:, np.newaxis, np.newaxis] // 255).astype(np.uint8)


def _to_rgb(picture: Image.Image) -> Image.Image:
    if picture.mode.startswith("I;16"):
        grey = np.asarray(picture).astype(np.uint32)
        return Image.fromarray(
            ((grey + _TO_EIGHT_BITS // 2) // _TO_EIGHT_BITS).astype(np.uint8)
        ).convert("RGB")
    if picture.mode in ("I", "F"):
        raise DataError("32 bits a channel; save it with 8 or 16")
    if picture.has_transparency_data:
        layered = picture.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", layered.size, "white"), layered).convert(
            "RGB"
        )
    return picture.convert("RGB")


def _planes(picture: Image.Image) -> Pixels:
    return np.ascontiguousarray(np.asarray(picture).transpose(2, 0, 1))


def read_class_folders(files: FileSet) -> Pictures:
    """Return pictures by class and split (``cat/1.jpg``, ``train/cat/1.jpg``), without folders that all share."""
    names = [name for name in files.names if name.lower().endswith(_ENDINGS)]
    n_others = len(files.names) - len(names)
    if not names:
        raise DataError(
            f"source: {shown(files.source, 200)} holds no picture ({', '.join(_ENDINGS)}); it holds {n_others} other "
            "files."
        )
    paths = [name.split("/") for name in names]
    while (
        all(len(path) > 2 and path[0] == paths[0][0] for path in paths)
        and paths[0][0].lower() not in _SPLIT_OF_NAME
    ):
        paths = [path[1:] for path in paths]
    splits = [_SPLIT_OF_NAME.get(path[0].lower(), "") if len(path) > 1 else "" for path in paths]
    outside = ["/".join(path) for path, split in zip(paths, splits, strict=True) if not split]
    if 0 < len(outside) < len(paths):
        raise DataError(
            f"{files.source.name}: some pictures lie in folders of splits, and {len(outside)} outside of them: "
            f"{one_of(outside[:N_SHOWN])}. Divide all, or none."
        )
    below = paths if outside else [path[1:] for path in paths]
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
        splits=None if outside else splits,
        read=lambda number: decode(files.read(names[number])),
        origin=ImagesOrigin(kind="pictures", n_files_skipped=n_others, digest=files.digest()),
        has_file_names=True,
    )


def read_cifar(dataset: str, files: FileSet) -> Pictures:
    """Return CIFAR-10 (records of 1 + 3,072 bytes) or CIFAR-100 (2 + 3,072)."""
    train, test = _FILES_OF_CIFAR[dataset]
    columns = _LABELS_OF_CIFAR[dataset]
    length = len(columns) + _N_PIXELS
    parts = dict[str, Pixels]()
    for name in (*train, test):
        content = np.frombuffer(_content(files, name, dataset), dtype=np.uint8)
        if not len(content) or len(content) % length:
            raise DataError(
                f"{name}: {len(content):,} bytes; {dataset} has records of {length:,} bytes, so it is cut or of "
                "another data set."
            )
        parts[name] = content.reshape(-1, length)
        for number, (column, (_, n_classes)) in enumerate(columns.items()):
            _check_codes(name, column, parts[name][:, number], n_classes)
    records = np.concatenate(list(parts.values()))
    labels = dict[str, list[str]]()
    for number, (column, (file, n_classes)) in enumerate(columns.items()):
        known = _content(files, file, dataset).decode("utf-8", errors="replace").split()
        if len(known) != n_classes or len(set(known)) != len(known):
            raise DataError(
                f"{files.source.name}: {file} must name {n_classes} classes, each once. Found {len(known)}: "
                f"{shown(', '.join(known))}."
            )
        labels[column] = np.array(known, dtype=object)[records[:, number]].tolist()
    return Pictures(
        files=[f"{file}/{row}" for file, part in parts.items() for row in range(len(part))],
        labels=labels.pop("label"),
        splits=["test" if file == test else "train" for file, part in parts.items() for _ in part],
        read=lambda number: records[number, len(columns) :].reshape(3, 32, 32),
        columns=dict(labels),
        origin=ImagesOrigin(kind="cifar binary", digest=files.digest()),
    )


def _content(files: FileSet, name: str, dataset: str) -> bytes:
    place = files.called(name)
    if place is None:
        hint = "A folder or archive of pictures is dataset: folder."
        if files.called("batches.meta") or files.called("meta"):
            hint = "This is the Python version, whose pickles are never read: take the binary version of the same page."
        raise DataError(
            f"{files.source.name}: {dataset} needs '{name}', which is not there. {hint}"
        )
    return files.read(place)


def _check_codes(name: str, column: str, codes: Pixels, n_classes: int) -> None:
    bad = np.flatnonzero(codes >= n_classes)
    if len(bad):
        raise DataError(
            f"{name}: {len(bad)} images have a {column} beyond {n_classes - 1} (image {bad[0]} has {codes[bad[0]]})."
        )


def read_mnist(dataset: str, files: FileSet) -> Pictures:
    """Return the four idx files of MNIST or Fashion-MNIST: ``train-images-idx3-ubyte`` and so on."""
    names = np.array(_CLASSES[dataset], dtype=object)
    parts = {}
    for split, prefix in (("train", "train"), ("test", "t10k")):
        pixels, codes = (
            _read_file(files, f"{prefix}-{kind}", n_dims=n)
            for kind, n in (("images", 3), ("labels", 1))
        )
        if len(pixels) != len(codes):
            raise DataError(f"{split}: there are {len(pixels):,} images and {len(codes):,} labels.")
        _check_codes(f"{prefix}-labels", "label", codes, len(names))
        parts[split] = pixels, codes
    sizes = [pixels.shape[1:] for pixels, _ in parts.values()]
    if sizes[0] != sizes[1]:
        raise DataError(f"training images are {sizes[0]} pixels and test images {sizes[1]}.")
    pixels, codes = (np.concatenate(each) for each in zip(*parts.values(), strict=True))
    return Pictures(
        files=[
            f"{split}/{row}"
            for split, (_, of_split) in parts.items()
            for row in range(len(of_split))
        ],
        labels=names[codes].tolist(),
        splits=[split for split, (_, of_split) in parts.items() for _ in of_split],
        read=lambda number: grey_to_rgb(pixels[number]),
        origin=ImagesOrigin(kind="idx", digest=files.digest()),
    )


def _read_file(files: FileSet, kind: str, *, n_dims: int) -> Pixels:
    allowed = [f"{kind}{mark}idx{n_dims}-ubyte{ending}" for mark in "-." for ending in ("", ".gz")]
    for name in allowed:
        place = files.called(name)
        if place is not None:
            return read_idx(name, files.read(place), n_dims=n_dims)
    raise DataError(f"{files.source.name}: none of {one_of(allowed)} is there.")


def read_idx(name: str, content: bytes, *, n_dims: int) -> Pixels:
    """Return the array of an idx file: 00 00 08, number of dimensions, each as a big-endian 32-bit number, bytes."""
    try:
        content = gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content
    except ARCHIVE_FAULTS as error:
        raise DataError(f"{name}: it is cut or damaged ({error}). Copy it again.") from None
    if content[:4] != bytes((0, 0, 8, n_dims)):
        found = content[:4].hex(" ") or "nothing"
        raise DataError(
            f"{name}: such an idx file of bytes begins with 00 00 08 {n_dims:02x}. Found {found}."
        )
    start = 4 + 4 * n_dims
    if len(content) < start:
        raise DataError(f"{name}: it is cut or damaged (it ends within its header). Copy it again.")
    shape = tuple(map(int, np.frombuffer(content[4:start], dtype=">u4")))
    announced = math.prod(shape)
    n_found = len(content) - start
    if 0 in shape or n_found != announced:
        raise DataError(
            f"{name}: its header announces {announced:,} bytes, and it holds {n_found:,}."
        )
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)


def read_digits() -> Pictures:
    """Return 1,797 digits of 8×8 that need no download; their values of 0 to 16 become 0 to 255."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    pixels = ((digits.images.astype(np.int64) * 255 + 8) // 16).astype(np.uint8)
    names = class_names(list(map(str, digits.target_names)), word="digit")
    return Pictures(
        files=list(map(str, range(len(pixels)))),
        labels=[names[code] for code in digits.target],
        splits=None,
        read=lambda number: grey_to_rgb(pixels[number]),
        origin=ImagesOrigin(kind="scikit-learn"),
    )
