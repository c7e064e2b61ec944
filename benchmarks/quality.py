"""Plant shifts and flips in real brains, and count how many `neurocontrast qc` flags, and how many of the others.

    python -m benchmarks.quality --data ../shared/data [--n-workers 2]

One scan at a time is changed in a cohort that is otherwise as it is. Bounds were chosen on every
second person; the other half, a cohort with medians of its own, is what is reported.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import nibabel as nib
import numpy as np
import pandas as pd

from neurocontrast.parallel.workers import map_files
from neurocontrast.prepare.flags import N_DEVIATIONS, N_SITE, RULES, flag_scans
from neurocontrast.prepare.measures import Measured, compare_with_others, measure_scan

SHIFTS = {
    f"shift {name} {5 * step * 2:+d} mm": (axis, 5 * step)
    for axis, name in enumerate("xyz")
    for step in (-1, 1)
}
FLIPS = {
    "flip front-back": (1,),
    "flip up-down": (2,),
    "flip both": (1, 2),
    "flip left-right": (0,),
}
DEVIATIONS = (4.0, 5.0, 6.0, 7.0, 8.0)
NECK = "sub-ds002748x45"


def plant(voxels: np.ndarray, kind: str) -> np.ndarray:
    """Return voxels in RAS order with one thing changed."""
    if kind in FLIPS:
        return np.flip(voxels, FLIPS[kind])
    if kind not in SHIFTS:
        return voxels
    axis, step = SHIFTS[kind]
    moved = np.roll(voxels, step, axis)
    np.moveaxis(moved, axis, 0)[slice(0, step) if step > 0 else slice(step, None)] = 0
    return moved


def measure_planted(row: int, path: str, kind: str) -> tuple[int, str, Measured]:
    """Measure a scan with one thing changed, through a file as `neurocontrast qc` would."""
    image = nib.as_closest_canonical(nib.load(path))
    with tempfile.TemporaryDirectory() as folder:
        changed = Path(folder) / "scan.nii"
        nib.save(
            nib.Nifti1Image(plant(np.asarray(image.dataobj), kind), image.affine, image.header),
            changed,
        )
        return row, kind, measure_scan(str(changed))


class Cohort:
    """Measures and vectors of scans as they are, with one of them exchanged for a changed one."""

    def __init__(self, people: pd.DataFrame, found: dict[tuple[int, str], Measured]) -> None:
        self.people, self.found = people, found
        self.sites = people["site"].to_numpy()

    def flagged(
        self, deviations: float, row: int | None = None, kind: str = "as is"
    ) -> list[set[str]]:
        """Return the measures that are flagged, of every scan; `row` is changed by `kind`."""
        rows = (
            np.flatnonzero(self.sites == self.people.loc[row, "site"])
            if row is not None
            else range(len(self.sites))
        )
        names = self.people.index[list(rows)]
        chosen = [self.found[name, kind if name == row else "as is"] for name in names]
        table = pd.DataFrame([each.measures for each in chosen]).assign(
            site=self.sites[list(rows)], subject_id=list(names)
        )
        table[["site_correlation", "asymmetry"]] = np.nan
        for _, group in table.groupby("site"):
            if len(group) >= N_SITE:
                alike = compare_with_others(
                    np.stack([chosen[place].vector for place in group.index])
                )
                table.loc[group.index, ["site_correlation", "asymmetry"]] = np.stack(alike, axis=1)
        return [{flag.measure for flag in flags} for flags in flag_scans(table, deviations)[0]]

    def planted(self, kind: str, deviations: float) -> list[set[str]]:
        """Return what is flagged of each scan when it is the one that is changed."""
        result = []
        for row in self.people.index:
            names = self.people.index[self.sites == self.people.loc[row, "site"]]
            result.append(self.flagged(deviations, row, kind)[list(names).index(row)])
        return result


def swap_some(cohort: Cohort, share: float) -> None:
    """Print how many are found when left and right of a share of every site are swapped at once."""
    draws = np.random.default_rng(0).random(len(cohort.people))
    ranks = pd.Series(draws).groupby(cohort.sites).rank(pct=True).to_numpy()
    swapped = ranks <= share
    found = dict(cohort.found)
    found |= {
        (row, "as is"): cohort.found[row, "flip left-right"] for row in cohort.people.index[swapped]
    }
    flags = [("asymmetry" in each) for each in Cohort(cohort.people, found).flagged(N_DEVIATIONS)]
    right = sum(flag for flag, bad in zip(flags, swapped, strict=True) if bad)
    wrong = sum(flags) - right
    print(
        f"  {share:.0%} of every site swapped: {right} of {swapped.sum()} found, {wrong} of the others flagged"
    )


def report(cohort: Cohort, title: str) -> None:
    """Print what is flagged of a cohort as it is, and of what was planted."""
    as_is = cohort.flagged(N_DEVIATIONS)
    names = cohort.people["participant_id"]
    bad = {name: sorted(flags) for name, flags in zip(names, as_is, strict=True) if flags}
    print(
        f"\n{title}: {len(bad)} of {len(names)} flagged as they are ({len(bad) / len(names):.1%})"
    )
    for name, flags in bad.items():
        print(f"  {name}: {', '.join(flags)}")
    for kind in (*SHIFTS, *FLIPS):
        flags = cohort.planted(kind, N_DEVIATIONS)
        own = (
            "asymmetry"
            if kind == "flip left-right"
            else "flip_gain"
            if kind in FLIPS
            else "shift_mm"
        )
        n, n_own = sum(bool(each) for each in flags), sum(own in each for each in flags)
        print(f"  {kind}: {n} of {len(flags)} flagged ({n / len(flags):.1%}), {n_own} by {own}")
    for share in (0.1, 0.3, 0.5):
        swap_some(cohort, share)


def choose(cohort: Cohort) -> None:
    """Print what bounds were chosen from."""
    for deviations in DEVIATIONS:
        n = sum(bool(each) for each in cohort.flagged(deviations))
        print(f"  {deviations:g} robust deviations: {n} of {len(cohort.people)} flagged")
    for name in ("correlation", "shift_mm", "flip_gain", "dice"):
        by_kind = {
            kind: [cohort.found[row, kind].measures[name] for row in cohort.people.index]
            for kind in ("as is", *SHIFTS, *FLIPS)
        }
        ranges = [
            f"{kind} {min(values):.3g} to {max(values):.3g}" for kind, values in by_kind.items()
        ]
        print(f"  {name} (bounds {RULES[name].low:g}, {RULES[name].high:g}): {'; '.join(ranges)}")


def main() -> None:
    """Print all figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--n-workers", type=int, default=2)
    options = parser.parse_args()
    folder = options.data / "brains"
    people = pd.read_csv(folder / "participants.tsv", sep="\t")
    kinds = ("as is", *SHIFTS, *FLIPS)
    work = [
        (row, str(folder / path), kind) for row, path in enumerate(people["path"]) for kind in kinds
    ]
    start = time.perf_counter()
    measured = map_files(measure_planted, work, n_workers=options.n_workers)
    found = {(row, kind): each for row, kind, each in measured}
    print(
        f"{len(work)} scans in {time.perf_counter() - start:.0f} s, {options.n_workers} processes"
    )
    print("Chosen on every second person:")
    choose(Cohort(people.iloc[::2], found))
    report(Cohort(people.iloc[1::2], found), "The other half")
    report(Cohort(people, found), "All")


if __name__ == "__main__":
    main()
