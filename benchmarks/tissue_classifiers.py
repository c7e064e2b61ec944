"""Tissue maps by others' parts, beside ours: overlap with label maps, and error of age at home and at new scanners.

    python benchmarks/tissue_classifiers.py --data DATA --n-labelled 20 --n-people 60

Needs `dipy` (TissueClassifierHMRF) and `antspyx` (Atropos after N4, with the template's maps as priors), which are no
dependencies of this package; `--parts` names those to measure. All get the same brain, mask and, where they take any,
priors. Age is read by ridge regression from grey and white matter, smoothed by 14 mm at 6 mm, of people of london (five
folds), and of the healthy people of the other sites by the same model.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import nibabel as nib
import numpy as np
import pandas as pd
from scipy import ndimage
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import KFold, cross_val_predict

from neurocontrast.prepare.tissue import segment_tissue, tissue_priors

GREY_CODES = (*range(100, 208), 38, 39, 71, 72, 73, 59, 60, 36, 37, 23, 30, 57, 58, 55, 56, 31, 32, 47, 48, 75, 76)
WHITE_CODES = (*range(81, 96), 69, 40, 41)
HOME = "london"
"""Site whose people are learned from."""

Floats = np.ndarray


def ours(voxels: Floats, mask: Floats, priors: Floats) -> Floats:
    """Return fluid, grey and white matter (3, D, H, W) by expectation-maximisation with priors and a bias field."""
    maps = segment_tissue(voxels, mask, priors)
    return np.stack([maps.fluid, maps.grey, maps.white])


def ours_after_n4(voxels: Floats, mask: Floats, priors: Floats) -> Floats:
    """Return them by `ours` after the N4 of ANTs, as before Atropos."""
    import ants

    image, inside = ants.from_numpy(voxels.astype(np.float32)), ants.from_numpy(mask.astype(np.float32))
    return ours(ants.n4_bias_field_correction(image, mask=inside, shrink_factor=2).numpy(), mask, priors)


def by_dipy(voxels: Floats, mask: Floats, _: Floats) -> Floats:
    """Return them by dipy's hidden Markov random field, which takes no priors and corrects no bias field."""
    from dipy.segment.tissue import TissueClassifierHMRF

    image = np.where(mask, voxels, 0.0)
    _, _, maps = TissueClassifierHMRF(verbose=False).classify(image, 3, beta=0.1, max_iter=10)
    return np.moveaxis(maps[..., -3:], -1, 0) * mask


def by_atropos(voxels: Floats, mask: Floats, priors: Floats) -> Floats:
    """Return them by Atropos of ANTs after N4, with the template's maps as priors of weight 0.25."""
    import ants

    image, inside = ants.from_numpy(voxels.astype(np.float32)), ants.from_numpy(mask.astype(np.float32))
    image = ants.n4_bias_field_correction(image, mask=inside, shrink_factor=2)
    given = [ants.from_numpy((each * mask).astype(np.float32)) for each in priors]
    found = ants.atropos(a=image, x=inside, i=given, m="[0.1,1x1x1]", c="[5,0]", priorweight=0.25)
    return np.stack([each.numpy() for each in found["probabilityimages"]])


PARTS: dict[str, Callable[[Floats, Floats, Floats], Floats]] = {
    "ours": ours,
    "ours-after-n4": ours_after_n4,
    "dipy": by_dipy,
    "atropos": by_atropos,
}


def dice(one: Floats, other: Floats) -> float:
    """Return the overlap of two masks."""
    return float(2 * (one & other).sum() / (one.sum() + other.sum()))


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--n-labelled", type=int, default=20, help="people whose maps are compared with labels")
    parser.add_argument("--n-people", type=int, default=60, help="of london; of other sites all healthy ones")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    options = parser.parse_args()
    labels = pd.read_csv(options.data / "labels" / "labels.tsv", sep="\t").iloc[3::6].head(options.n_labelled)
    brains = pd.read_csv(options.data / "brains" / "participants.tsv", sep="\t", na_values="n/a")
    paths = brains.set_index("participant_id")["path"]
    print(
        "| part | Dice of grey matter: mean (lowest) | of white matter | seconds of processor time |\n|---|---|---|---|"
    )
    for part in options.parts:
        found, seconds = [], time.process_time()
        for participant, path in zip(labels["participant_id"], labels["path"], strict=True):
            maps, mask = maps_of(options.data / "brains" / paths[participant], part)
            codes = nib.load(options.data / "labels" / path).get_fdata().astype(int)
            hard = maps.argmax(axis=0)
            found.append([dice((hard == k) & mask, np.isin(codes, c)) for k, c in ((1, GREY_CODES), (2, WHITE_CODES))])
        grey, white = np.transpose(found)
        seconds = (time.process_time() - seconds) / len(found)
        cells = [f"{each.mean():.3f} ({each.min():.3f})" for each in (grey, white)]
        print(f"| {part} | " + " | ".join(cells) + f" | {seconds:.1f} |", flush=True)
    healthy = brains[(brains["diagnosis"] == "control") & brains["age"].notna()]
    home = healthy[healthy["site"] == HOME].iloc[:: max(1, (healthy["site"] == HOME).sum() // options.n_people)]
    away = healthy[healthy["site"] != HOME]
    print(
        "\n| part | error of age at home | "
        + " | ".join(f"{s}: error (mean error)" for s in away["site"].unique())
        + " |"
    )
    print("|---" * (2 + away["site"].nunique()) + "|")
    for part in options.parts:
        known, new = (
            np.stack([features(options.data / "brains" / path, part) for path in each["path"]]) for each in (home, away)
        )
        age, ridge = home["age"].to_numpy(), RidgeCV(np.logspace(-2, 8, 21))
        guess = cross_val_predict(ridge, known, age, cv=KFold(5, shuffle=True, random_state=0))
        error = ridge.fit(known, age).predict(new) - away["age"].to_numpy()
        cells = [error[(away["site"] == site).to_numpy()] for site in away["site"].unique()]
        shown = " | ".join(f"{np.abs(e).mean():.1f} ({e.mean():+.1f})" for e in cells)
        print(f"| {part} | {np.abs(guess - age).mean():.1f} | {shown} |", flush=True)


def maps_of(path: Path, part: str) -> tuple[Floats, Floats]:
    """Return fluid, grey and white matter of a brain, and its mask."""
    image = nib.load(path)
    voxels = image.get_fdata(dtype=np.float32)
    mask = voxels > 0
    return PARTS[part](voxels, mask, tissue_priors(image.affine, image.shape)), mask


def features(path: Path, part: str) -> Floats:
    """Return smoothed grey and white matter at every third voxel of 2 mm."""
    maps, _ = maps_of(path, part)
    return np.concatenate(
        [ndimage.gaussian_filter(each, 14.0 / 2.355 / 2.0)[::3, ::3, ::3].ravel() for each in maps[1:]]
    )


if __name__ == "__main__":
    main()
