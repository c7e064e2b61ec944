"""Where the peak of white matter is found in registered brains, site by site.

For each scan the intensity that counts is the median where the template's map of white matter is above 0.95. Over it:
the brightest peak of the whole brain's histogram, and that deep in the brain, which `data.normalise: white-matter`
takes. Scans must be skull-stripped and registered to MNI152.

    python benchmarks/white_matter.py participants.tsv                   # 4 mm; two minutes for two hundred scans
    python benchmarks/white_matter.py participants.tsv --spacing-mm 2
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.ndimage
from nilearn.datasets import load_mni152_wm_template

from neurocontrast.data.cohort import read_cohort
from neurocontrast.transforms.brain import deep_part
from neurocontrast.transforms.compose import boxing
from neurocontrast.transforms.grids import preprocessed_grid
from neurocontrast.transforms.images import affine_of, spacing_of, voxels_of
from neurocontrast.transforms.intensity import white_matter_peak
from neurocontrast.transforms.preprocessing import Preprocessing

BOX_MM = (192.0, 224.0, 192.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("participants", type=Path)
    parser.add_argument("--spacing-mm", type=float, default=4.0)
    options = parser.parse_args()
    side = options.spacing_mm
    shape = tuple(round(length / side) for length in BOX_MM)
    preprocessing = Preprocessing(spacing_mm=side, shape=shape, normalise="white-matter")
    table = read_cohort(options.participants).table
    first = str(table["path"][0])
    white = _white_matter(first, preprocessing)
    rows = []
    for scan in table.itertuples():
        item = boxing(preprocessing)({"image": str(scan.path)})
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
