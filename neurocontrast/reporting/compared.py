"""Evaluations of different models on the same folds: differences pair by pair, and site against target."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.documents.figures import Estimate
from neurocontrast.documents.result import FORMAT, Result
from neurocontrast.evaluation.measure.confounds import site_reading
from neurocontrast.evaluation.measure.learning import LearningCurve, tabulate_curves
from neurocontrast.evaluation.measure.new_site import NewSite
from neurocontrast.evaluation.measure.outside import Outlyingness
from neurocontrast.evaluation.metrics import RANKED, top_hits
from neurocontrast.evaluation.models import OutOfFold
from neurocontrast.evaluation.rows import site_names
from neurocontrast.evaluation.significance import fold_p_value, holm, mcnemar_test
from neurocontrast.evaluation.target import Target
from neurocontrast.evaluation.uncertainty import bootstrap_metrics, choose_units
from neurocontrast.exceptions import ConfigError, DataError, one_of
from neurocontrast.reporting.folder import EvaluationFolder, read_folder
from neurocontrast.reporting.privacy import hide_ids
from neurocontrast.reporting.rivals import estimator_title, rivals
from neurocontrast.reporting.sections.confounds import column_readings
from neurocontrast.seeds import derive_seed

PRIMARY = {"binary": "auc", "multiclass": "balanced_accuracy", "continuous": "mae"}
"""The metric that is set against the site, by kind of target."""
_TEST_OVER_FOLDS = (
    "corrected resampled t-test over folds (Nadeau and Bengio, 2003), "
    "adjusted by Holm within each metric"
)
_TEST_OF_IMAGES = (
    "McNemar's exact test of the same test images, adjusted by Holm within each metric; it is about these fitted "
    "models, not about others that another seed would have trained"
)

Texts = npt.NDArray[np.object_]
_SCAN = ["participant_id", "session"]
_KEYS = [*_SCAN, "repeat"]
_SHARED = {
    "target": "target",
    "kind": "kind of target",
    "classes": "classes",
    "positive": "positive class",
}


def load_evaluations(
    folders: Sequence[str | os.PathLike[str]], *, names: Sequence[str]
) -> dict[str, EvaluationFolder]:
    """Read evaluation folders by the name of their model; predictions are sorted by scan and repeat.

    An evaluation that lacks a column, or is of another target, other scans or other folds than the
    first, is refused: their difference would mean nothing.
    """
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(
            f"names: every model needs a name of its own, but '{twice[0]}' is given twice."
        )
    if len(folders) < 2:
        raise ConfigError(f"evaluations: a comparison needs two or more, got {len(folders)}.")
    found = {name: _load(folder) for name, folder in zip(names, folders, strict=True)}
    (first, ours), *others = found.items()
    for other, theirs in others:
        for key, word in _SHARED.items():
            values = [getattr(each.summary, key) for each in (ours, theirs)]
            if values[0] != values[1]:
                raise DataError(
                    f"'{first}' and '{other}' have a different {word}: {values[0]!r} and {values[1]!r}. Evaluate both "
                    "alike."
                )
        _check_rows(first, ours.predictions, other, theirs.predictions)
    return found


def _load(folder: str | os.PathLike[str]) -> EvaluationFolder:
    files = read_folder(folder)
    decided = [] if files.kind == "continuous" else ["y_pred"]
    needed = [
        *_SCAN,
        "subject_id",
        "site",
        "repeat",
        "fold",
        "y_true",
        *decided,
        *_score_columns(files.summary),
    ]
    for file, table, columns in (
        ("predictions.tsv", files.predictions, needed),
        ("folds.tsv", files.folds, ["repeat", "fold", "n_train", "n_test", "held_out_site"]),
    ):
        missing = [column for column in columns if column not in table]
        if missing:
            raise DataError(
                f"{files.folder / file}: missing columns: {one_of(missing)}. Evaluate again."
            )
    predictions = files.predictions.fillna({"session": ""}).astype({"repeat": int, "fold": int})
    return replace(files, predictions=predictions.sort_values(_KEYS, ignore_index=True))


def _score_columns(evaluation: Result) -> list[str]:
    return (
        [f"score_{name}" for name in evaluation.classes]
        if evaluation.kind == "multiclass"
        else ["y_score"]
    )


def _check_rows(first: str, ours: pd.DataFrame, other: str, theirs: pd.DataFrame) -> None:
    remedy = f"second in the folds of the first: split_file={first}/splits.tsv."
    if not ours[_KEYS].equals(theirs[_KEYS]):
        a, b = (set(map(tuple, rows[_KEYS].to_numpy())) for rows in (ours, theirs))
        shown = ", ".join(str(key[0]) for key in sorted(a ^ b, key=str)[:5])
        raise DataError(
            f"'{first}' and '{other}' tested different scans ({len(a)} and {len(b)} rows; not in both: {shown}). "
            f"Evaluate both on the same scans, the {remedy}"
        )
    for column, word in (("y_true", "truth"), ("fold", "fold")):
        differing = ours["participant_id"][ours[column] != theirs[column]]
        if len(differing):
            raise DataError(
                f"'{first}' and '{other}' have another {word} for {len(differing)} scans (first: {differing.iloc[0]}), "
                f"so they cannot be paired. Evaluate the {remedy}"
            )


def compare_models(
    evaluations: Mapping[str, EvaluationFolder], *, n_bootstraps: int, level: float, seed: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return a table of models, and one of the differences of every other model from the first.

    Intervals are BCa intervals over resamples, the same for all models, of what the first
    evaluation resampled. ``p_value`` is of the corrected resampled t-test over folds, or, of the
    one test set of the fixed design, of `_paired_test`; ``p_adjusted`` counts the comparisons of a
    metric (Holm). Where sites are held out, folds are no random draws, and both are empty. Of
    several classes of the fixed design, figures that rank have no interval.
    """
    reference, *others = evaluations
    first = evaluations[reference]
    target, units = _target_of(first)
    models = {name: _out_of_fold(files, target) for name, files in evaluations.items()}
    drawn = bootstrap_metrics(
        target,
        models,
        units,
        n_bootstraps=n_bootstraps,
        seed=derive_seed("compare", seed),
        rows=models[reference].tested,
        plain=RANKED if first.fixed and target.kind == "multiclass" else (),
    )
    table = []
    differences = []
    for metric in target.metric_names:
        for name in models:
            table.append(
                {"model": name, "metric": metric, **drawn[name][metric].figure(level=level)}
            )
        rows_of_metric = []
        for name in others:
            figure = (drawn[name][metric] - drawn[reference][metric]).figure(level=level)
            row = {
                "metric": metric,
                "model": name,
                "reference": reference,
                "difference": figure.pop("value"),
            }
            if first.fixed:
                test = _paired_test(target, metric, models[name], models[reference], units)
            else:
                test = _test_over_folds(evaluations[name].folds, first.folds, metric)
            rows_of_metric.append(row | figure | test)
        adjusted = holm([row["p_value"] for row in rows_of_metric])
        differences += [
            row | {"p_adjusted": each} for row, each in zip(rows_of_metric, adjusted, strict=True)
        ]
    return pd.DataFrame(table), pd.DataFrame(differences)


def _target_of(files: EvaluationFolder) -> tuple[Target, Texts]:
    """Return the target of each scan, and the units that a bootstrap resamples."""
    evaluation = files.summary
    rows = files.predictions.drop_duplicates(_SCAN)
    classes = tuple(evaluation.classes)
    values = rows["y_true"].to_numpy()
    if evaluation.kind != "continuous":
        values = pd.Categorical(rows["y_true"], categories=classes).codes.astype(np.int64)
    target = Target(evaluation.target, evaluation.kind, values, classes, evaluation.positive)
    subjects = rows["subject_id"].to_numpy(dtype=object)
    unit = evaluation.bootstrap.unit or "subject"
    return target, choose_units(unit, site_names(rows["site"]), subjects, target=target.name).labels


def _out_of_fold(files: EvaluationFolder, target: Target) -> OutOfFold:
    """Return predictions as arrays (repeat, scan); scans in the order of `_target_of`."""
    table = files.predictions
    n = len(target.values)
    n_repeats = int(table["repeat"].max()) + 1
    place = table["repeat"].to_numpy(), table.groupby(_SCAN, sort=True).ngroup().to_numpy()
    columns = _score_columns(files.summary)
    scores = np.full((n_repeats, n, len(columns)), np.nan)
    scores[place] = table[columns].to_numpy(dtype=float)
    decisions = np.zeros((n_repeats, n), dtype=np.int64)
    folds = np.full((n_repeats, n), -1, dtype=np.intp)
    folds[place] = table["fold"]
    if target.kind != "continuous":
        decisions[place] = pd.Categorical(table["y_pred"], categories=target.classes).codes
    return OutOfFold(scores if target.kind == "multiclass" else scores[..., 0], decisions, folds)


def _test_over_folds(model: pd.DataFrame, reference: pd.DataFrame, metric: str) -> dict[str, Any]:
    name = metric.removesuffix("_within_fold")  # within one fold, the two are one
    model, reference = (
        table.sort_values(["repeat", "fold"], ignore_index=True) for table in (model, reference)
    )
    if not {name} <= set(model) & set(reference):  # a metric that older evaluations did not have
        return {"n_folds": 0, "p_value": None, "test": None}
    differences = (model[name] - reference[name]).dropna()
    p_value = fold_p_value(differences, model)
    test = "nadeau-bengio" if len(differences) > 1 and model["held_out_site"].isna().all() else None
    return {"n_folds": len(differences), "p_value": p_value, "test": test}


def _paired_test(
    target: Target, metric: str, model: OutOfFold, reference: OutOfFold, units: Texts
) -> dict[str, Any]:
    """Return the p-value of McNemar's test of a share of images of one test set; None of another metric.

    The test takes images for independent draws: there is none where units hold several.
    """
    rows = model.tested
    found = {"n_folds": 1, "p_value": None, "test": None}
    truth = target.values[rows]
    both = (model, reference)
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
    evaluations: Mapping[str, EvaluationFolder], *, n_bootstraps: int, level: float, seed: int
) -> dict[str, pd.DataFrame]:
    """Return the tables of a comparison by file name: models, differences, learning curves, and site against target."""
    models, differences = compare_models(
        evaluations, n_bootstraps=n_bootstraps, level=level, seed=seed
    )
    unseen = [
        at_unseen_sites(evaluations[row["model"]], row["metric"])
        for row in models.to_dict("records")
    ]
    models = models.join(pd.DataFrame(unseen, index=models.index))
    metric = PRIMARY[next(iter(evaluations.values())).kind]
    tables = {
        "models": models,
        "differences": differences,
        "learning_curves": _learning_curves(evaluations),
        "tradeoff": tradeoff_table(evaluations, models[models["metric"] == metric]),
    }
    return {name: table.fillna(np.nan) for name, table in tables.items()}


def at_unseen_sites(files: EvaluationFolder, metric: str) -> dict[str, float | None]:
    """Return the metric at unseen sites, and its ratio to that at known ones, with their ends; None where absent."""
    new_site = files.summary.part(NewSite) or NewSite()
    found = dict[str, float | None]()
    for name in ("unseen", "ratio"):
        estimate = getattr(new_site, name).get("embedding", {}).get(metric, Estimate())
        found |= {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}
    return found


def _learning_curves(evaluations: Mapping[str, EvaluationFolder]) -> pd.DataFrame:
    """Return the learning curves of all models, and those of what the first was compared with, as one table.

    A model that is called like one of the latter keeps its name, which then has “(baseline)” behind
    it.
    """
    curves = {
        name: files.summary.part(LearningCurve) or LearningCurve()
        for name, files in evaluations.items()
    }
    first = next(iter(curves.values()))
    files = next(iter(evaluations.values()))
    baselines = {"covariates only": first.baseline}
    baselines |= {each.name: first.of_model(each.key) for each in rivals(files.summary)}
    parts = {name: curve.metrics for name, curve in curves.items()}
    parts |= {
        f"{name} (baseline)" if name in curves else name: points
        for name, points in baselines.items()
    }
    return tabulate_curves(parts)


def _estimator_of(files: EvaluationFolder) -> str | None:
    """Return the estimator on frozen features, an own one with parameters; None of a network."""
    if files.summary.finetuning:
        return None
    probe = files.summary.probe
    if probe.own:
        return probe.estimator
    return estimator_title(probe) or None


def describe_comparison(evaluations: Mapping[str, EvaluationFolder]) -> dict[str, Any]:
    """Return the content of ``comparison.json``: what the evaluations share, where each is from, and the test."""
    contents = {name: files.summary.content() for name, files in evaluations.items()}
    for name, files in evaluations.items():
        raised = [each for each in files.summary.warnings if each.code not in files.words.unasked]
        warnings = [
            {**vars(each), "message": hide_ids(each.message or "", files, each.code)}
            for each in raised
        ]
        contents[name]["warnings"] = warnings
    reference, first = next(iter(contents.items()))
    shared = (
        "target",
        "kind",
        "classes",
        "positive",
        "splits",
        "splitter",
        "n_folds",
        "n_repeats",
        "n",
    )
    origins = ("run", "objective", "embeddings", "n_overlap", "simulated", "warnings")
    return {
        "format": FORMAT,
        **{key: first.get(key) for key in shared},
        "reference": reference,
        "models": [
            {
                "name": name,
                "estimator": _estimator_of(evaluations[name]),
                **{key: content.get(key) for key in origins},
            }
            for name, content in contents.items()
        ],
        "test": _TEST_OF_IMAGES if first["splits"] == "fixed" else _TEST_OVER_FOLDS,
    }


_TRADEOFF = [
    "site_balanced_accuracy",
    "site_low",
    "site_high",
    "site_chance",
    "metric",
    "known",
    "known_low",
    "known_high",
    "unseen",
    "unseen_low",
    "unseen_high",
    "ratio",
    "ratio_low",
    "ratio_high",
    "constant",
    "n",
    "n_outside",
]


def tradeoff_table(
    evaluations: Mapping[str, EvaluationFolder], models: pd.DataFrame
) -> pd.DataFrame:
    """Return one row a model: how well the site can be told, and the target at known and unseen sites.

    `models` has the rows of one metric. Where an evaluation holds sites out, its own figures are of
    unseen sites. The table is empty where no evaluation has anything to say of sites.
    """
    rows = []
    for row in models.to_dict("records"):
        own: Mapping[Any, Any] = row
        files = evaluations[row["model"]]
        place = evaluations[row["model"]].sites_tested
        new_site = files.summary.part(NewSite) or NewSite()
        outside = files.summary.part(Outlyingness) or Outlyingness()
        reading = site_reading(column_readings(files))
        site = (
            {} if reading is None else reading.reindex(["value", "low", "high", "chance"]).to_dict()
        )
        if (
            place == "mixed"
        ):  # scans without a site, or some sites held out: not all figures are of known sites
            own = new_site.home.get("embedding", {}).get(row["metric"], Estimate()).model_dump()
            place = "known"
        rows.append(
            row
            | {
                "site_balanced_accuracy": site.get("value"),
                **{f"site_{key}": site.get(key) for key in ("low", "high", "chance")},
                place: own["value"],
                f"{place}_low": own["low"],
                f"{place}_high": own["high"],
                "constant": new_site.unseen.get("constant", {})
                .get(row["metric"], Estimate())
                .value,
                "n": outside.n,
                "n_outside": outside.n_outside,
            }
        )
    table = pd.DataFrame(rows).reindex(columns=["model", *_TRADEOFF])
    measured = table[["site_balanced_accuracy", "unseen", "n_outside"]].notna().any(axis=None)
    return table if measured else table.iloc[:0]
