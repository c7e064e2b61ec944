"""How long linear evaluation of natural images takes, beside scikit-learn's L-BFGS, and whether both agree.

    python benchmarks/linear_evaluation.py [--n-features 512] [--n-classes 10] [--share 1.0] [--only plain]

Simulated features of 40,000 training, 10,000 validation and 10,000 test images (`--share` of each): a decaying
spectrum cut at zero, as those of a network that ends in a ReLU. Processor seconds of one thread, and the peak memory of
each way in a process of its own:

whole      everything that `evaluate` does by default
logistic   the probe alone: 10 values of C tried on validation, the final fit on train and validation
plain      the plain script: scikit-learn's StandardScaler and LogisticRegression (L-BFGS), at its default tolerance
tight      the same at a tolerance of 1e-8 and the C that `logistic` chose: how far both are from one another
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from neurocontrast.evaluation import EvaluationSettings, plan_study, run_study
from neurocontrast.evaluation.fitting import cross_validate
from neurocontrast.evaluation.planning import Study

SIZES = {"train": 40_000, "validation": 10_000, "test": 10_000}
WAYS = ("whole", "logistic", "plain", "tight")


def simulate(n_features: int, n_classes: int, share: float) -> tuple[pd.DataFrame, np.ndarray]:
    generator = np.random.default_rng(0)
    parts = np.repeat(list(SIZES), [int(share * n) for n in SIZES.values()])
    codes = generator.integers(n_classes, size=len(parts))
    basis = generator.normal(size=(128, n_features)) * (np.arange(1, 129) ** -0.7)[:, None]
    latent = generator.normal(size=(len(parts), 128)) + 0.15 * generator.normal(size=(n_classes, 128))[codes]
    features = np.maximum(latent @ basis + 0.05 * generator.normal(size=(len(parts), n_features)) + 0.2, 0)
    names = [f"{part}-{row:05d}" for row, part in enumerate(parts)]
    table = pd.DataFrame({"participant_id": names, "path": names, "split": parts})
    table["label"] = [f"class {code}" for code in codes]
    return table, features.astype(np.float32)


def make_study(arguments: argparse.Namespace, **options: Any) -> Study:
    table, features = simulate(arguments.n_features, arguments.n_classes, arguments.share)
    settings = EvaluationSettings(target="label", split_column="split", **options)
    return plan_study(table, features, settings=settings, info={"pretraining_subjects": []})


def run_whole(arguments: argparse.Namespace) -> dict[str, Any]:
    found = run_study(make_study(arguments)).evaluation
    return {"accuracy": found.metrics["accuracy"].pooled, "chosen": found.probe.strength}


def run_probe(arguments: argparse.Namespace) -> dict[str, Any]:
    study = make_study(arguments)
    model = cross_validate(study.design(), study.target, study.splits, subjects=study.subjects, settings=study.settings)
    rows = study.splits[0].test
    right = model.decisions[0, rows] == study.target.values[rows]
    return {"accuracy": float(right.mean()), "chosen": model.strengths[0]}


def matrices(arguments: argparse.Namespace) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    table, features = simulate(arguments.n_features, arguments.n_classes, arguments.share)
    codes = np.unique(table["label"], return_inverse=True)[1]
    rows = {name: (table["split"] == name).to_numpy() for name in SIZES}
    rows["both"] = rows["train"] | rows["validation"]
    return {name: (features[kept].astype(np.float64), codes[kept]) for name, kept in rows.items()}


def fit_plain(x: np.ndarray, codes: np.ndarray, strength: float, **options: Any) -> tuple[Any, Any]:
    scaler = StandardScaler().fit(x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return scaler, LogisticRegression(C=strength, **options).fit(scaler.transform(x), codes)


def run_plain(arguments: argparse.Namespace) -> dict[str, Any]:
    data, losses = matrices(arguments), {}
    for strength in EvaluationSettings().C:
        scaler, model = fit_plain(*data["train"], strength, max_iter=1000)
        losses[strength] = log_loss(data["validation"][1], model.predict_proba(scaler.transform(data["validation"][0])))
    chosen = min(losses, key=lambda strength: losses[strength])
    scaler, model = fit_plain(*data["both"], chosen, max_iter=1000)
    accuracy = float((model.predict(scaler.transform(data["test"][0])) == data["test"][1]).mean())
    return {"accuracy": accuracy, "chosen": chosen}


def run_tight(arguments: argparse.Namespace) -> dict[str, Any]:
    study = make_study(arguments, C=(arguments.strength,))
    people = {"subjects": study.subjects, "settings": study.settings}
    ours = cross_validate(study.design(), study.target, study.splits, **people)
    data = matrices(arguments)
    scaler, model = fit_plain(*data["both"], arguments.strength, tol=1e-8, max_iter=20_000)
    scores = model.predict_proba(scaler.transform(data["test"][0]))
    gap = np.abs(scores - ours.scores[0, study.splits[0].test]).max()
    return {"accuracy": float((scores.argmax(axis=1) == data["test"][1]).mean()), "largest_difference": float(gap)}


def measure(arguments: argparse.Namespace) -> None:
    ways: dict[str, Callable[[], dict[str, Any]]] = {
        "whole": lambda: run_whole(arguments),
        "logistic": lambda: run_probe(arguments),
        "plain": lambda: run_plain(arguments),
        "tight": lambda: run_tight(arguments),
    }
    with threadpool_limits(1):
        found = ways[arguments.way]()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        json.dumps(
            {"way": arguments.way, "seconds": round(time.process_time(), 1), "peak_gib": round(peak, 2), **found}
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n-features", type=int, default=512)
    parser.add_argument("--n-classes", type=int, default=10)
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--strength", type=float, default=0.01, help="C of `tight`")
    parser.add_argument("--only", default=",".join(WAYS))
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.way:
        measure(arguments)
        return
    for way in arguments.only.split(","):
        command = [sys.executable, __file__, "--way", way]
        for name in ("n_features", "n_classes", "share", "strength"):
            command += [f"--{name.replace('_', '-')}", str(getattr(arguments, name))]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
