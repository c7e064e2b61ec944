"""Evaluations of different models on the same folds: differences pair by pair, and site against target."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.evaluation.metrics import RANKED, finite_or_none, top_hits
from neurocontrast.evaluation.models import OutOfFold
from neurocontrast.evaluation.record import FORMAT, Estimate, Evaluation
from neurocontrast.evaluation.rows import site_names
from neurocontrast.evaluation.significance import fold_p_value, holm, mcnemar_test
from neurocontrast.evaluation.target import Target
from neurocontrast.evaluation.uncertainty import bootstrap_metrics, choose_units
from neurocontrast.exceptions import ConfigError, DataError, one_of
from neurocontrast.findings.confounds import column_readings, site_reading
from neurocontrast.findings.folder import EvaluationFolder, read_folder
from neurocontrast.findings.learning import LearningCurve
from neurocontrast.findings.new_site.measure import NewSite
from neurocontrast.findings.outside import Outlyingness
from neurocontrast.findings.result import rivals
from neurocontrast.seeds import derive_seed

PRIMARY = {"binary": "auc", "multiclass": "balanced_accuracy", "continuous": "mae"}
"""The metric that is set against the site, by kind of target."""
_TEST_OVER_FOLDS = (
    "corrected resampled t-test over folds (Nadeau and Bengio, 2003), adjusted by Holm within each metric"
)
_TEST_OF_IMAGES = (
    "McNemar's exact test of the same test images, adjusted by Holm within each metric; it is about these fitted "
    "models, not about others that another seed would have trained"
)

Texts = npt.NDArray[np.object_]
_SCAN = ["participant_id", "session"]
_KEYS = [*_SCAN, "repeat"]
_SHARED = {"target": "target", "kind": "kind of target", "classes": "classes", "positive": "positive class"}


@dataclass(frozen=True)
class Evaluated:
    """A finished evaluation under its name in the comparison; `predictions` are sorted by scan and repeat."""

    name: str
    files: EvaluationFolder
    predictions: pd.DataFrame

    @property
    def evaluation(self) -> Evaluation:
        """Content of ``evaluation.json``."""
        return self.files.summary

    @property
    def folds(self) -> pd.DataFrame:
        """Table of folds."""
        return self.files.folds


def load_evaluated(folder: str | os.PathLike[str], *, name: str | None = None) -> Evaluated:
    """Read an evaluation folder; refuse one that lacks a column that a comparison needs."""
    files = read_folder(folder)
    decided = [] if files.kind == "continuous" else ["y_pred"]
    needed = [*_SCAN, "subject_id", "site", "repeat", "fold", "y_true", *decided, *_score_columns(files.summary)]
    for file, table, columns in (
        ("predictions.tsv", files.predictions, needed),
        ("folds.tsv", files.folds, ["repeat", "fold", "n_train", "n_test", "held_out_site"]),
    ):
        missing = [column for column in columns if column not in table]
        if missing:
            raise DataError(f"{files.folder / file}: missing columns: {one_of(missing)}. Evaluate again.")
    predictions = files.predictions.assign(session=files.predictions["session"].fillna(""))
    counts = predictions[["repeat", "fold"]].astype(int)
    predictions = predictions.assign(repeat=counts["repeat"], fold=counts["fold"])
    return Evaluated(name or files.folder.name, files, predictions.sort_values(_KEYS, ignore_index=True))


def _score_columns(evaluation: Evaluation) -> list[str]:
    return [f"score_{name}" for name in evaluation.classes] if evaluation.kind == "multiclass" else ["y_score"]


def _check_comparable(evaluations: Sequence[Evaluated]) -> None:
    """Refuse evaluations of different targets, scans or folds: their difference would mean nothing."""
    if len(evaluations) < 2:
        raise ConfigError(f"evaluations: a comparison needs two or more, got {len(evaluations)}.")
    names = [evaluation.name for evaluation in evaluations]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(f"names: every model needs a name of its own, but '{twice[0]}' is given twice.")
    first = evaluations[0]
    for other in evaluations[1:]:
        for key, word in _SHARED.items():
            ours, theirs = getattr(first.evaluation, key), getattr(other.evaluation, key)
            if ours != theirs:
                raise DataError(
                    f"'{first.name}' and '{other.name}' have a different {word}: {ours!r} and {theirs!r}. Evaluate "
                    "both alike."
                )
        _check_rows(first, other)


def _check_rows(first: Evaluated, other: Evaluated) -> None:
    remedy = f"second in the folds of the first: split_file={first.name}/splits.tsv."
    if not first.predictions[_KEYS].equals(other.predictions[_KEYS]):
        a, b = (set(map(tuple, evaluation.predictions[_KEYS].to_numpy())) for evaluation in (first, other))
        shown = ", ".join(str(key[0]) for key in sorted(a ^ b, key=str)[:5])
        raise DataError(
            f"'{first.name}' and '{other.name}' tested different scans ({len(a)} and {len(b)} rows; not in both: "
            f"{shown}). Evaluate both on the same scans, the {remedy}"
        )
    for column, word in (("y_true", "truth"), ("fold", "fold")):
        differing = np.flatnonzero((first.predictions[column] != other.predictions[column]).to_numpy())
        if len(differing):
            name = first.predictions["participant_id"].iloc[differing[0]]
            raise DataError(
                f"'{first.name}' and '{other.name}' have another {word} for {len(differing)} scans (first: {name}), so "
                f"they cannot be paired. Evaluate the {remedy}"
            )


def compare_models(
    evaluations: Sequence[Evaluated], *, n_bootstraps: int, level: float, seed: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return a table of models, and one of the differences of every other model from the first.

    Intervals are BCa intervals over resamples, the same for all models, of what the first evaluation resampled.
    ``p_value`` is of the corrected resampled t-test over folds, or, of the one test set of the fixed design, of
    `_paired_test`; ``p_adjusted`` counts the comparisons of a metric (Holm). Where sites are held out, folds are no
    random draws, and both are empty. Of several classes of the fixed design, figures that rank have no interval.
    """
    _check_comparable(evaluations)
    fixed = evaluations[0].evaluation.splits == "fixed"
    target, units = _target_of(evaluations[0])
    models = {each.name: _out_of_fold(each, target) for each in evaluations}
    folds = {each.name: each.folds for each in evaluations}
    drawn = bootstrap_metrics(
        target, models, units, n_bootstraps=n_bootstraps, seed=derive_seed("compare", seed),
        rows=models[evaluations[0].name].tested, plain=RANKED if fixed and target.kind == "multiclass" else (),
    )  # fmt: skip
    reference, *others = models
    table, differences = [], []
    for metric in target.metric_names:
        for name in models:
            table.append({"model": name, "metric": metric, **drawn[name][metric].figure(level=level)})
        rows_of_metric = []
        for name in others:
            figure = (drawn[name][metric] - drawn[reference][metric]).figure(level=level)
            row = {"metric": metric, "model": name, "reference": reference, "difference": figure.pop("value")}
            if fixed:
                test = _paired_test(target, metric, models[name], models[reference], units)
            else:
                test = _test_over_folds(folds[name], folds[reference], metric)
            rows_of_metric.append(row | figure | test)
        adjusted = holm([row["p_value"] for row in rows_of_metric])
        differences += [row | {"p_adjusted": each} for row, each in zip(rows_of_metric, adjusted, strict=True)]
    return pd.DataFrame(table), pd.DataFrame(differences)


def _target_of(evaluated: Evaluated) -> tuple[Target, Texts]:
    """Return the target of each scan, and the units that a bootstrap resamples."""
    evaluation, rows = evaluated.evaluation, evaluated.predictions.drop_duplicates(_SCAN)
    classes, values = tuple(evaluation.classes), rows["y_true"].to_numpy()
    if evaluation.kind != "continuous":
        values = pd.Categorical(rows["y_true"], categories=classes).codes.astype(np.int64)
    target = Target(evaluation.target, evaluation.kind, values, classes, evaluation.positive)
    subjects, unit = rows["subject_id"].to_numpy(dtype=object), evaluation.bootstrap.unit or "subject"
    return target, choose_units(unit, site_names(rows["site"]), subjects, target=target.name).labels


def _out_of_fold(evaluation: Evaluated, target: Target) -> OutOfFold:
    """Return predictions as arrays (repeat, scan); scans in the order of `_target_of`."""
    table = evaluation.predictions
    n, n_repeats = len(target.values), int(table["repeat"].max()) + 1
    place = table["repeat"].to_numpy(), table.groupby(_SCAN, sort=True).ngroup().to_numpy()
    columns = _score_columns(evaluation.evaluation)
    scores = np.full((n_repeats, n, len(columns)), np.nan)
    scores[place] = table[columns].to_numpy(dtype=float)
    decisions, folds = np.zeros((n_repeats, n), dtype=np.int64), np.full((n_repeats, n), -1, dtype=np.intp)
    folds[place] = table["fold"]
    if target.kind != "continuous":
        decisions[place] = pd.Categorical(table["y_pred"], categories=target.classes).codes
    return OutOfFold(scores if target.kind == "multiclass" else scores[..., 0], decisions, folds, [], 0)


def _test_over_folds(model: pd.DataFrame, reference: pd.DataFrame, metric: str) -> dict[str, Any]:
    name = metric.removesuffix("_within_fold")  # within one fold, the two are one
    model, reference = (table.sort_values(["repeat", "fold"], ignore_index=True) for table in (model, reference))
    if not {name} <= set(model) & set(reference):  # a metric that older evaluations did not have
        return {"n_folds": 0, "p_value": None, "test": None}
    differences = (model[name] - reference[name]).dropna()
    p_value = fold_p_value(differences, model)
    test = "nadeau-bengio" if len(differences) > 1 and model["held_out_site"].isna().all() else None
    return {"n_folds": len(differences), "p_value": p_value, "test": test}


def _paired_test(target: Target, metric: str, model: OutOfFold, reference: OutOfFold, units: Texts) -> dict[str, Any]:
    """Return the p-value of McNemar's test of a share of images of one test set; None of another metric.

    The test takes images for independent draws: there is none where units hold several.
    """
    rows, found = model.tested, {"n_folds": 1, "p_value": None, "test": None}
    truth, both = target.values[rows], (model, reference)
    if len(set(units[rows])) < len(rows):
        return found
    hits = [each.decisions[0, rows] == truth for each in both]
    if metric == "top5_accuracy":
        hits = [top_hits(truth, each.scores[0, rows]) >= 0.5 for each in both]
    elif target.kind == "binary" and metric in ("sensitivity", "specificity"):
        hits = [each[truth == (metric == "sensitivity")] for each in hits]
    elif metric != "accuracy":
        return found
    return found | {"p_value": mcnemar_test(*hits), "test": "mcnemar"}


def compare_tables(
    loaded: Sequence[Evaluated], *, n_bootstraps: int, level: float, seed: int
) -> dict[str, pd.DataFrame]:
    """Return the tables of a comparison by file name: models, differences, learning curves, and site against target."""
    models, differences = compare_models(loaded, n_bootstraps=n_bootstraps, level=level, seed=seed)
    by_name = {each.name: each for each in loaded}
    unseen = [_unseen_columns(by_name[row["model"]], row["metric"]) for row in models.to_dict("records")]
    tables = {
        "models": pd.concat([models, pd.DataFrame(unseen, index=models.index)], axis=1),
        "differences": differences,
        "learning_curves": _learning_curves(loaded),
        "tradeoff": tradeoff_table(loaded, models, metric=PRIMARY[loaded[0].evaluation.kind]),
    }
    return {name: table.fillna(np.nan) for name, table in tables.items()}


def _learning_curves(loaded: Sequence[Evaluated]) -> pd.DataFrame:
    """Return the learning curves of all models, and those of what the first was compared with, as one table."""
    curves = {each.name: each.evaluation.part(LearningCurve) or LearningCurve() for each in loaded}
    parts, first = {name: curve.metrics for name, curve in curves.items()}, curves[loaded[0].name]
    parts |= {"covariates only": first.baseline}
    parts |= {each.name: first.of_model(each.key) for each in rivals(loaded[0].evaluation)}
    rows = [
        {"model": name, "metric": metric, **point.model_dump()}
        for name, metrics in parts.items()
        for metric, points in metrics.items()
        for point in points
    ]
    return pd.DataFrame(rows).reindex(columns=["model", "metric", "n_train", "mean", "sd", "n"])


def describe_comparison(loaded: Sequence[Evaluated]) -> dict[str, Any]:
    """Return the content of ``comparison.json``: what the evaluations share, where each is from, and the test."""
    contents = [each.evaluation.content() for each in loaded]
    shared = ("target", "kind", "classes", "positive", "splits", "n_folds", "n_repeats")
    origins = ("run", "objective", "embeddings", "n_overlap", "simulated", "warnings")
    return {
        "format": FORMAT,
        **{key: contents[0].get(key) for key in shared},
        "reference": loaded[0].name,
        "models": [
            {"name": each.name, **{key: content.get(key) for key in origins}}
            for each, content in zip(loaded, contents, strict=True)
        ],
        "test": _TEST_OF_IMAGES if contents[0]["splits"] == "fixed" else _TEST_OVER_FOLDS,
    }


def tradeoff_table(evaluations: Sequence[Evaluated], models: pd.DataFrame, *, metric: str) -> pd.DataFrame:
    """Return one row a model: how well the site can be told, and the target at known and unseen sites."""
    rows = [
        {"model": each.name} | _site(each) | {"metric": metric} | _target(each, models, metric) for each in evaluations
    ]
    table = pd.DataFrame(rows)
    measured = table[["site_balanced_accuracy", "unseen", "n_outside"]].notna().any(axis=None)
    return table if measured else table.iloc[:0]


def _site(evaluated: Evaluated) -> dict[str, float | None]:
    reading = site_reading(column_readings(evaluated.files))
    found = {} if reading is None else reading.to_dict()
    names = {"site_balanced_accuracy": "value", "site_low": "low", "site_high": "high", "site_chance": "chance"}
    return {name: finite_or_none(found.get(key, np.nan)) for name, key in names.items()}


def _target(evaluated: Evaluated, models: pd.DataFrame, metric: str) -> dict[str, Any]:
    evaluation = evaluated.evaluation
    new_site = evaluation.part(NewSite) or NewSite()
    rows = models[(models["model"] == evaluated.name) & (models["metric"] == metric)]
    whole = Estimate() if rows.empty else Estimate.model_construct(**rows.iloc[0][["value", "low", "high"]])
    known, unseen = whole, _unseen_columns(evaluated, metric)
    if evaluation.splits == "leave-site-out":  # the comparison itself is of unseen sites
        known = new_site.home.get("embedding", {}).get(metric, Estimate())
        unseen |= _ends("unseen", whole)
    constant = new_site.unseen.get("constant", {}).get(metric, Estimate())
    outside = evaluation.part(Outlyingness)
    return {
        **_ends("known", known),
        **unseen,
        "constant": constant.value,
        "n": None if outside is None else outside.n,
        "n_outside": None if outside is None else outside.n_outside,
    }


def _unseen_columns(evaluated: Evaluated, metric: str) -> dict[str, float | None]:
    """Return the metric at unseen sites, and its ratio to that at known ones, with their ends; None where absent."""
    new_site = evaluated.evaluation.part(NewSite) or NewSite()
    unseen, ratio = (part.get("embedding", {}).get(metric, Estimate()) for part in (new_site.unseen, new_site.ratio))
    return _ends("unseen", unseen) | _ends("ratio", ratio)


def _ends(name: str, estimate: Estimate) -> dict[str, float | None]:
    return {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}
