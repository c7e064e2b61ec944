"""The weight that was varied is found, and the table along it."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

from neurocontrast.evaluation.comparison import Evaluated, find_sweep, tradeoff_table
from neurocontrast.evaluation.schema import Evaluation

MAIN = {
    "loss": "conditional",
    "kernel": [{"column": "age", "type": "gaussian", "sigma": 5.0}],
    "uniformity_weight": 1.0,
}
FAIR = {"loss": "fair_cclk", "kernel": [{"column": "site", "type": "categorical"}], "ridge": 0.01}
OUTSIDE = {
    "n": 50,
    "n_outside": 4,
    "unseen_by_site": [{"site": "a", "n": 20, "n_outside": 9}, {"site": "b", "n": 28, "n_outside": 3}],
}
RUN = {"encoder": {"name": "densenet121"}, "epochs": 8, "preprocessing": {"spacing_mm": 4.0}}


def summed(weights: dict, **fair: object) -> dict:
    return {"loss": "sum", "objectives": {"main": MAIN, "fair": FAIR | fair}, "weights": weights}


def evaluated(name: str, objective: object, *, run: dict | None = None, **summary: object) -> Evaluated:
    content = {"objective": objective, "run": RUN if run is None else run, "splits": "stratified", **summary}
    base = {"format": 1, "target": "age", "kind": "continuous", "n": {}, "metrics": {}}
    return Evaluated(name, Evaluation.model_validate(base | content), pd.DataFrame(), pd.DataFrame())


def test_a_weight_of_a_sum():
    runs = [evaluated(f"w{w}", summed({"main": 1.0, "fair": w})) for w in (1.0, 0.0, 0.3)]
    sweep = find_sweep([*runs, evaluated("untrained", None)])
    assert (sweep.name, sweep.weights) == ("weights.fair", {"w1.0": 1.0, "w0.0": 0.0, "w0.3": 0.3})


def test_a_weight_that_is_not_written_is_one():
    sweep = find_sweep([evaluated("a", summed({})), evaluated("b", summed({"fair": 0.1}))])
    assert sweep.weights == {"a": 1.0, "b": 0.1}


def test_the_weight_of_uniformity():
    runs = [evaluated(f"u{w}", MAIN | {"uniformity_weight": w}) for w in (0.5, 1.0, 2.0)]
    assert find_sweep(runs).name == "uniformity_weight"


@pytest.mark.parametrize(
    "other",
    [
        evaluated("b", summed({"fair": 0.3}, ridge=0.1)),
        evaluated("b", summed({"fair": 0.3, "main": 0.5})),
        evaluated("b", summed({"fair": 0.3}), run=RUN | {"epochs": 50}),
        evaluated("b", summed({"fair": 0.1})),
        evaluated("b", None),
    ],
    ids=["another ridge", "two weights", "another run", "the same weight", "no objective"],
)
def test_what_differs_otherwise_is_no_curve(other):
    assert find_sweep([evaluated("a", summed({"fair": 0.1})), other]) is None


def block(unseen: float) -> dict:
    pooled = {"mae": {"value": unseen, "low": 8.0, "high": 12.0}}
    return {
        "home": {"embedding": {"mae": {"value": 5.0, "low": 4.0, "high": 6.0}}},
        "unseen": {
            "embedding": pooled,
            "constant": {"mae": {"value": 9}},
        },
        "ratio": {"embedding": {"mae": {"value": 2.0, "low": 1.5, "high": 2.5}}},
        "site_predictability": {"balanced_accuracy": 0.9, "low": 0.8, "high": 0.95, "chance": 0.5},
    }


def test_the_table_takes_what_each_evaluation_has():
    models = pd.DataFrame(
        [(name, "mae", value, value - 1, value + 1) for name, value in (("a", 5.5), ("b", 7.0), ("c", 8.0))],
        columns=["model", "metric", "value", "low", "high"],
    )
    full = evaluated("a", summed({"fair": 0.1}), new_site=block(10.0), outlyingness=OUTSIDE)
    old = evaluated("b", summed({"fair": 1.0}))
    old = replace(old, site={"balanced_accuracy": 0.6, "chance": 0.5})
    left = evaluated("c", None, new_site=block(11.0) | {"unseen": None}, splits="leave-site-out")
    table = tradeoff_table([full, old, left], models, metric="mae").set_index("model")
    assert table.loc["a", ["weight", "known", "unseen", "ratio", "constant", "n_outside"]].tolist() == [
        0.1, 5.5, 10.0, 2.0, 9.0, 4.0,
    ]  # fmt: skip
    assert table.loc["a", ["n_unseen", "n_unseen_outside"]].tolist() == [48, 12]
    assert table.loc["b", ["site_balanced_accuracy", "known"]].tolist() == [0.6, 7.0]
    assert pd.isna(table.loc["b", ["unseen", "site_low", "n"]].astype(float)).all()
    assert table.loc["c", ["known", "unseen", "unseen_low"]].tolist() == [5.0, 8.0, 7.0]


def test_no_table_where_nothing_is_known_of_sites():
    models = pd.DataFrame({"model": ["a"], "metric": ["mae"], "value": [1.0], "low": [0.5], "high": [1.5]})
    assert tradeoff_table([evaluated("a", None)], models, metric="mae").empty
