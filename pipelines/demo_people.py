"""Show how weights that were learned elsewhere do at a hospital that they never saw, from `demo.sh`.

    python pipelines/demo_people.py PREDICTIONS.tsv PICTURE.png

PREDICTIONS.tsv is written by `neurocontrast predict measures` of the people of ds000222, who come
with the repository. Linear models of the same measures, learned from the same people as the
weights, and the median age are compared.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.metrics import roc_auc_score

from benchmarks.weights.linear_rivals import LinearRivals
from neurocontrast import weights
from neurocontrast.datasets import load_measures

N_LABELLED = 10
N_DRAWS = 200
"""Draws of labelled people, whose mean error is taken off the ages of all others."""
N_BOOTSTRAPS = 2000


@dataclass(frozen=True, eq=False)
class System:
    """Predictions of everybody's age and, where it has any, scores of being a man."""

    name: str
    age: npt.NDArray[np.float64]
    male: npt.NDArray[np.float64] | None

    def error(self, truth: npt.NDArray[np.float64]) -> str:
        """Return the mean absolute error in years, with its interval over people."""
        errors = np.abs(self.age - truth)
        random = np.random.default_rng(0)
        draws = random.choice(errors, (N_BOOTSTRAPS, len(errors))).mean(axis=1)
        low, high = np.quantile(draws, [0.025, 0.975])
        return f"{errors.mean():.1f} [{low:.1f}, {high:.1f}]"

    def error_after_labels(self, truth: npt.NDArray[np.float64]) -> float:
        """Return the mean error of the others once ten people's mean error is taken off."""
        random = np.random.default_rng(0)
        errors = []
        for _ in range(N_DRAWS):
            order = random.permutation(len(truth))
            labelled = order[:N_LABELLED]
            others = order[N_LABELLED:]
            shift = (self.age - truth)[labelled].mean()
            errors.append(np.abs(self.age - shift - truth)[others].mean())
        return float(np.mean(errors))

    def auc(self, is_male: npt.NDArray[np.bool_]) -> str:
        """Return the AUC of sex."""
        if self.male is None:
            return "    –"
        return f"{roc_auc_score(is_male, self.male):5.3f}"


def draw(systems: list[System], truth: npt.NDArray[np.float64], picture: Path) -> None:
    """Draw predicted over true age, a panel a system."""
    mpl.use("Agg")
    figure, axes = plt.subplots(
        1, len(systems), figsize=(9, 4.2), sharex=True, sharey=True, layout="constrained"
    )
    ends = [15, 80]
    for axis, system in zip(axes, systems, strict=True):
        axis.plot(ends, ends, color="0.6", linewidth=1)
        axis.scatter(truth, system.age, s=18, color="#1f5a99", alpha=0.75, linewidths=0)
        axis.set_title(f"{system.name}: off by {system.error(truth)} years", fontsize=10)
        axis.set_xlabel("age, years")
        axis.set_aspect("equal")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("predicted age, years")
    figure.savefig(picture, dpi=150, metadata={"Software": None})
    plt.close(figure)


def main(predictions: Path, picture: Path) -> None:
    """Print the table of systems, and draw the picture."""
    sample = load_measures("ds000222")
    people = sample.table.set_index("participant_id")
    predicted = pd.read_csv(predictions, sep="\t").set_index("participant_id").loc[people.index]
    (table,) = sample.measures
    measures = pd.read_csv(table, sep="\t").set_index("participant_id").loc[people.index]
    rivals = LinearRivals.read(weights.load("measures").path)
    x = rivals.standardise(measures)
    systems = [
        System(
            "the weights",
            predicted["predicted_age"].to_numpy(float),
            predicted["probability_sex_M"].to_numpy(float),
        ),
        System("linear models of the measures", rivals.age.apply(x), rivals.male.apply(x)),
        System("the median age", np.full(len(people), rivals.median_age), None),
    ]
    truth = people["age"].to_numpy(float)
    is_male = (people["sex"] == "M").to_numpy()
    print(f"\n{len(people)} real people of a hospital that nothing was learned from (ds000222):\n")
    print(
        f"  {'':32}{'error of age, years':>22}{f'with {N_LABELLED} labelled':>20}{'AUC of sex':>13}"
    )
    for system in systems:
        print(
            f"  {system.name:32}{system.error(truth):>22}"
            f"{system.error_after_labels(truth):>20.1f}{system.auc(is_male):>13}"
        )
    draw(systems[:2], truth, picture)
    print(f"\n{picture}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("Usage: python pipelines/demo_people.py PREDICTIONS.tsv PICTURE.png")
    main(Path(sys.argv[1]), Path(sys.argv[2]))
