"""Bands around curves, against resamples that scikit-learn computes one by one."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import precision_recall_curve, roc_curve

from neurocontrast.reporting.sections.curves import GRID, curve_band


def predictions(n: int = 60, *, n_repeats: int = 1, scans_a_subject: int = 1, seed: int = 0) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    truth = np.repeat(random.integers(0, 2, n // scans_a_subject), scans_a_subject)
    subjects = np.repeat([f"s{i}" for i in range(n // scans_a_subject)], scans_a_subject)
    tables = []
    for repeat in range(n_repeats):
        score = np.round(1 / (1 + np.exp(-(truth - 0.5 + random.normal(0, 1, n)))), 2)  # some are tied
        tables.append(pd.DataFrame({"repeat": repeat, "subject_id": subjects, "site": np.where(truth, "a", "b"),
                                    "y_true": np.where(truth, "patient", "control"), "y_score": score}))  # fmt: skip
    return pd.concat(tables, ignore_index=True)


def one_by_one(rows: pd.DataFrame, curve: str, n_draws: int) -> np.ndarray:
    codes, units = pd.factorize(rows["subject_id"])
    counts = np.random.default_rng(0).multinomial(len(units), np.full(len(units), 1 / len(units)), size=n_draws)
    heights = []
    for draw in counts:
        found = []
        for _, part in rows.assign(weight=draw[codes]).groupby("repeat"):
            part = part[part["weight"] > 0]
            truth, score, weight = part["y_true"] == "patient", part["y_score"], part["weight"]
            if curve == "roc":
                x, y, _ = roc_curve(truth, score, sample_weight=weight, drop_intermediate=False)
                found.append(np.interp(GRID, x, y))
            else:
                precision, recall, _ = precision_recall_curve(truth, score, sample_weight=weight)
                wanted = np.maximum(GRID, 1e-9)
                found.append([precision[np.flatnonzero(recall >= place - 1e-12)[-1]] for place in wanted])
        heights.append(np.mean(found, axis=0))
    return np.quantile(heights, [0.025, 0.975], axis=0)


@pytest.mark.parametrize("curve", ["roc", "precision_recall"])
@pytest.mark.parametrize(("n_repeats", "scans_a_subject"), [(1, 1), (2, 2)])
def test_a_band_is_that_of_resamples_one_by_one(curve, n_repeats, scans_a_subject, monkeypatch):
    monkeypatch.setattr("neurocontrast.reporting.sections.curves._N_DRAWS", 200)
    rows = predictions(n_repeats=n_repeats, scans_a_subject=scans_a_subject)
    band = curve_band(rows, column="y_score", positive="patient", curve=curve)
    low, high = one_by_one(rows, curve, 200)
    assert band["low"].to_numpy() == pytest.approx(low)
    assert band["high"].to_numpy() == pytest.approx(high)


def test_scans_of_a_subject_are_no_more_evidence_than_one():
    once = predictions(40)
    twice = pd.concat([once, once], ignore_index=True)
    arguments = {"column": "y_score", "positive": "patient", "curve": "roc"}
    assert curve_band(twice, **arguments).equals(curve_band(once, **arguments))


def test_no_band_where_there_is_nothing_to_resample():
    rows = predictions()
    arguments = {"column": "y_score", "positive": "patient", "curve": "roc"}
    assert curve_band(rows.assign(y_true="control"), **arguments) is None
    assert curve_band(rows.drop(columns="y_score"), **arguments) is None
    assert curve_band(rows.drop(columns="subject_id"), **arguments) is None
    # Two sites, each of one class: half of all resamples hold one class only.
    assert curve_band(rows, unit="site", **arguments) is None
