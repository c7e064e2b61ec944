"""Learning curves: the same test folds, probes fitted on more and more subjects."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.evaluation.fitting import fit_probe
from neurocontrast.evaluation.metrics import DESCRIPTIVE, POOLED_ONLY, compute_metrics, finite_or_none
from neurocontrast.evaluation.panels import Findings, Panel, PanelInputs
from neurocontrast.evaluation.panels.draws import draw_of_split
from neurocontrast.evaluation.planning import Study
from neurocontrast.evaluation.splits import Split, subject_values
from neurocontrast.exceptions import ConfigError
from neurocontrast.seeds import derive_seed

__all__ = ["PANEL"]

LEAST_OF_A_CLASS = 2
"""Training subjects of every class that each size must hold: one to fit, one for the inner folds."""


def _check(study: Study) -> None:
    """Refuse sizes of which a training fold cannot give so many subjects, or not two of every class."""
    sizes = study.settings.train_sizes
    if not sizes:
        return
    available = min(len(set(study.subjects[split.train])) for split in study.splits)
    draws = [(split, draw) for split in study.splits for draw in range(study.settings.n_draws)]
    least = max(_least_size(study, split, draw) for split, draw in draws)
    wrong = [size for size in sizes if not least <= size <= available]
    if wrong:
        why = []
        if max(wrong) > available:
            why.append(f"the smallest training fold has {available} subjects")
        if min(wrong) < least:
            what = "two subjects" if study.target.kind == "continuous" else "two subjects of every class"
            why.append(f"{what} are in every draw from {least} subjects on")
        raise ConfigError(
            f"train_sizes: {', '.join(map(str, wrong))} cannot be had: {'; '.join(why)}. "
            f"Give sizes from {least} to {available} (--train-sizes)."
        )


def _least_size(study: Study, split: Split, draw: int) -> int:
    """Return from how many subjects on a draw holds two of every class that its training fold has."""
    if study.target.kind == "continuous":
        return LEAST_OF_A_CLASS
    order = draw_of_split(study.table, study.target, split, draw, study.settings.seed)
    owners = study.subjects[split.train].astype(str)
    drawn = subject_values(study.target.values[split.train], owners)[np.searchsorted(np.unique(owners), order)]
    seconds = [np.flatnonzero(drawn == code)[:LEAST_OF_A_CLASS][-1] for code in np.unique(drawn)]
    return int(max(seconds)) + 1


def measure_learning_curve(inputs: PanelInputs) -> Findings:
    """Fit the probes on draws of training subjects, each with all scans, and test them on the same folds.

    The smaller sizes of a draw are parts of the larger ones. Folds and draws depend on scans, target and seed alone:
    evaluations of other encoders have the same.
    """
    study, settings = inputs.study, inputs.study.settings
    if not settings.train_sizes:
        return Findings({"learning_curve": None})
    rows = []
    n_fits = len(settings.train_sizes) * settings.n_draws * len(study.splits)
    with inputs.progress.task("Learning curve", n_fits, "fit") as task:
        for split in study.splits:
            for draw in range(settings.n_draws):
                order = draw_of_split(study.table, study.target, split, draw, settings.seed)
                for size in settings.train_sizes:
                    train = split.train[np.isin(study.subjects[split.train].astype(str), order[:size])]
                    row = {"n_train": size, "draw": draw, "repeat": split.repeat, "fold": split.fold}
                    seed = derive_seed("learning-probe", settings.seed, split.repeat, split.fold, draw, size)
                    rows.append(row | _fit(study, split, train, seed))
                    task.advance()
    table = pd.DataFrame(rows).sort_values(["n_train", "draw", "repeat", "fold"], ignore_index=True)
    by_size = dict(iter(table.groupby("n_train")))
    parts = {
        key: {
            name: [_point(by_size[size][prefix + name], size) for size in settings.train_sizes]
            for name in _names(study)
        }
        for key, prefix in (("metrics", ""), ("baseline", "baseline_"))
    }
    about = {"sizes": list(settings.train_sizes), "n_draws": settings.n_draws, "unit": "subject"}
    return Findings({"learning_curve": about | parts}, {"learning_curve": table})


def _fit(study: Study, split: Split, train: npt.NDArray[np.intp], seed: int) -> dict[str, float]:
    found: dict[str, float] = {}
    for model, design in study.designs().items():
        decided = fit_probe(
            design, study.target, train, split.test, subjects=study.subjects, settings=study.settings, seed=seed,
            sites=study.sites, estimator=study.estimator_of(model),
        )[0]  # fmt: skip
        truth = study.target.values[split.test]
        values = compute_metrics(study.target.kind, truth, decided.scores, decisions=decided.decisions)
        prefix = "" if model == "embedding" else f"{model}_"
        found |= {prefix + name: float(values[name][0]) for name in _names(study)}
    return found


def _names(study: Study) -> list[str]:
    # A calibration slope of a few scans can be anything, and its mean over folds tells nothing.
    return [name for name in study.target.metric_names if name not in POOLED_ONLY and name not in DESCRIPTIVE]


def _point(values: pd.Series, size: int) -> dict[str, Any]:
    known = values[np.isfinite(values)]
    return {
        "n_train": size,
        "mean": finite_or_none(known.to_numpy().mean()) if len(known) else None,
        "sd": finite_or_none(known.to_numpy().std(ddof=1)) if len(known) > 1 else None,
        "n": len(known),
    }


PANEL = Panel(order=60, run=measure_learning_curve, check=_check)
