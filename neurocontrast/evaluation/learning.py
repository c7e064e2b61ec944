"""Learning curves: the same test folds, probes fitted on more and more subjects."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.evaluation.draws import draw_of_split
from neurocontrast.evaluation.fitting import study_designs
from neurocontrast.evaluation.metrics import DESCRIPTIVE, POOLED_ONLY, compute_metrics
from neurocontrast.evaluation.planning import Study
from neurocontrast.evaluation.probe_kinds import fit_and_decide
from neurocontrast.evaluation.splits import Split
from neurocontrast.progress import Progress
from neurocontrast.seeds import derive_seed

__all__ = ["learning_curve"]

Rows = npt.NDArray[np.intp]


def learning_curve(study: Study, progress: Progress) -> tuple[dict[str, Any] | None, pd.DataFrame | None]:
    """Return ``learning_curve`` of evaluation.json, and its table; None where no sizes are asked for.

    In every fold, subjects are drawn from its training rows `n_draws` times, each with all scans; the
    smaller sizes of a draw are parts of the larger ones. Folds and draws depend on scans, target and
    seed alone: evaluations of other encoders have the same.
    """
    settings = study.settings
    if not settings.train_sizes:
        return None, None
    rows = []
    n_fits = len(settings.train_sizes) * settings.n_draws * len(study.splits)
    with progress.task("Learning curve", n_fits, "fit") as task:
        for split in study.splits:
            for draw in range(settings.n_draws):
                order = draw_of_split(study.table, study.target, split, draw, settings.seed)
                for size in settings.train_sizes:
                    train = split.train[np.isin(study.subjects[split.train].astype(str), order[:size])]
                    row = {"n_train": size, "draw": draw, "repeat": split.repeat, "fold": split.fold}
                    rows.append(row | _fit(study, split, train, seed=_seed(study, split, draw, size)))
                    task.advance()
    table = pd.DataFrame(rows).sort_values(["n_train", "draw", "repeat", "fold"], ignore_index=True)
    return _summary(study, table), table


def _seed(study: Study, split: Split, draw: int, size: int) -> int:
    return derive_seed("learning-probe", study.settings.seed, split.repeat, split.fold, draw, size)


def _fit(study: Study, split: Split, train: Rows, *, seed: int) -> dict[str, float]:
    found: dict[str, float] = {}
    for model, design in study_designs(study).items():
        decided = fit_and_decide(
            design,
            study.target,
            train,
            split.test,
            subjects=study.subjects,
            settings=study.settings,
            seed=seed,
            sites=study.sites,
            estimator=study.estimator_of(model),
        )
        values = compute_metrics(
            study.target.kind, study.target.values[split.test], decided.fit.scores, decisions=decided.decisions
        )
        prefix = "" if model == "embedding" else f"{model}_"
        found |= {prefix + name: float(values[name][0]) for name in _names(study)}
    return found


def _names(study: Study) -> list[str]:
    # A calibration slope of a few scans can be anything, and its mean over folds tells nothing.
    return [name for name in study.target.metric_names if name not in POOLED_ONLY and name not in DESCRIPTIVE]


def _summary(study: Study, table: pd.DataFrame) -> dict[str, Any]:
    def described(prefix: str) -> dict[str, list[dict[str, Any]]]:
        return {name: [_point(part, prefix + name, size) for size, part in by_size] for name in _names(study)}

    by_size = [(size, table[table["n_train"] == size]) for size in study.settings.train_sizes]
    return {
        "sizes": list(study.settings.train_sizes),
        "n_draws": study.settings.n_draws,
        "unit": "subject",
        "metrics": described(""),
        "baseline": described("baseline_"),
    }


def _point(part: pd.DataFrame, column: str, size: int) -> dict[str, Any]:
    values = part[column].to_numpy(dtype=float)
    known = values[np.isfinite(values)]
    return {
        "n_train": size,
        "mean": float(known.mean()) if len(known) else None,
        "sd": float(known.std(ddof=1)) if len(known) > 1 else None,
        "n": len(known),
    }
