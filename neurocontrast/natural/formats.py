"""Read natural images: class folders, CIFAR-10 and CIFAR-100, MNIST, and scikit-learn's digits."""

import gzip
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from neurocontrast.cells import is_missing
from neurocontrast.data.columns import is_numeric
from neurocontrast.data.problems import N_SHOWN, Problems, shown
from neurocontrast.exceptions import DataError, one_of
from neurocontrast.natural.archives import ARCHIVE_FAULTS, FileSet
from neurocontrast.natural.pictures import Pixels, decode, grey_to_rgb
from neurocontrast.natural.record import ImagesOrigin

_ENDINGS = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff", ".gif", ".ppm", ".pgm")
_SPLIT_OF_NAME = {
    **{"train": "train", "training": "train", "test": "test", "testing": "test"},
    **dict.fromkeys(("val", "valid", "validation"), "validation"),
}
"""Name of a folder in lower case → split of the images in the folder."""

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
"""Column of labels → file with the classes' names, and number of classes; in the order of the
bytes of a record.
"""


@dataclass(frozen=True, eq=False)
class Pictures:
    """Pictures of a data set with labels and splits; a picture is decoded when read."""

    files: Sequence[str]
    """Unique name of each picture: a number, or the path of the file if `has_file_names`."""
    labels: Sequence[str]
    splits: Sequence[str] | None
    """``train``, ``validation`` or ``test`` for each picture; None if the data set is not
    divided.
    """
    read: Callable[[int], Pixels]
    """Function that returns a picture by its number: RGB, (3, H, W) uint8."""
    origin: ImagesOrigin
    """Section ``source`` of ``images.json``, without the name of the source."""
    columns: dict[str, Sequence[str]] = field(default_factory=dict)
    has_file_names: bool = False

    def __len__(self) -> int:
        return len(self.files)


def class_names(labels: Sequence[str], *, word: str = "class") -> list[str]:
    """Return names of classes as text, "class 7" for 7, which a table would read as a number."""
    if is_numeric(labels) or any(map(is_missing, labels)):
        return [f"{word} {label}" for label in labels]
    return list(labels)


def read_class_folders(files: FileSet) -> Pictures:
    """Return the `Pictures` in folders of classes: ``cat/1.jpg`` or ``train/cat/1.jpg``.

    The name of a folder is the class of the pictures inside, and a folder such as ``train`` above
    the class folders is the split. Outer folders that contain all pictures, as ``data`` in
    ``data/cat/1.jpg`` and ``data/dog/1.jpg``, are ignored: they name neither class nor split.
    `files` without a picture, or with a picture outside of class folders, are a `DataError`.
    """
    names = [name for name in files.names if name.lower().endswith(_ENDINGS)]
    n_others = len(files.names) - len(names)
    if not names:
        raise DataError(
            f"source: {shown(files.source, 200)} holds no picture ({', '.join(_ENDINGS)}); it "
            f"holds {n_others} other files."
        )
    paths = _without_shared_folders([name.split("/") for name in names])
    splits = _splits_of_folders(files, paths)
    below = paths
    if splits is not None:
        below = [path[1:] for path in paths]
    problems = Problems(files.source.name)
    for path, name in zip(below, names, strict=True):
        if len(path) < 2:
            problems.add("this picture lies in no class folder", name=shown(name))
    problems.raise_if_any()
    folders = sorted({path[0] for path in below})
    classes = dict(zip(folders, class_names(folders), strict=True))
    return Pictures(
        files=list(map("/".join, paths)),
        labels=[classes[path[0]] for path in below],
        splits=splits,
        read=lambda number: decode(files.read(names[number])),
        origin=ImagesOrigin(kind="pictures", n_files_skipped=n_others, digest=files.digest()),
        has_file_names=True,
    )


def _without_shared_folders(paths: list[list[str]]) -> list[list[str]]:
    """Return `paths` without the leading folders that all paths share.

    A path is a list of folders and file. A folder of a split, such as ``train``, stays, and so does
    the last folder, which is the class.
    """
    while paths[0][0].lower() not in _SPLIT_OF_NAME:
        first = paths[0][0]
        if not all(len(path) > 2 and path[0] == first for path in paths):
            break
        paths = [path[1:] for path in paths]
    return paths


def _splits_of_folders(files: FileSet, paths: Sequence[Sequence[str]]) -> list[str] | None:
    """Return the split of each picture, by the name of its folder; None without such folders.

    `paths` are the pictures' paths, as lists of folders and file, in the order of the result; the
    folder of a split, the first of a path, is called ``train``, ``test``, ``validation`` or alike.
    Pictures both inside and outside of such folders are a `DataError`.
    """
    splits = []
    outside = []
    for path in paths:
        split = ""
        if len(path) > 1:
            split = _SPLIT_OF_NAME.get(path[0].lower(), "")
        splits.append(split)
        if not split:
            outside.append("/".join(path))
    if not outside:
        return splits
    if len(outside) < len(paths):
        raise DataError(
            f"{files.source.name}: some pictures lie in folders of splits, and {len(outside)} "
            f"outside of them: {one_of(outside[:N_SHOWN])}. Divide all, or none."
        )
    return None


def read_cifar(dataset: str, files: FileSet) -> Pictures:
    """Return CIFAR-10 or CIFAR-100 as `Pictures`: pixels, classes and splits of all pictures.

    `dataset` is ``cifar10`` or ``cifar100``, and `files` is the folder or unpacked archive of the
    binary version, with records of 1 + 3,072 or 2 + 3,072 bytes.
    """
    train, test = _FILES_OF_CIFAR[dataset]
    columns = _LABELS_OF_CIFAR[dataset]
    names: list[str] = []
    splits: list[str] = []
    blocks = []
    split_of = {**dict.fromkeys(train, "train"), test: "test"}
    for file, split in split_of.items():
        block = _read_records(dataset, files, file)
        blocks.append(block)
        names += [f"{file}/{row}" for row in range(len(block))]
        splits += [split] * len(block)
    records = np.concatenate(blocks)
    labels = dict[str, list[str]]()
    for number, (column, (file, n_classes)) in enumerate(columns.items()):
        classes = _content(files, file, dataset).decode("utf-8", errors="replace").split()
        if len(classes) != n_classes or len(set(classes)) != len(classes):
            raise DataError(
                f"{files.source.name}: {file} must name {n_classes} classes, each once. Found "
                f"{len(classes)}: {shown(', '.join(classes))}."
            )
        labels[column] = np.array(classes, dtype=object)[records[:, number]].tolist()
    return Pictures(
        files=names,
        labels=labels.pop("label"),
        splits=splits,
        read=lambda number: records[number, len(columns) :].reshape(3, 32, 32),
        columns=dict(labels),
        origin=ImagesOrigin(kind="cifar binary", digest=files.digest()),
    )


def _read_records(dataset: str, files: FileSet, file: str) -> Pixels:
    """Return the records of a CIFAR file, an array (n, bytes of labels and pixels).

    A file of another size, or with a label beyond the number of classes, is refused.
    """
    columns = _LABELS_OF_CIFAR[dataset]
    length = len(columns) + _N_PIXELS
    content = np.frombuffer(_content(files, file, dataset), dtype=np.uint8)
    if not len(content) or len(content) % length:
        raise DataError(
            f"{file}: {len(content):,} bytes; {dataset} has records of {length:,} bytes, so it is "
            "cut or of another data set."
        )
    records = content.reshape(-1, length)
    for number, (column, (_, n_classes)) in enumerate(columns.items()):
        _check_codes(file, column, records[:, number], n_classes)
    return records


def _content(files: FileSet, name: str, dataset: str) -> bytes:
    """Return the bytes of the CIFAR file called `name` in `files`, a folder or an unpacked archive.

    If no such file is there, a DataError names it.
    """
    path = files.called(name)
    if path is not None:
        return files.read(path)
    hint = "A folder or archive of pictures is dataset: folder."
    if files.called("batches.meta") or files.called("meta"):
        hint = (
            "This is the Python version, whose pickles are never read: take the binary version of "
            "the same page."
        )
    raise DataError(f"{files.source.name}: {dataset} needs '{name}', which is not there. {hint}")


def _check_codes(name: str, column: str, codes: Pixels, n_classes: int) -> None:
    """Refuse a file `name` with a number of a class in `codes` that the data set does not have.

    `column` is the column of labels, for the message, and classes are counted from 0.
    """
    bad = np.flatnonzero(codes >= n_classes)
    if len(bad):
        raise DataError(
            f"{name}: {len(bad)} images have a {column} beyond {n_classes - 1} (image {bad[0]} has "
            f"{codes[bad[0]]})."
        )


def read_mnist(dataset: str, files: FileSet) -> Pictures:
    """Return MNIST or Fashion-MNIST as `Pictures`, from four idx files, of train and test.

    `dataset` is ``mnist`` or ``fashion-mnist``. Each of the two splits has a file of images and a
    file of labels in `files`.
    """
    classes = np.array(_CLASSES[dataset], dtype=object)
    names: list[str] = []
    splits: list[str] = []
    pixels_of = {}
    codes_of = {}
    for split, prefix in (("train", "train"), ("test", "t10k")):
        pixels = _read_file(files, f"{prefix}-images", n_dims=3)
        codes = _read_file(files, f"{prefix}-labels", n_dims=1)
        if len(pixels) != len(codes):
            raise DataError(f"{split}: there are {len(pixels):,} images and {len(codes):,} labels.")
        _check_codes(f"{prefix}-labels", "label", codes, len(classes))
        pixels_of[split] = pixels
        codes_of[split] = codes
        names += [f"{split}/{row}" for row in range(len(pixels))]
        splits += [split] * len(pixels)
    sizes = [pixels.shape[1:] for pixels in pixels_of.values()]
    if sizes[0] != sizes[1]:
        raise DataError(f"training images are {sizes[0]} pixels and test images {sizes[1]}.")
    pixels = np.concatenate(list(pixels_of.values()))
    codes = np.concatenate(list(codes_of.values()))
    return Pictures(
        files=names,
        labels=classes[codes].tolist(),
        splits=splits,
        read=lambda number: grey_to_rgb(pixels[number]),
        origin=ImagesOrigin(kind="idx", digest=files.digest()),
    )


def _read_file(files: FileSet, kind: str, *, n_dims: int) -> Pixels:
    """Return the images or labels in one of MNIST's files, under any of the file's usual names.

    `kind` is the beginning of the names, such as ``train-images``, and `n_dims` is 3 for images (n,
    H, W) and 1 for labels (n,).
    """
    names = [f"{kind}{mark}idx{n_dims}-ubyte{ending}" for mark in "-." for ending in ("", ".gz")]
    for name in names:
        path = files.called(name)
        if path is not None:
            return read_idx(name, files.read(path), n_dims=n_dims)
    raise DataError(f"{files.source.name}: none of {one_of(names)} is there.")


def read_idx(name: str, content: bytes, *, n_dims: int) -> Pixels:
    """Parse an idx file (MNIST's format), compressed or not, to an array of bytes.

    The file begins with 00 00 08 and the number of dimensions, then has the size of each as a
    big-endian 32-bit number, then bytes.
    """
    try:
        if content.startswith(b"\x1f\x8b"):
            content = gzip.decompress(content)
    except ARCHIVE_FAULTS as error:
        raise DataError(f"{name}: it is cut or damaged ({error}). Copy it again.") from None
    if content[:4] != bytes((0, 0, 8, n_dims)):
        begins = content[:4].hex(" ") or "nothing"
        raise DataError(
            f"{name}: such an idx file of bytes begins with 00 00 08 {n_dims:02x}. Found {begins}."
        )
    start = 4 + 4 * n_dims
    if len(content) < start:
        raise DataError(f"{name}: it is cut or damaged (it ends within its header). Copy it again.")
    shape = tuple(map(int, np.frombuffer(content[4:start], dtype=">u4")))
    announced = math.prod(shape)
    n_bytes = len(content) - start
    if 0 in shape or n_bytes != announced:
        raise DataError(
            f"{name}: its header announces {announced:,} bytes, and it holds {n_bytes:,}."
        )
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)


def read_digits() -> Pictures:
    """Return scikit-learn's 1,797 handwritten digits, pictures of 8×8, as `Pictures` with labels.

    Nothing is downloaded. Grey values from 0 to 16 become 0 to 255.
    """
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
