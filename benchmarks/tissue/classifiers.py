"""Tissue maps by others' parts, beside ours: overlap with label maps, and error of age at home and at new scanners.

    python -m benchmarks.tissue.classifiers --data DATA --n-labelled 20 --n-people 60
    python -m benchmarks.tissue.classifiers --data DATA --n-labelled 0 --n-people 45 --parts ours
    atropos-quick \
        --prepared DIR --imitations 2

Needs `dipy` (TissueClassifierHMRF) and `antspyx` (Atropos after N4, with the template's maps as
priors), which are no dependencies of this package; `--parts` names those to measure. All get the
same brain, mask and, where they take any, priors. Age is read by ridge regression from grey and
white matter, smoothed by 14 mm at 6 mm, of people of london (five folds), and of the healthy people
of the other sites by the same model. With `--imitations` each person of london is also learned from
as that many other scanners would have shown them (`neurocontrast prepare`, into `--prepared`): by
the same regression, and by discriminants of people (the encoder ``lda``) before it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import nibabel as nib
import numpy as np
import pandas as pd
from scipy import ndimage
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import GroupKFold

from benchmarks.tissue_codes import GREY, WHITE
from neurocontrast.commands.prepare import prepare
from neurocontrast.prepare.tissue import segment_tissue, tissue_priors

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

    image, inside = (
        ants.from_numpy(voxels.astype(np.float32)),
        ants.from_numpy(mask.astype(np.float32)),
    )
    return ours(
        ants.n4_bias_field_correction(image, mask=inside, shrink_factor=2).numpy(), mask, priors
    )


def by_dipy(voxels: Floats, mask: Floats, _: Floats) -> Floats:
    """Return them by dipy's hidden Markov random field, which takes no priors and corrects no bias field."""
    from dipy.segment.tissue import TissueClassifierHMRF

    image = np.where(mask, voxels, 0.0)
    _, _, maps = TissueClassifierHMRF(verbose=False).classify(image, 3, beta=0.1, max_iter=10)
    return np.moveaxis(maps[..., -3:], -1, 0) * mask


def by_atropos(voxels: Floats, mask: Floats, priors: Floats, *, shrink_factor: int = 2) -> Floats:
    """Return them by Atropos of ANTs after N4, with the template's maps as priors of weight 0.25."""
    import ants

    image, inside = (
        ants.from_numpy(voxels.astype(np.float32)),
        ants.from_numpy(mask.astype(np.float32)),
    )
    image = ants.n4_bias_field_correction(image, mask=inside, shrink_factor=shrink_factor)
    given = [ants.from_numpy((each * mask).astype(np.float32)) for each in priors]
    found = ants.atropos(a=image, x=inside, i=given, m="[0.1,1x1x1]", c="[5,0]", priorweight=0.25)
    return np.stack([each.numpy() for each in found["probabilityimages"]])


PARTS: dict[str, Callable[[Floats, Floats, Floats], Floats]] = {
    "ours": ours,
    "ours-after-n4": ours_after_n4,
    "dipy": by_dipy,
    "atropos": by_atropos,
    "atropos-quick": partial(by_atropos, shrink_factor=4),
}


def dice(one: Floats, other: Floats) -> float:
    """Return the overlap of two masks."""
    return float(2 * (one & other).sum() / (one.sum() + other.sum()))


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument(
        "--n-labelled", type=int, default=20, help="people whose maps are compared with labels"
    )
    parser.add_argument(
        "--n-people", type=int, default=60, help="of london; of other sites all healthy ones"
    )
    parser.add_argument("--imitations", type=int, default=0, help="of each person of london")
    parser.add_argument(
        "--prepared", type=Path, help="folder of prepared brains and their imitations"
    )
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    options = parser.parse_args()
    labels = (
        pd.read_csv(options.data / "labels" / "labels.tsv", sep="\t")
        .iloc[3::6]
        .head(options.n_labelled)
    )
    brains = pd.read_csv(options.data / "brains" / "participants.tsv", sep="\t", na_values="n/a")
    paths = brains.set_index("participant_id")["path"]
    print(
        "| part | Dice of grey matter: mean (lowest) | of white matter | seconds of processor time |\n|---|---|---|---|"
    )
    for part in options.parts:
        if labels.empty:
            continue
        found, seconds = [], time.process_time()
        for participant, path in zip(labels["participant_id"], labels["path"], strict=True):
            maps, mask = maps_of(options.data / "brains" / paths[participant], part)
            codes = nib.load(options.data / "labels" / path).get_fdata().astype(int)
            hard = maps.argmax(axis=0)
            found.append(
                [dice((hard == k) & mask, np.isin(codes, c)) for k, c in ((1, GREY), (2, WHITE))]
            )
        grey, white = np.transpose(found)
        seconds = (time.process_time() - seconds) / len(found)
        cells = [f"{each.mean():.3f} ({each.min():.3f})" for each in (grey, white)]
        print(f"| {part} | " + " | ".join(cells) + f" | {seconds:.1f} |", flush=True)
    healthy = brains[(brains["diagnosis"] == "control") & brains["age"].notna()]
    home = healthy[healthy["site"] == HOME].iloc[
        :: max(1, (healthy["site"] == HOME).sum() // options.n_people)
    ]
    people = pd.concat([home, healthy[healthy["site"] != HOME]])
    people["path"] = [str((options.data / "brains" / path).resolve()) for path in people["path"]]
    scans = imitated(people, options.prepared, options.imitations) if options.imitations else people
    sites = [site for site in scans["site"].unique() if site != HOME]
    print(
        "\n| part | error of age at home | "
        + " | ".join(f"{s}: error (mean error)" for s in sites)
        + " |"
    )
    print("|---" * (2 + len(sites)) + "|")
    for part in options.parts:
        x = np.stack([features(Path(path), part) for path in scans["path"]])
        for system in SYSTEMS if options.imitations else ("",):
            cells = errors_of(x, scans.reset_index(drop=True), system, sites)
            print(f"| {part}{system} | " + " | ".join(cells) + " |", flush=True)


SYSTEMS = (", without imitations", ", with imitations", ", with imitations, discriminants")


def imitated(people: pd.DataFrame, prepared: Path, n: int) -> pd.DataFrame:
    """Return a row a scan: the people's brains, and imitated acquisitions of those of `HOME`, in files."""
    prepared.mkdir(parents=True, exist_ok=True)
    for name, some in (
        ("home", people[people["site"] == HOME]),
        ("away", people[people["site"] != HOME]),
    ):
        some.to_csv(prepared / f"{name}.tsv", sep="\t", index=False, na_rep="n/a")
        prepare(
            prepared / f"{name}.tsv", out=prepared / name, spacing_mm=2.0, registration=False, tissue=False,
            imitations=n if name == "home" else 0, n_workers=1,
        )  # fmt: skip
    scans = []
    for name, table in (("home", "imitations.tsv"), ("away", "participants.tsv")):
        read = pd.read_csv(prepared / name / table, sep="\t", na_values="n/a")
        scans.append(read.assign(path=[str(prepared / name / path) for path in read["path"]]))
    return pd.concat(scans)


def errors_of(x: Floats, scans: pd.DataFrame, system: str, sites: list[str]) -> list[str]:
    """Return the error of age at home, over five folds of people, and its mean and absolute mean at other sites."""
    is_home, age, owners = (
        scans["site"] == HOME,
        scans["age"].astype(float).to_numpy(),
        scans["subject_id"],
    )
    real = ~scans.get("session", pd.Series("", scans.index)).astype(str).str.contains("imitated")
    learned = np.flatnonzero(is_home & (real | ("with imitations" in system)))
    home_errors = []
    for train, test in GroupKFold(5, shuffle=True, random_state=0).split(
        learned, groups=owners[learned]
    ):
        tested = learned[test][real.to_numpy()[learned[test]]]
        home_errors.append(predicted(x, age, owners, learned[train], tested, system) - age[tested])
    cells = [f"{np.abs(np.concatenate(home_errors)).mean():.1f}"]
    for site in sites:
        rows = np.flatnonzero(scans["site"] == site)
        error = predicted(x, age, owners, learned, rows, system) - age[rows]
        cells.append(f"{np.abs(error).mean():.1f} ({error.mean():+.1f})")
    return cells


def predicted(
    x: Floats, age: Floats, owners: pd.Series, train: Floats, test: Floats, system: str
) -> Floats:
    """Return the ages of the tested rows by those learned from."""
    of_train, of_test = x[train], x[test]
    if system.endswith("discriminants"):
        n = owners[train].nunique()
        pca = PCA(min(180, n - 1), svd_solver="full").fit(of_train)
        lda = LinearDiscriminantAnalysis(solver="eigen", shrinkage=0.3, n_components=min(60, n - 1))
        lda.fit(pca.transform(of_train), owners[train])
        of_train, of_test = (lda.transform(pca.transform(each)) for each in (of_train, of_test))
    return RidgeCV(np.logspace(-2, 8, 21)).fit(of_train, age[train]).predict(of_test)


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
        [
            ndimage.gaussian_filter(each, 14.0 / 2.355 / 2.0)[::3, ::3, ::3].ravel()
            for each in maps[1:]
        ]
    )


if __name__ == "__main__":
    main()
