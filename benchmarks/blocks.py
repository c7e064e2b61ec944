"""What does the choice of the blocks' weight cost where the network is useless, and what does it bring?

    python -m benchmarks.blocks                    # ten minutes on one core
    python -m benchmarks.blocks --seeds 3 --people 100

Simulated people with two diagnoses. Twenty components hold the effect, with standard deviations
that fall as those of principal components do; the network's 128 features are noise (the null), hold
the same effect as the components, or hold an effect of their own. Compared are the components
alone, the network alone, both blocks with the same variance, and both with the weight that inner
folds choose, all by the built-in logistic regression in the same five folds. Printed are mean AUCs
within folds over seeds, and the price: both blocks minus the better one alone, with its standard
error.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np
import pandas as pd

from neurocontrast.documents.info import EmbeddingsInfo
from neurocontrast.evaluation import EvaluationSettings, plan_evaluation
from neurocontrast.evaluation.fit.out_of_fold import cross_validate
from neurocontrast.evaluation.measure.tables import fold_table
from neurocontrast.evaluation.plan.models import ProbeModel
from neurocontrast.evaluation.plan.plan import Plan
from neurocontrast.evaluation.probes.designs import EQUAL
from neurocontrast.evaluation.rows import Floats

N_NETWORK = 128
N_COMPONENTS = 20
EFFECT = 1.0
"""Of the diagnosis, in standard deviations, along one direction of each block that holds any."""
NETWORKS = ("noise", "same effect", "own effect")


def simulate(network: str, n_people: int, seed: int) -> tuple[pd.DataFrame, Floats]:
    """Return a table of people, and the features of both blocks."""
    generator = np.random.default_rng([seed, n_people, NETWORKS.index(network)])
    is_patient = np.arange(n_people) % 2
    shared = EFFECT * (is_patient - 0.5) + generator.normal(size=n_people)
    own = EFFECT * (is_patient - 0.5) + generator.normal(size=n_people)
    components = generator.normal(size=(n_people, N_COMPONENTS))
    components[:, N_COMPONENTS // 2] = shared
    components *= 1 / np.sqrt(1 + np.arange(N_COMPONENTS))
    learned = generator.normal(size=(n_people, N_NETWORK))
    if network != "noise":
        effect = shared if network == "same effect" else own
        learned += np.outer(effect, generator.normal(size=N_NETWORK)) * 0.3
    names = [f"sub-{row:04d}" for row in range(n_people)]
    table = pd.DataFrame({"participant_id": names, "subject_id": names, "session": ""})
    table["path"] = [f"{name}.nii.gz" for name in names]
    table["site"] = "one"
    table["diagnosis"] = np.array(["control", "patient"])[is_patient]
    return table, np.hstack([learned, components])


def make_plan(network: str, n_people: int, seed: int) -> Plan:
    """Return the study of both blocks."""
    table, features = simulate(network, n_people, seed)
    beside = {"name": "pca", "n_components": N_COMPONENTS}
    run = {"weights": {"sha256": "0" * 64}, "beside": beside}
    settings = EvaluationSettings(
        target="diagnosis", covariates=(), n_bootstraps=0, C=(1e-4, 1e-3, 1e-2, 0.1, 1.0), seed=seed
    )
    info = EmbeddingsInfo(run=run, pretraining_subjects=[])
    return plan_evaluation(table, features, settings=settings, info=info)


def score(plan: Plan, model: ProbeModel) -> tuple[float, float]:
    """Return the mean AUC within folds of a model, and the mean weight that it gave the network."""
    folds = fold_table(
        plan, {"embedding": cross_validate(model, plan.target, plan.splits, plan.context)}
    )
    weights = folds.get("weight_network", pd.Series(dtype=float))
    return float(folds["auc"].mean()), float(weights.mean())


def compare(network: str, n_people: int, seed: int) -> dict[str, float]:
    """Return the AUC of each block, of both with equal variance, and of both as inner folds weigh them."""
    plan = make_plan(network, n_people, seed)
    by_name = {model.name: model for model in plan.models if isinstance(model, ProbeModel)}
    both = by_name["embedding"]
    equal = replace(both, design=replace(plan.design(), weight=EQUAL))
    row = {}
    for name in ("components", "network"):
        row[name] = score(plan, by_name[name])[0]
    row["equal"] = score(plan, equal)[0]
    row["weighed"], row["weight of network"] = score(plan, both)
    best = max(row["components"], row["network"])
    return row | {"price": row["weighed"] - best, "price of equal": row["equal"] - best}


def main() -> None:
    """Print one row for each network and number of people."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--people", type=int, nargs="+", default=[100, 200, 400])
    options = parser.parse_args()
    rows = []
    for network in NETWORKS:
        for n_people in options.people:
            found = [compare(network, n_people, seed) for seed in range(options.seeds)]
            table = pd.DataFrame(found)
            error = table["price"].sem()
            rows.append(
                {
                    "its network": network,
                    "people": n_people,
                    **table.mean(),
                    "error of price": error,
                }
            )
    print(pd.DataFrame(rows).round(3).to_string(index=False))


if __name__ == "__main__":
    main()
