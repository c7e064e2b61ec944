"""Comparisons as `compare` makes them, without an evaluation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from neurocontrast.findings.comparison.show import Comparison

NAMES = ("ntxent", "<b>yaware", "untrained")
NO_SITES = pd.DataFrame({"metric": [], "unseen": []})


def make(**changes: object) -> Comparison:
    """Return a comparison; `changes` are keys of its summary, or its tables."""
    models = [
        {
            "model": name,
            "metric": metric,
            "value": 0.6 + 0.1 * place,
            "low": 0.5 + 0.1 * place,
            "high": 0.7 + 0.1 * place,
        }
        for metric in ("auc", "balanced_accuracy", "brier")
        for place, name in enumerate(NAMES)
    ]
    differences = [
        {"metric": metric, "model": name, "reference": "ntxent", "difference": gain, "low": gain - 0.05,
         "high": gain + 0.05, "n_folds": 10, "p_value": p, "p_adjusted": min(1, 2 * p)}
        for metric in ("auc", "balanced_accuracy", "brier")
        for name, gain, p in ((NAMES[1], 0.1, 0.004), (NAMES[2], -0.02, 0.5))
    ]  # fmt: skip
    curves = [
        {"model": name, "metric": "auc", "n_train": size, "mean": 0.5 + size / 1000, "sd": 0.03, "n": 25}
        for name in (*NAMES, "covariates only")
        for size in (50, 100, 200)
    ]
    summary = {
        "format": 1, "target": "diagnosis", "kind": "binary", "classes": ["control", "patient"], "splits": "stratified",
        "n_folds": 5, "n_repeats": 2, "reference": "ntxent", "n_bootstraps": 100, "confidence_level": 0.95, "seed": 0,
        "models": [{"name": name, "simulated": False, "n_overlap": 0,
                    "warnings": [{"code": "few_subjects", "message": "x"}]} for name in NAMES],
        "environment": {"neurocontrast": "0.1.0", "command": ["/home/someone/x"]},
    }  # fmt: skip
    tables = {name: changes.pop(name) for name in list(changes) if isinstance(changes[name], pd.DataFrame)}
    made = Comparison(summary | changes, *map(pd.DataFrame, (models, differences, curves)), NO_SITES)
    return replace(made, **{name: table.fillna(np.nan) for name, table in tables.items()})
