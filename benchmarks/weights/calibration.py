"""Measure which error of the weights of measures to expect at a new site, by its labelled people.

    python -m benchmarks.weights.measures --data ../shared/data/regions --work WORK
    python -m benchmarks.weights.calibration --data ../shared/data/regions --work WORK --write

The first command predicts everybody at sites left out, by weights that learned from the others,
and ds000222, from which nothing is learned. Here nki is added, from which nothing is learned
either. At each site k people are drawn, their shift is taken out as `predict --calibrate` does, and
the error of all others is measured, 200 times. A site counts for k where it has k + 10 people.

With --write the means over sites are kept beside the probes, as `expected.json`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

import neurocontrast
from benchmarks.regions.data import read_people
from neurocontrast.documents.expected import FILE, ErrorOfShots, ExpectedErrors
from neurocontrast.evaluation.fit.stored_probe import fit_shifts, shift_scores
from neurocontrast.files import write_json
from neurocontrast.seeds import derive_generator

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "weights" / "measures" / "neurocontrast_weights_measures"
N_PEOPLE = (0, 5, 10, 20, 50)
N_DRAWS = 200
MIN_TEST = 10
METRICS = {"age": "mean absolute error in years", "sex": "percentage of wrong sexes"}
KINDS = {"age": "continuous", "sex": "binary"}
UNSEEN = "nki"
MEASURED_BY = "benchmarks/weights/calibration.py"


def read_predictions(work: Path, data: Path, weights: Path) -> pd.DataFrame:
    """Return predictions of people at sites that were not learned from."""
    files = [work / "predictions.tsv", *sorted(work.glob("group-*/predictions.tsv"))]
    tables = [pd.read_csv(file, sep="\t") for file in files if file.is_file()]
    print(f"{len(tables)} tables of sites left out", flush=True)
    people, measures = read_people(data)
    is_unseen = (people["source"] == UNSEEN) & people["age"].notna()
    frame = measures[is_unseen].assign(participant_id=people["participant_id"][is_unseen])
    predicted = neurocontrast.predict(weights, frame, progress=False).table
    assert not predicted["trained_on"].any()
    of_unseen = people[is_unseen].merge(predicted, on="participant_id", suffixes=("", "_in"))
    names = {"predicted_age": "age_predicted", "probability_sex_M": "sex_predicted"}
    tables.append(of_unseen.rename(columns=names))
    columns = ["participant_id", "site", "age", "sex", "age_predicted", "sex_predicted"]
    return pd.concat(tables, ignore_index=True)[columns].dropna()


def errors_of_site(people: pd.DataFrame, target: str, n_labelled: int) -> tuple[float, float]:
    """Return the mean error of people who gave no label, after a shift by those who did, and before."""
    kind = KINDS[target]
    scores = people[f"{target}_predicted"].to_numpy(float)
    truths = people["age"].to_numpy(float)
    if target == "sex":
        truths = people["sex"].eq("M").to_numpy(float)
    sites = people["site"].reset_index(drop=True)
    names = people["participant_id"].reset_index(drop=True)
    generator = derive_generator("calibration", target, sites[0], n_labelled)
    after = []
    before = []
    for _ in range(N_DRAWS if n_labelled else 1):
        labelled = generator.permutation(len(people))[:n_labelled]
        is_test = np.ones(len(people), dtype=bool)
        is_test[labelled] = False
        shifted = scores
        if n_labelled:
            shifts = fit_shifts(
                scores[labelled], truths[labelled], sites[labelled], names[labelled], kind
            )
            shifted = shift_scores(scores, sites, shifts, kind)
        after.append(error_of(target, shifted[is_test], truths[is_test]))
        before.append(error_of(target, scores[is_test], truths[is_test]))
    return float(np.mean(after)), float(np.mean(before))


def error_of(target: str, scores: np.ndarray, truths: np.ndarray) -> float:
    """Return the mean absolute error, or the percentage of wrong classes."""
    if target == "age":
        return float(np.abs(scores - truths).mean())
    return 100.0 * float(((scores >= 0.5) != (truths == 1)).mean())


def measure(predictions: pd.DataFrame, target: str) -> tuple[ExpectedErrors, pd.DataFrame]:
    """Return the errors by the number of labelled people, and a table of them."""
    by_n_people = []
    rows = []
    for n_people in N_PEOPLE:
        after = []
        before = []
        for _, people in predictions.groupby("site"):
            if len(people) >= n_people + MIN_TEST:
                errors = errors_of_site(people, target, n_people)
                after.append(errors[0])
                before.append(errors[1])
        low, high = np.quantile(after, [0.1, 0.9])
        shots = ErrorOfShots(
            n_people=n_people,
            error=round(float(np.mean(after)), 3),
            low=round(float(low), 3),
            high=round(float(high), 3),
            unlabelled=round(float(np.mean(before)), 3),
            n_sites=len(after),
        )
        by_n_people.append(shots)
        better = int(np.sum(np.array(after) < np.array(before)))
        rows.append(shots.model_dump() | {"sites_better": better})
    expected = ExpectedErrors(
        format=1,
        target=target,
        metric=METRICS[target],
        measured_by=f"{MEASURED_BY}, {predictions['site'].nunique()} sites",
        by_n_people=by_n_people,
    )
    return expected, pd.DataFrame(rows)


def as_markdown(table: pd.DataFrame) -> str:
    """Return the table as documents quote it."""
    lines = [
        "| labelled people of the site | sites | error without | error after the shift | eight of ten "
        "sites | sites that gain |",
        "|---|---|---|---|---|---|",
    ]
    for row in table.itertuples():
        gain = "" if row.n_people == 0 else f"{row.sites_better}"
        lines.append(
            f"| {row.n_people} | {row.n_sites} | {row.unlabelled:.1f} | {row.error:.1f} | "
            f"{row.low:.1f}–{row.high:.1f} | {gain} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Measure, print, and keep."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder of regional measures")
    parser.add_argument("--work", type=Path, required=True, help="WORK of the other script")
    parser.add_argument("--weights", type=Path, default=PACKAGE)
    parser.add_argument("--write", action="store_true", help="keep the errors beside the probes")
    arguments = parser.parse_args()
    predictions = read_predictions(arguments.work, arguments.data, arguments.weights)
    for target, metric in METRICS.items():
        expected, table = measure(predictions, target)
        print(f"{target}, {metric}\n{as_markdown(table)}\n", flush=True)
        if arguments.write:
            write_json(arguments.weights / target / FILE, expected.content())


if __name__ == "__main__":
    main()
