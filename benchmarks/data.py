"""What preprocessing and the cache cost, beside nibabel's own decoding and MONAI's transforms.

Reads the same .nii.gz files with (a) nibabel alone, (b) this package's load_volume, (c) MONAI's chain of the same steps
(load, orient to RAS, resample, crop or pad, z-score), in turn, one thread; then the cache's reading beside a plain read
of the same bytes.

    python benchmarks/data.py                       # simulated heads of 1 mm
    python benchmarks/data.py --images FOLDER       # .nii.gz files of your own
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import nibabel as nib
import numpy as np
import torch

import neurocontrast
from neurocontrast.data.cache import VolumeCache
from neurocontrast.data.cohort import read_cohort
from neurocontrast.data.datasets import VolumeDataset
from neurocontrast.data.volumes import Preprocessing, load_volume


def main() -> None:
    torch.set_num_threads(1)
    options = _options()
    with tempfile.TemporaryDirectory() as scratch:
        paths = _images(options, Path(scratch))
        preprocessing = Preprocessing(spacing_mm=options.spacing_mm, shape=tuple(options.shape))
        readers: dict[str, Callable[[str], object]] = {
            "nibabel, decoding alone": lambda path: np.asarray(nib.load(path).dataobj, dtype=np.float32),
            "neurocontrast load_volume": lambda path: load_volume(path, preprocessing),
            "MONAI, the same steps": _monai_chain(preprocessing),
        }
        seconds = _in_turn(readers, paths, options.repeats)
        _show(seconds, f"first reading of {len(paths)} scans to {options.shape} at {options.spacing_mm} mm")
        cache = VolumeCache(Path(scratch) / "cache", preprocessing)
        cache.prepare(paths, n_workers=1)
        entries = sorted((Path(scratch) / "cache").rglob("*.npy"))
        cached: dict[str, Callable[[str], object]] = {
            "plain read of the same bytes": lambda path: entries[paths.index(path)].read_bytes(),
            "VolumeCache.read, to float32": lambda path: torch.from_numpy(np.asarray(cache.read(path))).float(),
        }
        _show(_in_turn(cached, paths, 10 * options.repeats), "reading from the cache (all in the page cache)")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=Path, help="folder of .nii.gz files; simulated ones when not given")
    parser.add_argument("--spacing-mm", type=float, default=1.5)
    parser.add_argument("--shape", type=int, nargs=3, default=[121, 145, 121])
    parser.add_argument("--repeats", type=int, default=3)
    return parser.parse_args()


def _images(options: argparse.Namespace, scratch: Path) -> list[str]:
    if options.images is not None:
        return [str(path) for path in sorted(options.images.glob("*.nii.gz"))]
    table = neurocontrast.simulate(scratch / "cohort", n_subjects=4, n_sites=2, spacing_mm=1.0)
    return VolumeDataset(read_cohort(table), VolumeCache(scratch / "unused", Preprocessing())).paths


def _monai_chain(preprocessing: Preprocessing) -> Callable[[str], object]:
    from monai.transforms import (
        Compose,
        LoadImage,
        NormalizeIntensity,
        Orientation,
        ResizeWithPadOrCrop,
        Spacing,
    )

    return Compose(
        [
            LoadImage(ensure_channel_first=True),
            Orientation("RAS", labels=None),
            Spacing((preprocessing.spacing_mm,) * 3),
            ResizeWithPadOrCrop(preprocessing.shape),
            NormalizeIntensity(),
        ]
    )


def _in_turn(readers: dict[str, Callable[[str], object]], paths: list[str], repeats: int) -> dict[str, list[float]]:
    """Time the readers one after the other on each file, so that a slow moment of the machine meets all of them."""
    seconds: dict[str, list[float]] = {name: [] for name in readers}
    for repeat in range(repeats + 1):
        for path in paths:
            for name, read in readers.items():
                start = time.process_time()
                read(path)
                if repeat:  # the first round warms up imports and the page cache
                    seconds[name].append(time.process_time() - start)
    return seconds


def _show(seconds: dict[str, list[float]], title: str) -> None:
    first = statistics.median(next(iter(seconds.values())))
    print(f"\n{title}; median CPU time a scan\n\n| | ms | over the first |\n|---|---|---|")
    for name, values in seconds.items():
        median = statistics.median(values)
        print(f"| {name} | {1000 * median:.2f} | {median / first:.2f} |")


if __name__ == "__main__":
    main()
