"""Measure the preparation of real heads: the agreement of masks, of tissue maps with labels, and the time of each step.

    python -m benchmarks.preparation --data ../shared/data [--n-labelled 20]

Heads: `native/` against the brains of the same people in `brains/`, which somebody else registered
affinely; where Debian's `mricron-data` is installed, its head `ch2.nii.gz` against `ch2bet.nii.gz`.
`dice_no_network` is the overlap of the masks by deepbet and by the template of a head. Tissue:
every sixth person of `labels/`, from the fourth on (others were used to choose the settings),
against the label map.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import nibabel as nib
import numpy as np
import numpy.typing as npt
import pandas as pd

from benchmarks.tissue_codes import GREY, WHITE
from neurocontrast.prepare.extraction import extract_brain, is_stripped
from neurocontrast.prepare.registration import (
    correct_bias,
    register_to_mni,
    resample_to_grid,
    template_mask,
)
from neurocontrast.prepare.tissue import segment_tissue, tissue_priors
from neurocontrast.transforms.preprocessing import mni_grid

MRICRON = Path("/usr/share/mricron/templates")


def dice(one: npt.NDArray[np.bool_], other: npt.NDArray[np.bool_]) -> float:
    """Return the overlap of two masks."""
    return float(2 * (one & other).sum() / (one.sum() + other.sum()))


def measure_head(path: Path, prepared: Path) -> dict[str, float | str]:
    """Prepare one head; return overlaps and seconds of processor time."""
    image = nib.as_closest_canonical(nib.load(path))
    voxels, affine = image.get_fdata(dtype=np.float32), image.affine
    times = [time.process_time()]
    stripped = is_stripped(voxels)
    mask = voxels > 0 if stripped else extract_brain(voxels)
    times.append(time.process_time())
    corrected = correct_bias(voxels, mask, affine)
    times.append(time.process_time())
    found = register_to_mni(corrected, mask, affine)
    times.append(time.process_time())
    grid, shape = mni_grid(1.5)
    brain = resample_to_grid(np.where(mask, corrected, 0), affine, found, grid, shape)
    inside = resample_to_grid(mask, affine, found, grid, shape) > 0.5
    segment_tissue(brain, inside, tissue_priors(grid, shape))
    times.append(time.process_time())
    other = nib.as_closest_canonical(nib.load(prepared))
    theirs = other.get_fdata() > 0
    ours = resample_to_grid(mask, affine, found, other.affine, other.shape) > 0.5
    steps = ("extraction", "N4", "registration", "tissue")
    seconds = dict(zip(steps, np.diff(times).round(1), strict=True))
    brains = {
        "dice_theirs": dice(ours, theirs),
        "dice_template": dice(inside, template_mask(grid, shape)),
    }
    return {
        "head": path.name.partition("_")[0],
        **{name: round(value, 3) for name, value in brains.items()},
        **seconds,
    }


def measure_tissue(data: Path, n_people: int) -> pd.DataFrame:
    """Return the overlap of grey and white matter with label maps, a row a person."""
    labels = pd.read_csv(data / "labels" / "labels.tsv", sep="\t").iloc[3::6].head(n_people)
    brains = pd.read_csv(data / "brains" / "participants.tsv", sep="\t").set_index("participant_id")
    rows = []
    for participant, path in zip(labels["participant_id"], labels["path"], strict=True):
        image = nib.load(data / "brains" / brains.loc[participant, "path"])
        codes = nib.load(data / "labels" / path).get_fdata().astype(int)
        voxels = image.get_fdata(dtype=np.float32)
        mask = voxels > 0
        maps = segment_tissue(voxels, mask, tissue_priors(image.affine, image.shape))
        hard = np.stack([maps.fluid, maps.grey, maps.white]).argmax(axis=0)
        grey = dice((hard == 1) & mask, np.isin(codes, GREY))
        rows.append({"grey": grey, "white": dice((hard == 2) & mask, np.isin(codes, WHITE))})
    return pd.DataFrame(rows)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--n-labelled", type=int, default=20)
    options = parser.parse_args()
    heads = sorted((options.data / "native").glob("*_T1w.nii.gz"))
    prepared = [
        next((options.data / "brains" / "images").glob(f"{head.name.partition('_')[0]}*"))
        for head in heads
    ]
    if (MRICRON / "ch2.nii.gz").is_file():
        heads, prepared = [*heads, MRICRON / "ch2.nii.gz"], [*prepared, MRICRON / "ch2bet.nii.gz"]
    print(
        pd.DataFrame([measure_head(*pair) for pair in zip(heads, prepared, strict=True)]).to_string(
            index=False
        )
    )
    tissue = measure_tissue(options.data, options.n_labelled)
    print(f"Dice with labels, {len(tissue)} people: mean (lowest)")
    for name in tissue:
        print(f"  {name}: {tissue[name].mean():.3f} ({tissue[name].min():.3f})")


if __name__ == "__main__":
    main()
