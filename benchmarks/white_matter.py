"""Where the peak of white matter is found in registered brains, site by site.

For each scan the intensity that counts is the median where the template's map of white matter is
above 0.95. Over it: the brightest peak of the whole brain's histogram, and that deep in the brain.
Scans must be skull-stripped and registered to MNI152.

    python benchmarks/white_matter.py participants.tsv                   # 4 mm; two minutes for two
    hundred scans python benchmarks/white_matter.py participants.tsv --spacing-mm 2
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import scipy.ndimage
import scipy.signal
from nilearn.datasets import load_mni152_wm_template

from neurocontrast.data.cohort import read_cohort
from neurocontrast.transforms.brain import KeepBraind
from neurocontrast.transforms.compose import brain_transforms
from neurocontrast.transforms.grids import preprocessed_grid
from neurocontrast.transforms.images import affine_of, spacing_of, voxels_of
from neurocontrast.transforms.preprocessing import Preprocessing

BOX_MM = (192.0, 224.0, 192.0)
DEEP_PART = 0.2
_N_BINS, _N_BINS_BEYOND, _SMOOTHER = 256, 16, 2.0
_PROMINENCE_MIN, _HEIGHT_MIN = 0.05, 0.2


def deep_part(inside: npt.NDArray[np.bool_], spacing_mm: Sequence[float]) -> npt.NDArray[np.bool_]:
    """Return the voxels in the middle of a cube of brain, of half-width a fifth of the radius of a ball as large."""
    deep = np.zeros_like(inside)
    for within in scipy.ndimage.find_objects(inside.view(np.uint8)):
        n_mm3 = np.count_nonzero(inside) * float(np.prod(spacing_mm))
        depth_mm = DEEP_PART * (3 * n_mm3 / (4 * np.pi)) ** (1 / 3)
        sides = [2 * max(1, round(depth_mm / step)) + 1 for step in spacing_mm]
        deep[within] = scipy.ndimage.minimum_filter(inside[within], sides, mode="constant", cval=0)
    return deep


def white_matter_peak(deep: npt.NDArray[np.floating]) -> float | None:
    """Return the brightest peak of the histogram of intensities deep in a T1w brain (`deep_part`); None without a peak.

    The histogram is a kernel density with a Gaussian of twice Silverman's width, as white-matter
    peaks are found by Reinhold et al. (2019) and Shinohara et al. (2014). Over the whole brain the
    peak of white matter is often a shoulder of that of grey matter; deep in the brain white matter
    dominates.
    """
    low, lower, upper, high = np.percentile(deep, [0.1, 25, 75, 99.9])
    if not upper > lower:
        return None
    width = (
        _SMOOTHER
        * 0.9
        * min(float(deep.std(dtype=np.float64)), (upper - lower) / 1.349)
        * deep.size**-0.2
    )
    step = (high - low) / _N_BINS
    start = low - _N_BINS_BEYOND * step  # so that a peak at an end has two sides
    end = high + _N_BINS_BEYOND * step
    counts, _ = np.histogram(deep, _N_BINS + 2 * _N_BINS_BEYOND, (start, end))
    density = scipy.ndimage.gaussian_filter1d(counts.astype(float), width / step, mode="constant")
    top = density.max()
    peaks, _ = scipy.signal.find_peaks(
        density, prominence=_PROMINENCE_MIN * top, height=_HEIGHT_MIN * top
    )
    if not len(peaks):
        return None
    before, at, after = density[peaks[-1] - 1 : peaks[-1] + 2]
    curvature = before - 2 * at + after
    shift = (
        0.5 * (before - after) / curvature if curvature < 0 else 0.0
    )  # the top of a parabola through three bins
    return float(start + (peaks[-1] + 0.5 + shift) * step)


def read_boxed(path: str, preprocessing: Preprocessing) -> dict:
    """Return a scan in its box with its brain, before intensities are normalised."""
    transform = brain_transforms(preprocessing)
    end = transform.get_index_of_first(lambda each: isinstance(each, KeepBraind)) + 1
    return transform({"image": path}, end=end)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("participants", type=Path)
    parser.add_argument("--spacing-mm", type=float, default=4.0)
    options = parser.parse_args()
    side = options.spacing_mm
    shape = tuple(round(length / side) for length in BOX_MM)
    preprocessing = Preprocessing(spacing_mm=side, shape=shape, normalise="percentile")
    table = read_cohort(options.participants).table
    first = str(table["path"][0])
    white = _white_matter(first, preprocessing)
    rows = []
    for scan in table.itertuples():
        item = read_boxed(str(scan.path), preprocessing)
        voxels, brain = voxels_of(item["image"])[0], voxels_of(item["image_brain"])[0] != 0
        middle = np.median(voxels[white & brain])
        whole = white_matter_peak(voxels[brain])
        deep = white_matter_peak(voxels[deep_part(brain, spacing_of(affine_of(item["image"])))])
        rows.append(
            {
                "site": scan.site,
                "whole brain": np.nan if whole is None else whole / middle,
                "deep in it": np.nan if deep is None else deep / middle,
                "over the median": np.nan if deep is None else deep / np.median(voxels[brain]),
            }
        )
    _show(pd.DataFrame(rows), side)


def _white_matter(path: str, preprocessing: Preprocessing) -> np.ndarray:
    template = load_mni152_wm_template(resolution=2)
    to_template = np.linalg.inv(template.affine) @ preprocessed_grid(path, preprocessing).affine
    placed = scipy.ndimage.affine_transform(
        template.get_fdata(), to_template, output_shape=preprocessing.shape, order=1
    )
    return placed > 0.95


def _show(found: pd.DataFrame, spacing_mm: float) -> None:
    print(
        f"{len(found)} scans at {spacing_mm:g} mm: mean (standard deviation; lowest–highest) over the scans of a site\n"
    )
    columns = list(found.columns[1:])
    print("| site | n | " + " | ".join(columns) + " |\n|---|---|" + "---|" * len(columns))
    for site, part in found.groupby("site"):
        cells = [
            f"{part[column].mean():.3f} ({part[column].std():.3f}; {part[column].min():.2f}–{part[column].max():.2f})"
            for column in columns
        ]
        print(f"| {site} | {len(part)} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
