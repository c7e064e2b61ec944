"""The table of how well each model tells the site, and how it does at new ones."""

from pathlib import Path

import pandas as pd

from neurocontrast.documents.result import Result
from neurocontrast.evaluation.measure.comparison import at_unseen_sites, tradeoff_table
from neurocontrast.reporting.compared import compared_evaluation
from neurocontrast.reporting.folder import EvaluationFolder

OUTSIDE = {"n": 50, "n_outside": 4}


def evaluated(
    confounds: pd.DataFrame | None = None, site: str | None = "A", **summary: object
) -> EvaluationFolder:
    base = {
        "format": 1,
        "target": "age",
        "kind": "continuous",
        "n": {},
        "metrics": {},
        "splits": "stratified",
    }
    empty = pd.DataFrame()
    found = Result.model_validate(base | summary)
    tested = pd.DataFrame({"repeat": 0, "fold": [0, 1], "site": site})
    return EvaluationFolder(
        folder=Path(),
        summary=found,
        predictions=tested,
        folds=empty,
        sites=empty,
        tables={"confounds": confounds},
    )


def block(unseen: float) -> dict:
    pooled = {"mae": {"value": unseen, "low": 8.0, "high": 12.0}}
    return {
        "home": {"embedding": {"mae": {"value": 5.0, "low": 4.0, "high": 6.0}}},
        "unseen": {"embedding": pooled, "constant": {"mae": {"value": 9}}},
        "ratio": {"embedding": {"mae": {"value": 2.0, "low": 1.5, "high": 2.5}}},
        "site_predictability": {"balanced_accuracy": 0.9, "low": 0.8, "high": 0.95, "chance": 0.5},
    }


def tabulate(*values: float, **evaluations: EvaluationFolder) -> pd.DataFrame:
    compared = {name: compared_evaluation(files) for name, files in evaluations.items()}
    rows = [
        {"model": name, "metric": "mae", "value": value, "low": value - 1, "high": value + 1}
        | at_unseen_sites(compared[name], "mae")
        for name, value in zip(evaluations, values, strict=True)
    ]
    return tradeoff_table(compared, pd.DataFrame(rows)).set_index("model")


def test_the_table_takes_what_each_evaluation_has():
    site = {
        "column": "site",
        "within": "all",
        "metric": "balanced_accuracy",
        "value": 0.6,
        "chance": 0.5,
    }
    full = evaluated(new_site=block(10.0), outlyingness=OUTSIDE)
    table = tabulate(
        5.5,
        7.0,
        8.0,
        a=full,
        b=evaluated(pd.DataFrame([site])),
        c=evaluated(splits="leave-site-out"),
    )
    found = table.loc["a", ["known", "unseen", "ratio", "constant", "n_outside"]]
    assert found.tolist() == [5.5, 10.0, 2.0, 9.0, 4.0]
    assert table.loc["b", ["site_balanced_accuracy", "known"]].tolist() == [0.6, 7.0]
    assert pd.isna(table.loc["b", ["unseen", "site_low", "n"]].astype(float)).all()
    assert table.loc["c", ["unseen", "unseen_low"]].tolist() == [8.0, 7.0]
    assert pd.isna(table.loc["c", "known"])
    mixed = evaluated(new_site=block(10.0), outlyingness=OUTSIDE, site=None)
    table = tabulate(5.5, 5.5, a=mixed, b=evaluated(outlyingness=OUTSIDE, site=None))
    assert table["known"].fillna(-1).tolist() == [5.0, -1], "not all scans are of known sites"


def test_no_table_where_nothing_is_known_of_sites():
    assert tabulate(1.0, a=evaluated()).empty
