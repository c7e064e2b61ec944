"""The table of how well each model tells the site, and how it does at new ones."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from neurocontrast.evaluation.record import Evaluation
from neurocontrast.findings.comparison.measure import Evaluated, tradeoff_table
from neurocontrast.findings.folder import EvaluationFolder

OUTSIDE = {"n": 50, "n_outside": 4}


def evaluated(name: str, confounds: pd.DataFrame | None = None, **summary: object) -> Evaluated:
    content = {"splits": "stratified", **summary}
    base = {"format": 1, "target": "age", "kind": "continuous", "n": {}, "metrics": {}}
    empty, found = pd.DataFrame(), Evaluation.model_validate(base | content)
    return Evaluated(
        name, EvaluationFolder(Path(name), found, empty, empty, empty, tables={"confounds": confounds}), empty
    )


def block(unseen: float) -> dict:
    pooled = {"mae": {"value": unseen, "low": 8.0, "high": 12.0}}
    return {
        "home": {"embedding": {"mae": {"value": 5.0, "low": 4.0, "high": 6.0}}},
        "unseen": {"embedding": pooled, "constant": {"mae": {"value": 9}}},
        "ratio": {"embedding": {"mae": {"value": 2.0, "low": 1.5, "high": 2.5}}},
        "site_predictability": {"balanced_accuracy": 0.9, "low": 0.8, "high": 0.95, "chance": 0.5},
    }


def test_the_table_takes_what_each_evaluation_has():
    models = pd.DataFrame(
        [(name, "mae", value, value - 1, value + 1) for name, value in (("a", 5.5), ("b", 7.0), ("c", 8.0))],
        columns=["model", "metric", "value", "low", "high"],
    )
    full = evaluated("a", new_site=block(10.0), outlyingness=OUTSIDE)
    site = {"column": "site", "within": "all", "metric": "balanced_accuracy", "value": 0.6, "chance": 0.5}
    old = evaluated("b", pd.DataFrame([site]))
    left = evaluated("c", new_site=block(11.0) | {"unseen": None}, splits="leave-site-out")
    table = tradeoff_table([full, old, left], models, metric="mae").set_index("model")
    assert table.loc["a", ["known", "unseen", "ratio", "constant", "n_outside"]].tolist() == [
        5.5, 10.0, 2.0, 9.0, 4.0,
    ]  # fmt: skip
    assert table.loc["b", ["site_balanced_accuracy", "known"]].tolist() == [0.6, 7.0]
    assert pd.isna(table.loc["b", ["unseen", "site_low", "n"]].astype(float)).all()
    assert table.loc["c", ["known", "unseen", "unseen_low"]].tolist() == [5.0, 8.0, 7.0]


def test_no_table_where_nothing_is_known_of_sites():
    models = pd.DataFrame({"model": ["a"], "metric": ["mae"], "value": [1.0], "low": [0.5], "high": [1.5]})
    assert tradeoff_table([evaluated("a")], models, metric="mae").empty
