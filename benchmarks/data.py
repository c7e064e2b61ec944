"""What preprocessing and the cache cost, beside nibabel's own decoding, MONAI's transforms and a plain read.

Reads the same .nii.gz files with (a) nibabel alone, (b) this package's transforms, (c) those and
the entry of the cache written, (d) MONAI's chain of the same steps (load, orient to RAS, resample,
crop or pad, z-score), in turn, one thread; with --before also (e) the package of another checkout.
Then (b) with one part of MONAI's in the place of ours, and what each choice of intensities, edge
and view adds to (b), where the images are skull-stripped, and what erosion takes beside SciPy's.
Then an epoch from the cache, in batches, beside plain reads of the same bytes: from the page cache,
and from the disk after the kernel was asked to forget them.

    python -m benchmarks.data                       # simulated brains of 1 mm; about three minutes
    python -m benchmarks.data --images FOLDER       # .nii.gz files of your own
    python -m benchmarks.data --before CHECKOUT     # the same beside another checkout: git worktree
    add CHECKOUT COMMIT
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import functools
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import nibabel as nib
import numpy as np
import scipy.ndimage
import torch
from monai.transforms import (
    Compose,
    LoadImage,
    LoadImaged,
    NormalizeIntensity,
    NormalizeIntensityd,
    Orientation,
    Orientationd,
    ResizeWithPadOrCrop,
    ResizeWithPadOrCropd,
    Spacing,
    Spacingd,
)

import neurocontrast
from neurocontrast.data.batches import read_batches
from neurocontrast.data.cache import VolumeCache
from neurocontrast.data.cohort import read_cohort
from neurocontrast.data.datasets import CohortDataset
from neurocontrast.transforms import (
    CheckFieldOfViewd,
    LoadScand,
    ResampleByAread,
)
from neurocontrast.transforms.brain import KeepBraind, erode
from neurocontrast.transforms.compose import brain_transforms, load_volume
from neurocontrast.transforms.preprocessing import Preprocessing

Timed = Callable[[], object]


def main() -> None:
    torch.set_num_threads(1)
    options = _options()
    print(f"{datetime.date.today()}, {platform.machine()}, torch {torch.__version__}, one thread")
    with tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
        paths = _images(options, Path(scratch))
        preprocessing = Preprocessing(spacing_mm=options.spacing_mm, shape=tuple(options.shape))
        first_reading(paths, preprocessing, options, Path(scratch))
        parts_of_monai(paths, preprocessing, options.repeats)
        if options.first_reading_alone:
            return
        inside_the_brain(paths, preprocessing, options.repeats)
        erosion(paths, preprocessing, options.repeats)
        epoch_from_cache(paths, preprocessing, options, Path(scratch))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--images", type=Path, help="folder of .nii.gz files; simulated ones when not given"
    )
    parser.add_argument(
        "--scratch", type=Path, help="where the cache is made; the disk whose speed is measured"
    )
    parser.add_argument("--spacing-mm", type=float, default=1.5)
    parser.add_argument("--shape", type=int, nargs=3, default=[121, 145, 121])
    parser.add_argument(
        "--before",
        type=Path,
        help="another checkout of the repository, to be timed beside this one",
    )
    parser.add_argument(
        "--first-reading-alone", action="store_true", help="stop after the first reading"
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--scans", type=int, default=256, help="scans of an epoch from the cache")
    parser.add_argument("--batch-size", type=int, default=16)
    return parser.parse_args()


def _images(options: argparse.Namespace, scratch: Path) -> list[str]:
    if options.images is not None:
        return [str(path) for path in sorted(options.images.glob("*.nii.gz"))]
    table = neurocontrast.simulate(scratch / "cohort", n_subjects=4, n_sites=2, spacing_mm=1.0)
    return CohortDataset.from_cache(
        read_cohort(table), VolumeCache(scratch / "unused", Preprocessing())
    ).scans


# --- the first reading
# ----------------------------------------------------------------------------------------------
def first_reading(
    paths: list[str], preprocessing: Preprocessing, options: argparse.Namespace, scratch: Path
) -> None:
    def made(path: str) -> None:
        folder = scratch / "made"
        VolumeCache(folder, preprocessing).prepare([path], n_workers=0)
        shutil.rmtree(folder)

    readers: dict[str, Callable[[str], object]] = {
        "nibabel, decoding alone": lambda path: nib.load(path).get_fdata(dtype=np.float32),
        "`brain_transforms`": lambda path: load_volume(path, preprocessing),
        "the same, and kept in the cache": made,
        "MONAI's transforms, the same steps": _monai_chain(preprocessing),
    }
    if options.before is not None:
        readers[BEFORE] = Before(options.before, preprocessing)
    ratios: dict[str, list[float]] = {name: [] for name in readers}
    milliseconds: dict[str, list[float]] = {name: [] for name in readers}
    for path in paths:
        calls = {name: functools.partial(read, path) for name, read in readers.items()}
        seconds = in_turn(calls, options.repeats, time.process_time)
        least = {name: min(values) for name, values in seconds.items()}
        for name, value in least.items():
            milliseconds[name].append(1000 * value)
            ratios[name].append(value / least["nibabel, decoding alone"])
    print(
        f"\nFirst reading of {len(paths)} scans to {preprocessing.shape} at {preprocessing.spacing_mm} mm: "
        "CPU time, the least of repeats a scan, median and range over scans\n"
    )
    print("| | ms | over nibabel's decoding |\n|---|---|---|")
    for name in readers:
        low, middle, high = min(ratios[name]), statistics.median(ratios[name]), max(ratios[name])
        print(
            f"| {name} | {statistics.median(milliseconds[name]):.1f} | {middle:.2f} ({low:.2f}–{high:.2f}) |"
        )
    if options.before is not None:
        pairs = zip(ratios["`brain_transforms`"], ratios[BEFORE], strict=True)
        after = [here / there for here, there in pairs]
        print(
            f"\nOver the other checkout: {statistics.median(after):.2f} ({min(after):.2f}–{max(after):.2f})"
        )


class Before:
    """Reads scans with the package of another checkout, in a process of its own."""

    def __init__(self, checkout: Path, preprocessing: Preprocessing) -> None:
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                READ_ON_REQUEST,
                json.dumps(preprocessing.model_dump(mode="json")),
            ],
            env={**os.environ, "PYTHONPATH": str(checkout.resolve())},
            cwd=checkout,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __call__(self, path: str) -> float:
        """Return the CPU seconds of reading a scan."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(Path(path).resolve(), file=self.process.stdin, flush=True)
        return float(self.process.stdout.readline())


BEFORE = "the other checkout's `load_volume`"
READ_ON_REQUEST = """
import json, sys, time
import torch
try:
    from neurocontrast.transforms import Preprocessing, load_volume
except ImportError:
    from neurocontrast.data import Preprocessing, load_volume

torch.set_num_threads(1)
preprocessing = Preprocessing(**json.loads(sys.argv[1]))
for line in sys.stdin:
    start = time.process_time()
    load_volume(line.strip(), preprocessing)
    print(time.process_time() - start, flush=True)
"""


def parts_of_monai(paths: list[str], preprocessing: Preprocessing, repeats: int) -> None:
    """Show what the first reading takes with one of MONAI's transforms in the place of one of ours."""
    grid = {"spacing_mm": preprocessing.spacing_mm, "shape": preprocessing.shape}
    load, check, zscore = (
        LoadScand("image"),
        CheckFieldOfViewd("image", **grid),
        NormalizeIntensityd("image"),
    )
    resample = ResampleByAread("image", axcodes="RAS", background="corners", **grid)
    orient = Orientationd("image", "RAS", labels=None)
    monais = [
        Spacingd("image", (preprocessing.spacing_mm,) * 3),
        ResizeWithPadOrCropd("image", preprocessing.shape),
    ]
    chains = {
        "`brain_transforms`": [load, check, resample, zscore],
        "`LoadImaged`": [LoadImaged("image", ensure_channel_first=True), check, resample, zscore],
        "`Orientationd` before resampling": [load, orient, check, resample, zscore],
        "`Orientationd`, `Spacingd`, `ResizeWithPadOrCropd`": [
            load,
            orient,
            check,
            *monais,
            zscore,
        ],
        "`NormalizeIntensityd(nonzero=True)`": [
            load,
            check,
            resample,
            NormalizeIntensityd("image", nonzero=True),
        ],
    }
    ratios: dict[str, list[float]] = {name: [] for name in chains}
    for path in paths:
        calls = {
            name: functools.partial(Compose(chain), {"image": path})
            for name, chain in chains.items()
        }
        least = {
            name: min(values) for name, values in in_turn(calls, repeats, time.process_time).items()
        }
        for name, value in least.items():
            ratios[name].append(value / least["`brain_transforms`"])
    print(
        "\nA part of MONAI's in the place of ours: CPU time over `brain_transforms`, median and range over scans\n"
    )
    print("| | over `brain_transforms` |\n|---|---|")
    for name, values in ratios.items():
        print(f"| {name} | {statistics.median(values):.2f} ({min(values):.2f}–{max(values):.2f}) |")


def _monai_chain(preprocessing: Preprocessing) -> Callable[[str], object]:
    return Compose(
        [
            LoadImage(ensure_channel_first=True),
            Orientation("RAS", labels=None),
            Spacing((preprocessing.spacing_mm,) * 3),
            ResizeWithPadOrCrop(preprocessing.shape),
            NormalizeIntensity(),
        ]
    )


# --- what is done inside the brain
# ----------------------------------------------------------------------------------
def inside_the_brain(paths: list[str], preprocessing: Preprocessing, repeats: int) -> None:
    spacing = preprocessing.spacing_mm or 1.0
    erode = {"erode_mm": 2 * spacing}
    asked: dict[str, dict[str, object]] = {
        "`zscore`, the whole box": {"normalise": "zscore"},
        "`zscore-brain`": {"normalise": "zscore-brain"},
        "`percentile`": {"normalise": "percentile"},
        f"`zscore`, `erode_mm: {2 * spacing:g}`": erode,
    }
    box = {"spacing_mm": preprocessing.spacing_mm, "shape": preprocessing.shape}
    fitted = {name: Preprocessing(**box, **keys) for name, keys in asked.items()}
    first, *_ = asked
    ratios: dict[str, list[float]] = {name: [] for name in asked}
    for path in paths:
        calls: dict[str, Timed] = {
            name: functools.partial(load_volume, path, each) for name, each in fitted.items()
        }
        least = {
            name: min(values) for name, values in in_turn(calls, repeats, time.process_time).items()
        }
        for name, value in least.items():
            ratios[name].append(value / least[first])
    print(
        "\nInside the brain: CPU time of `brain_transforms` over that with `zscore`, median and range over scans\n"
    )
    print("| | over `zscore` |\n|---|---|")
    for name, values in ratios.items():
        print(f"| {name} | {statistics.median(values):.2f} ({min(values):.2f}–{max(values):.2f}) |")


def read_brain_mask(path: str, preprocessing: Preprocessing) -> np.ndarray:
    """Return the brain of a scan in its box, before intensities are normalised and edges eroded."""
    transform = brain_transforms(preprocessing)
    kept = transform.get_index_of_first(lambda step: isinstance(step, KeepBraind))
    scan = transform({"image": path}, end=kept + 1)
    return scan["image_brain"].numpy()[0] != 0


def erosion(paths: list[str], preprocessing: Preprocessing, repeats: int) -> None:
    spacing = (preprocessing.spacing_mm or 1.0,) * 3
    brain = preprocessing.model_copy(update={"normalise": "percentile"})
    mask = read_brain_mask(paths[0], brain)
    ball = np.linalg.norm(np.indices((5, 5, 5)) - 2, axis=0) <= 2
    radius = 2 * spacing[0]
    calls: dict[str, Timed] = {
        "`erode`": lambda: erode(mask, radius, spacing),
        "`scipy.ndimage.binary_erosion` by the same ball": lambda: scipy.ndimage.binary_erosion(
            mask, ball, border_value=1
        ),
        "`scipy.ndimage.distance_transform_edt`": lambda: (
            scipy.ndimage.distance_transform_edt(mask, spacing) > radius + 1e-6
        ),
    }
    results = [call() for call in calls.values()]
    assert all(np.array_equal(results[0], each) for each in results[1:])
    seconds = in_turn(calls, repeats, time.process_time)
    print(
        f"\nErosion of a brain of {np.count_nonzero(mask)} voxels by two of them, the same result; CPU time\n"
    )
    print("| | ms |\n|---|---|")
    for name, values in seconds.items():
        print(f"| {name} | {1000 * min(values):.1f} |")


# --- an epoch from the cache
# ----------------------------------------------------------------------------------------
def epoch_from_cache(
    paths: list[str], preprocessing: Preprocessing, options: argparse.Namespace, scratch: Path
) -> None:
    dataset = _cached(paths, preprocessing, options.scans, scratch)
    files = sorted(Path(dataset.cache.folder).rglob("*.safetensors"))
    batches = [
        range(start, start + options.batch_size)
        for start in range(0, len(files), options.batch_size)
    ]
    batches = [[row for row in batch if row < len(files)] for batch in batches]
    widened = torch.zeros(options.batch_size, *dataset.cache.shape)
    n_bytes = int(np.prod(dataset.cache.shape)) * dataset.cache.dtype.itemsize
    memory = np.zeros((options.batch_size, n_bytes + 4096), dtype=np.uint8)
    warm: dict[str, Timed] = {
        "plain read of the files, into the memory of a batch": lambda: _plain(files, memory),
        "plain read of the files, each into the same buffer": lambda: _plain(files, memory[:1]),
        "`path.read_bytes()`": lambda: _read_and_drop(files),
        "`read_batches`, one reader": lambda: _epoch(dataset, batches, n_readers=1),
        "`read_batches`, two readers": lambda: _epoch(dataset, batches, n_readers=2),
        "`read_batches`, one reader, each batch widened to float32": lambda: _epoch(
            dataset, batches, n_readers=1, widened=widened
        ),
    }
    gib = len(files) * n_bytes / 2**30
    print(
        f"\nAn epoch of {len(files)} scans ({gib:.2f} GiB) in batches of {options.batch_size}; wall time"
    )
    _show_rates("from the page cache", in_turn(warm, options.repeats, time.perf_counter), gib)
    cold = {
        name: _forgetting(files, call)
        for name, call in warm.items()
        if "buffer" in name or "reader" in name
    }
    _show_rates("from the disk", _in_turn_cold(cold, max(2, options.repeats // 2)), gib)


def _cached(
    paths: list[str], preprocessing: Preprocessing, n_scans: int, scratch: Path
) -> CohortDataset:
    """Cache `n_scans` scans: the given ones, under as many names as it takes."""
    folder = scratch / "scans"
    folder.mkdir()
    lines = ["participant_id\tpath"]
    for i in range(n_scans):
        copy = folder / f"scan{i:04d}.nii.gz"
        shutil.copyfile(paths[i % len(paths)], copy)
        lines.append(f"s{i:04d}\t{copy.name}")
    (folder / "participants.tsv").write_text("\n".join(lines) + "\n")
    dataset = CohortDataset.from_cache(
        read_cohort(folder / "participants.tsv"), VolumeCache(scratch / "cache", preprocessing)
    )
    dataset.cache.prepare(dataset.scans, n_workers=0)
    os.sync()  # the kernel forgets only what is on the disk
    return dataset


def _plain(files: list[Path], memory: np.ndarray) -> None:
    for place, path in enumerate(files):
        with open(path, "rb", buffering=0) as stream:
            stream.readinto(memory[place % len(memory)].data)


def _read_and_drop(files: list[Path]) -> None:
    for path in files:
        path.read_bytes()


def _epoch(
    dataset: CohortDataset,
    batches: list[list[int]],
    *,
    n_readers: int,
    widened: torch.Tensor | None = None,
) -> None:
    with contextlib.closing(read_batches(dataset, batches, n_readers=n_readers)) as reading:
        for rows, volumes in reading:
            if widened is not None:
                widened[: len(rows)].copy_(volumes)


def _forgetting(files: list[Path], call: Timed) -> tuple[Timed, Timed]:
    def forget() -> None:
        for path in files:
            descriptor = os.open(path, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)

    return forget, call


def _in_turn_cold(calls: dict[str, tuple[Timed, Timed]], repeats: int) -> dict[str, list[float]]:
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, (forget, call) in calls.items():
            forget()
            start = time.perf_counter()
            call()
            seconds[name].append(time.perf_counter() - start)
    return seconds


def in_turn(
    calls: dict[str, Timed], repeats: int, clock: Callable[[], float]
) -> dict[str, list[float]]:
    """Time the calls one after the other, over and over, so that a slow moment of the machine meets all of them.

    A call that returns a float has measured itself.
    """
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for repeat in range(repeats + 1):
        for name, call in calls.items():
            start = clock()
            measured = call()
            if repeat:  # the first round warms up imports and the page cache
                seconds[name].append(measured if isinstance(measured, float) else clock() - start)
    return seconds


def _show_rates(title: str, seconds: dict[str, list[float]], gib: float) -> None:
    least = {name: min(values) for name, values in seconds.items()}
    plain = [value for name, value in least.items() if name.startswith("plain")]
    print(
        f"\n| {title} | GiB/s | speed over "
        + " | over ".join(n for n in least if n.startswith("plain"))
        + " |"
    )
    print("|---|---|" + "---|" * len(plain))
    for name, value in least.items():
        print(
            f"| {name} | {gib / value:.2f} | "
            + " | ".join(f"{of / value:.0%}" for of in plain)
            + " |"
        )


if __name__ == "__main__":
    main()
