"""Tiny data sets of each kind, written by hand."""

import gzip
import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image


def picture_bytes(
    seed: int = 0, *, size: tuple[int, int] = (8, 8), kind: str = "PNG", mode: str = "RGB"
) -> bytes:
    """A picture of noise as the content of a file; `size` is (width, height)."""
    n_channels = len(Image.new(mode, (1, 1)).getbands())
    shape = (size[1], size[0]) if n_channels == 1 else (size[1], size[0], n_channels)
    pixels = np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)
    stream = io.BytesIO()
    Image.fromarray(pixels, mode).save(stream, kind)
    return stream.getvalue()


@pytest.fixture
def write_folder(tmp_path: Path) -> Callable[..., Path]:
    """Write a folder of pictures, every one another, from their names."""

    def write(*names: str, folder: str = "pictures", size: tuple[int, int] = (8, 8)) -> Path:
        for seed, name in enumerate(names):
            path = tmp_path / folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(picture_bytes(seed, size=size) if path.suffix == ".png" else b"text")
        return tmp_path / folder

    return write


@pytest.fixture
def write_tar(tmp_path: Path) -> Callable[..., Path]:
    """Write an archive of members: bytes, or a TarInfo of anything else."""

    def write(members: dict[str, bytes | tarfile.TarInfo], name: str = "pictures.tar.xz") -> Path:
        mode = {".xz": "w:xz", ".gz": "w:gz", ".tar": "w"}[Path(name).suffix]
        with tarfile.open(tmp_path / name, mode) as archive:
            for member, content in members.items():
                if isinstance(content, tarfile.TarInfo):
                    archive.addfile(content)
                    continue
                info = tarfile.TarInfo(member)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
        return tmp_path / name

    return write


def idx_bytes(array: np.ndarray, *, magic: bytes | None = None) -> bytes:
    """The content of an idx file."""
    start = bytes((0, 0, 8, array.ndim)) if magic is None else magic
    return start + np.array(array.shape, dtype=">u4").tobytes() + array.tobytes()


@pytest.fixture
def write_mnist(tmp_path: Path) -> Callable[..., Path]:
    """Write the four files of MNIST, with 20 and 10 images of 8×8."""

    def write(*, compressed: bool = True, labels: np.ndarray | None = None) -> Path:
        folder = tmp_path / "mnist"
        folder.mkdir(exist_ok=True)
        generator = np.random.default_rng(0)
        for prefix, n in (("train", 20), ("t10k", 10)):
            codes = np.arange(n, dtype=np.uint8) % 10 if labels is None else labels[:n]
            arrays = {
                "images-idx3": generator.integers(0, 256, (n, 8, 8), dtype=np.uint8),
                "labels-idx1": codes,
            }
            for kind, array in arrays.items():
                content = idx_bytes(array)
                name = f"{prefix}-{kind}-ubyte" + (".gz" if compressed else "")
                (folder / name).write_bytes(gzip.compress(content) if compressed else content)
        return folder

    return write


@pytest.fixture
def cifar10() -> dict[str, bytes]:
    """The official files of CIFAR-10, with four images each."""
    n = 4
    generator = np.random.default_rng(1)
    files = {}
    for name in [*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"]:
        records = generator.integers(0, 256, (n, 3073), dtype=np.uint8)
        records[:, 0] = np.arange(n) % 10
        files[name] = records.tobytes()
    names = [
        "airplane",
        "automobile",
        "bird",
        "cat",
        "deer",
        "dog",
        "frog",
        "horse",
        "ship",
        "truck",
    ]
    return files | {"batches.meta.txt": ("\n".join(names) + "\n\n").encode()}
