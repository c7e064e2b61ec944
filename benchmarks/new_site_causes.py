"""Why models fail at a scanner they never saw: one difference between sites taken away, or planted, at a time.

    python benchmarks/new_site_causes.py --data ../shared/data/brains --out
    benchmarks/results/new_site_causes

Linear models alone (60 principal components of the voxels at 4 mm, ridge for age, logistic for
sex); no network is trained. Real: fitted on london + ucla, tested on novosibirsk and,
cross-validated, on london. Simulated: the same people at a clean scanner and at scanners with one
fault each, 6 mm. Some four minutes of CPU time.
"""

from __future__ import annotations

import argparse
import datetime
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from new_site_causes_figure import draw_factors
from new_site_causes_models import (
    PROBES,
    Fold,
    People,
    bias_by_zone,
    folds_of,
    score,
    shares,
    site_accuracy,
)
from new_site_causes_scans import Cohort, Condition, describe, gram, images, read_cohort, zones_of
from new_site_causes_simulated import simulate_causes, summarise
from threadpoolctl import threadpool_limits

KNOWN, NEW, HOME = ("london", "ucla"), "novosibirsk", "london"
BOX, BRAIN, PERCENTILE = ({"normalise": how} for how in ("zscore", "zscore-brain", "percentile"))
E6 = {"erode_mm": 6.0}
ERODED = {**BRAIN, **E6}
N_DESCRIBED = 16
REPAIRS = ("intensity", "rim", "sharpness", "registration")


def conditions() -> list[Condition]:
    found = []
    for name, more in (("whole", {}), ("6 mm eroded", E6)):
        for normalise in ("zscore", "zscore-brain", "percentile"):
            found.append(
                Condition(f"intensity, {name}", normalise, {"normalise": normalise, **more})
            )
        for label, settings, change in (
            ("slow field divided out, zscore-brain", BRAIN, "without-bias"),
            ("ranks", BRAIN, "ranks"),
            ("fluid and white matter matched", {"normalise": "none"}, "fluid-to-white"),
            ("nothing darker than half of white matter", BRAIN, "without-fluid"),
        ):
            found.append(Condition(f"intensity, {name}", label, {**settings, **more}, (change,)))
    found += [
        Condition("rim", f"eroded {mm:g} mm", {**BRAIN, "erode_mm": mm})
        for mm in (4.0, 6.0, 8.0, 10.0, 12.0)
    ]
    for label, change in (
        ("dark rim stripped", "without-dark-rim"),
        ("cut by a mask of novosibirsk", "cut-by-novosibirsk"),
        ("cut by a mask of london", "cut-by-london"),
        ("given a mask of london, filled", "filled-to-london"),
    ):
        found.append(Condition("rim", label, BRAIN, (change,)))
    found.append(Condition("rim", "the mask alone, no intensities", BOX, ("mask-alone",)))
    for name, settings in (("whole, z-score of the box", BOX), ("eroded", ERODED)):
        for label, change in (("blurred by 8 mm", "blur-8"), ("blurred by 12 mm", "blur-12")):
            found.append(Condition("sharpness", f"{label}, {name}", settings, (change,)))
        for label, change in (("centred", "shift"), ("centred and scaled", "shift-scale")):
            found.append(Condition("registration", f"{label}, {name}", settings, (change,)))
    return found


def people_of(cohort: Cohort, known: np.ndarray, home: np.ndarray, new: np.ndarray) -> People:
    age = cohort.table["years"].to_numpy(dtype=float)
    male = (cohort.table["sex"].to_numpy(dtype=object) == "M").astype(int)
    return People(age, male, cohort.site, known, home, new)


class Products:
    """Products of the images of each condition, each computed once."""

    def __init__(self, cohort: Cohort) -> None:
        self.cohort = cohort
        self._known: dict[Any, np.ndarray] = {}

    def of(self, condition: Condition) -> np.ndarray:
        """Return the products of a condition's images."""
        if condition.key not in self._known:
            self._known[condition.key] = gram(self.cohort, condition)
        return self._known[condition.key]


def input_factors(products: Products, people: People, folds: list[Fold]) -> pd.DataFrame:
    rows = []
    for condition in conditions():
        found, _ = score(products.of(condition), people, folds)
        accuracy = site_accuracy(products.of(condition), people)
        rows.append(
            {"group": condition.group, "input": condition.label, **found, "site_accuracy": accuracy}
        )
    return pd.DataFrame(rows)


def probe_factors(products: Products, people: People, folds: list[Fold]) -> pd.DataFrame:
    rows = []
    for name, settings in (("z-score of the box", BOX), ("z-score of the brain, eroded", ERODED)):
        for probe in PROBES:
            found, _ = score(products.of(Condition("", name, settings)), people, folds, probe)
            rows.append({"group": name, "input": probe, **found})
    return pd.DataFrame(rows)


def directions(products: Products, seeds: int) -> pd.DataFrame:
    """Return the scores when other sites are known: an error of one direction alone would be one site's accident."""
    cohort = products.cohort
    site, age = cohort.site, cohort.table["years"].to_numpy(dtype=float)
    young = (age >= 19) & (age <= 55)
    london, ucla, novosibirsk = (site == name for name in ("london", "ucla", "novosibirsk"))
    designs = {
        "london + ucla → novosibirsk": (london | ucla, london, novosibirsk),
        "london → novosibirsk": (london, london, novosibirsk),
        "london, 19–55 years, + ucla → novosibirsk": (
            london & young | ucla,
            london & young,
            novosibirsk,
        ),
        "novosibirsk → london, 19–55 years": (novosibirsk, novosibirsk, london & young),
        "novosibirsk + ucla → london, 19–55 years": (
            novosibirsk | ucla,
            novosibirsk,
            london & young,
        ),
        "london + novosibirsk → ucla": (london | novosibirsk, london, ucla),
    }
    inputs = {
        "z-score of the box": BOX,
        "z-score of the brain": BRAIN,
        "z-score, eroded": ERODED,
        "percentiles, eroded": {**PERCENTILE, **E6},
    }
    rows = []
    for design, (known, home, new) in designs.items():
        people = people_of(cohort, known, home, new)
        folds = folds_of(people, seeds)
        for label, settings in inputs.items():
            found, _ = score(products.of(Condition("", label, settings)), people, folds)
            rows.append({"group": design, "input": label, **found})
    return pd.DataFrame(rows)


def attribute(products: Products, people: People, folds: list[Fold]) -> pd.DataFrame:
    """Return what each repair takes off the new site's error and excess bias, over all orders of repairing."""
    errors, excess = {}, {}
    for number in range(2 ** len(REPAIRS)):
        done = frozenset(name for bit, name in enumerate(REPAIRS) if number >> bit & 1)
        settings = {**(PERCENTILE if "intensity" in done else BOX), **(E6 if "rim" in done else {})}
        of_change = {"sharpness": "blur-8", "registration": "shift-scale"}
        changes = tuple(change for name, change in of_change.items() if name in done)
        found, _ = score(
            products.of(Condition("", str(sorted(done)), settings, changes)), people, folds
        )
        errors[done], excess[done] = found["new_mae"], found["new_bias"] - found["home_like_bias"]
    rows = []
    for name, values in (("new-site MAE", errors), ("bias beyond that at home", excess)):
        none, everything = values[frozenset()], values[frozenset(REPAIRS)]
        for repair, (mean, least, most) in shares(values, REPAIRS).items():
            rows.append(
                {"of": name, "repair": repair, "mean": mean, "least": least, "most": most, "before": none,
                 "all_repaired": everything, "alone": none - values[frozenset({repair})]}
            )  # fmt: skip
    return pd.DataFrame(rows)


def zones(products: Products, people: People, folds: list[Fold]) -> pd.DataFrame:
    parts = zones_of(products.cohort)
    found = {}
    for name, settings in (
        ("z-score of the box", BOX),
        ("z-score of the brain", BRAIN),
        ("percentiles, eroded", {**PERCENTILE, **E6}),
    ):
        condition = Condition("", name, settings)
        found[name] = bias_by_zone(
            images(products.cohort, condition), products.of(condition), people, folds, parts
        )
    return pd.DataFrame(found).rename_axis("zone").reset_index()


def patients(products: Products, people: People, folds: list[Fold]) -> pd.DataFrame:
    """Return how much older patients of the new site are predicted than its controls, at the same age and sex."""
    diagnosis = products.cohort.table["diagnosis"].to_numpy(dtype=object)[people.new]
    is_patient = (diagnosis != "control").astype(float)
    age, male = people.age[people.new], people.male[people.new].astype(float)
    design = np.stack([np.ones_like(age), is_patient, age - age.mean(), male - male.mean()], axis=1)
    rows = []
    for name, settings in (("z-score of the box", BOX), ("z-score of the brain, eroded", ERODED)):
        _, error = score(products.of(Condition("", name, settings)), people, folds)
        estimate, *_ = np.linalg.lstsq(design, error, rcond=None)
        left = error - design @ estimate
        variance = np.linalg.inv(design.T @ design) * (left @ left) / (len(error) - design.shape[1])
        spread = 1.96 * np.sqrt(variance[1, 1])
        rows.append(
            {"input": name, "n_patients": int(is_patient.sum()), "n_controls": int((1 - is_patient).sum()),
             "patients_minus_controls": estimate[1], "low": estimate[1] - spread, "high": estimate[1] + spread,
             "error_per_year_of_age": estimate[2]}
        )  # fmt: skip
    return pd.DataFrame(rows)


def described(cohort: Cohort, n: int) -> pd.DataFrame:
    """Return mean and sd of each site's scans, people of the new site's ages alone."""
    age = cohort.table["years"].to_numpy(dtype=float)
    new = age[cohort.site == NEW]
    columns = {}
    for site in (*KNOWN, NEW):
        rows = np.flatnonzero((cohort.site == site) & (age >= new.min()) & (age <= new.max()))
        rows = np.sort(np.random.default_rng(0).permutation(rows)[:n])
        found = describe([cohort.names[i] for i in rows])
        columns[f"{site} (n = {len(rows)})"] = [
            f"{mean:.2f} ± {sd:.2f}" for mean, sd in zip(found.mean(), found.std(), strict=True)
        ]
    return pd.DataFrame(columns, index=found.columns).rename_axis("of the scans").reset_index()


def real(folder: Path, out: Path, *, seeds: int, n_described: int) -> None:
    cohort = read_cohort(folder, KNOWN)
    site = cohort.site
    home, new = site == HOME, site == NEW
    people = people_of(cohort, cohort.known, home, new)
    folds, products = folds_of(people, seeds), Products(cohort)
    alone = people_of(cohort, home, home, new)
    of_alone = folds_of(alone, seeds)
    keep(described(cohort, n_described), out, "real_scans")
    inputs = input_factors(products, people, folds)
    keep(inputs, out, "real_inputs", scores_table(inputs))
    draw_factors(inputs, out / "new_site_causes.svg")
    without = input_factors(products, alone, of_alone)
    keep(without, out, "real_inputs_without_ucla", scores_table(without))
    turned = directions(products, seeds)
    keep(turned, out, "real_directions", scores_table(turned))
    probes = probe_factors(products, people, folds)
    keep(probes, out, "real_probes", scores_table(probes))
    for name, who, how in (("", people, folds), ("_without_ucla", alone, of_alone)):
        keep(attribute(products, who, how), out, f"real_shares{name}")
        keep(zones(products, who, how), out, f"real_zones{name}")
    keep(patients(products, people, folds), out, "real_patients")


def scores_table(scores: pd.DataFrame) -> pd.DataFrame:
    """Return what a reader compares, as text."""

    def interval(name: str, form: str) -> list[str]:
        values = zip(*(scores[name + end] for end in ("", "_low", "_high")), strict=True)
        return [f"{mid:{form}} [{low:{form}}, {high:{form}}]" for mid, low, high in values]

    shown = {
        "": scores["group"], "input": scores["input"], "home MAE": scores["home_mae"],
        "home, as old as the new": scores["home_like_mae"], "its bias": scores["home_like_bias"].map("{:+.1f}".format),
        "new MAE": interval("new_mae", ".1f"), "bias": interval("new_bias", "+.1f"),
        "MAE, bias removed": scores["new_mae_centred"], "median's MAE": scores["median_mae"],
        "Spearman": interval("new_spearman", ".2f"), "home sex AUC": scores["home_sex_auc"].map("{:.2f}".format),
        "new sex AUC": scores["new_sex_auc"].map("{:.2f}".format),
    }  # fmt: skip
    if "site_accuracy" in scores:
        shown["site bal. acc."] = scores["site_accuracy"].map("{:.2f}".format)
    return pd.DataFrame(shown)


def simulated(out: Path, *, seeds: int, n_train: int, n_test: int) -> None:
    rows: list[dict[str, Any]] = []
    for seed in range(seeds):
        rows += simulate_causes(seed, n_train=n_train, n_test=n_test)
    table = pd.DataFrame(rows)
    table.to_csv(out / "simulated_scanners.tsv", sep="\t", index=False, float_format="%.4f")
    found = summarise(table)
    found["shown"] = [
        f"{r:.2f} [{low:.2f}, {high:.2f}]"
        for r, low, high in found[["ratio", "ratio_low", "ratio_high"]].to_numpy()
    ]
    shown = found.pivot_table(
        index=["trained_on", "fault"], columns="input", values="shown", aggfunc="first", sort=False
    )
    keep(found, out, "simulated", shown.reset_index())


def keep(table: pd.DataFrame, out: Path, name: str, shown: pd.DataFrame | None = None) -> None:
    table.to_csv(out / f"{name}.tsv", sep="\t", index=False, float_format="%.4f")
    print(f"\n{name}\n\n" + "\n".join(markdown(table if shown is None else shown)), flush=True)


def markdown(table: pd.DataFrame) -> Iterable[str]:
    yield "| " + " | ".join(str(column) for column in table.columns) + " |"
    yield "|---" * len(table.columns) + "|"
    for row in table.itertuples(index=False):
        yield (
            "| "
            + " | ".join(
                f"{value:.1f}" if isinstance(value, float) else str(value) for value in row
            )
            + " |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data",
        type=Path,
        required=True,
        help="folder with participants.tsv and the three sites' scans",
    )
    parser.add_argument("--out", type=Path, default=Path("new_site_causes"))
    parser.add_argument(
        "--parts", nargs="+", choices=["real", "simulated"], default=["real", "simulated"]
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument(
        "--quick", action="store_true", help="one seed, few people: to try the script"
    )
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    seeds = 1 if arguments.quick else arguments.seeds
    print(f"{datetime.date.today()}, {seeds} seeds")
    # Matrices are small: threads would wait for one another.
    with threadpool_limits(1):
        if "real" in arguments.parts:
            real(
                arguments.data,
                arguments.out,
                seeds=seeds,
                n_described=3 if arguments.quick else N_DESCRIBED,
            )
        if "simulated" in arguments.parts:
            n_train, n_test = (60, 16) if arguments.quick else (200, 80)
            simulated(arguments.out, seeds=seeds, n_train=n_train, n_test=n_test)


if __name__ == "__main__":
    main()
