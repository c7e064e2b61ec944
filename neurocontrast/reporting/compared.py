"""Reading, checking and describing the evaluation folders of a comparison."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from neurocontrast.documents.comparison import ComparisonRecord
from neurocontrast.documents.document import Json
from neurocontrast.documents.findings import LearningCurve
from neurocontrast.documents.result import FORMAT
from neurocontrast.evaluation.measure.comparison import (
    PRIMARY,
    SCAN_KEYS,
    ComparedEvaluation,
    at_unseen_sites,
    compare_models,
    score_columns,
    tradeoff_table,
)
from neurocontrast.evaluation.measure.learning import tabulate_curves
from neurocontrast.exceptions import ConfigError, DataError, one_of
from neurocontrast.reporting.baselines import estimator_title, list_baselines
from neurocontrast.reporting.folder import EvaluationFolder, read_folder
from neurocontrast.reporting.privacy import hide_ids
from neurocontrast.reporting.sections.confounds import column_readings

_TEST_OVER_FOLDS = (
    "corrected resampled t-test over folds (Nadeau and Bengio, 2003), "
    "adjusted by Holm within each metric"
)
_TEST_OF_IMAGES = (
    "McNemar's exact test of the same test images, adjusted by Holm within each metric; it is "
    "about these fitted models, not about others that another seed would have trained"
)

_OF_DESIGN = (
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
"""Keys of ``evaluation.json`` about target and folds, which all models of a comparison share."""
_OF_ORIGIN = ("run", "objective", "embeddings", "n_overlap", "simulated")
"""Keys of ``evaluation.json`` about a model's pretraining and embeddings."""
_KEYS = [*SCAN_KEYS, "repeat"]
_SHARED = {
    "target": "target",
    "kind": "kind of target",
    "classes": "classes",
    "positive": "positive class",
}


def load_evaluations(
    folders: Sequence[str | os.PathLike[str]], *, names: Sequence[str]
) -> dict[str, EvaluationFolder]:
    """Read evaluation folders, and return name of the model → content of the model's folder.

    `names` has a name for the model of each of `folders`. Predictions are sorted by scan and
    repeat. An evaluation that lacks a needed column is refused. An evaluation whose target, scans
    or folds differ from the first evaluation's is refused too: differences between the models would
    mean nothing.
    """
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(
            f"names: every model needs a name of its own, but '{twice[0]}' is given twice."
        )
    if len(folders) < 2:
        raise ConfigError(f"evaluations: a comparison needs two or more, got {len(folders)}.")
    evaluations = {name: _load(folder) for name, folder in zip(names, folders, strict=True)}
    (first, ours), *others = evaluations.items()
    for second, theirs in others:
        for key, word in _SHARED.items():
            our_value = getattr(ours.summary, key)
            their_value = getattr(theirs.summary, key)
            if our_value != their_value:
                raise DataError(
                    f"'{first}' and '{second}' have a different {word}: {our_value!r} and "
                    f"{their_value!r}. Evaluate both alike."
                )
        _check_rows(first, ours.predictions, second, theirs.predictions)
    return evaluations


def _load(folder: str | os.PathLike[str]) -> EvaluationFolder:
    files = read_folder(folder)
    decided = [] if files.kind == "continuous" else ["y_pred"]
    needed = [
        *SCAN_KEYS,
        "subject_id",
        "site",
        "repeat",
        "fold",
        "y_true",
        *decided,
        *score_columns(files.summary),
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


def _check_rows(first: str, ours: pd.DataFrame, second: str, theirs: pd.DataFrame) -> None:
    remedy = f"second in the folds of the first: split_file={first}/splits.tsv."
    if not ours[_KEYS].equals(theirs[_KEYS]):
        our_scans = set(map(tuple, ours[_KEYS].to_numpy()))
        their_scans = set(map(tuple, theirs[_KEYS].to_numpy()))
        shown = ", ".join(str(key[0]) for key in sorted(our_scans ^ their_scans, key=str)[:5])
        raise DataError(
            f"'{first}' and '{second}' tested different scans ({len(our_scans)} and "
            f"{len(their_scans)} rows; not in both: {shown}). "
            f"Evaluate both on the same scans, the {remedy}"
        )
    for column, word in (("y_true", "truth"), ("fold", "fold")):
        differing = ours["participant_id"][ours[column] != theirs[column]]
        if len(differing):
            raise DataError(
                f"'{first}' and '{second}' have another {word} for {len(differing)} scans "
                f"(first: {differing.iloc[0]}), so they cannot be paired. Evaluate the {remedy}"
            )


def compare_tables(
    evaluations: Mapping[str, EvaluationFolder], *, n_bootstraps: int, level: float, seed: int
) -> dict[str, pd.DataFrame]:
    """Return the tables of a comparison: name of the file without ``.tsv`` → table.

    ``models`` holds the metrics of each model, and ``differences`` those metrics minus the metrics
    of the reference model. ``learning_curves`` holds metrics over the number of training scans.
    ``tradeoff`` holds each model's metric at known and unseen sites, and how well the site is
    predicted from the model's embedding.
    """
    compared = {name: compared_evaluation(files) for name, files in evaluations.items()}
    models, differences = compare_models(
        compared, n_bootstraps=n_bootstraps, level=level, seed=seed
    )
    unseen = [
        at_unseen_sites(compared[row["model"]], row["metric"]) for row in models.to_dict("records")
    ]
    models = models.join(pd.DataFrame(unseen, index=models.index))
    metric = PRIMARY[next(iter(evaluations.values())).kind]
    tables = {
        "models": models,
        "differences": differences,
        "learning_curves": _learning_curves(evaluations),
        "tradeoff": tradeoff_table(compared, models[models["metric"] == metric]),
    }
    return {name: table.fillna(np.nan) for name, table in tables.items()}


def compared_evaluation(files: EvaluationFolder) -> ComparedEvaluation:
    """Return the record and the tables of an evaluation folder as a `ComparedEvaluation`.

    The record is the content of ``evaluation.json``. `compare_models` takes one such object for
    each evaluation.
    """
    return ComparedEvaluation(
        files.summary,
        files.predictions,
        files.folds,
        confounds=column_readings(files),
        sites_tested=files.sites_tested,
        fixed=files.fixed,
    )


def _learning_curves(evaluations: Mapping[str, EvaluationFolder]) -> pd.DataFrame:
    """Return one table of the learning curves of all compared models and of the baselines.

    Baselines are those of the first of the `evaluations`. A baseline with the name of a compared
    model gets “(baseline)” behind its name.
    """
    curves = {
        name: files.summary.part(LearningCurve) or LearningCurve()
        for name, files in evaluations.items()
    }
    first = next(iter(curves.values()))
    files = next(iter(evaluations.values()))
    baselines = {"covariates only": first.baseline}
    for baseline in list_baselines(files.summary):
        baselines[baseline.name] = first.of_model(baseline.key)
    parts = {name: curve.metrics for name, curve in curves.items()}
    parts |= {
        f"{name} (baseline)" if name in curves else name: points
        for name, points in baselines.items()
    }
    return tabulate_curves(parts)


def _estimator_of(files: EvaluationFolder) -> str | None:
    """Return the name of the estimator on an evaluation's frozen features.

    None for a fine-tuned network, or if the evaluation recorded no name.
    """
    if files.summary.finetuning:
        return None
    probe = files.summary.probe
    if probe.own:
        return probe.estimator
    return estimator_title(probe) or None


def describe_comparison(
    evaluations: Mapping[str, EvaluationFolder],
    *,
    n_bootstraps: int,
    level: float,
    seed: int,
    environment: Json,
) -> ComparisonRecord:
    """Return the content of ``comparison.json``: the models, and settings common to all of them.

    Common are, for example, the target, the folds and the confidence level. The reference model is
    the first of the `evaluations`.
    """
    reference = next(iter(evaluations))
    first = evaluations[reference].summary
    models = []
    for name, files in evaluations.items():
        models.append(_describe_model(name, files))
    shared = first.content()
    content: Json = {"format": FORMAT}
    for key in _OF_DESIGN:
        content[key] = shared.get(key)
    content["reference"] = reference
    content["models"] = models
    content["test"] = _TEST_OF_IMAGES if first.splits == "fixed" else _TEST_OVER_FOLDS
    content["environment"] = environment
    content["n_bootstraps"] = n_bootstraps
    content["interval_method"] = "BCa"
    content["confidence_level"] = level
    content["seed"] = seed
    return ComparisonRecord.model_validate(content)


def _describe_model(name: str, files: EvaluationFolder) -> Json:
    """Return the entry of a model in ``comparison.json``: pretraining, embeddings and warnings.

    Participants' identifiers are removed from the warnings.
    """
    content = files.summary.content()
    warnings = []
    for warning in files.summary.warnings:
        if warning.code not in files.words.unasked:
            message = hide_ids(warning.message or "", files, warning.code)
            warnings.append({**vars(warning), "message": message})
    model: Json = {"name": name, "estimator": _estimator_of(files)}
    for key in _OF_ORIGIN:
        model[key] = content.get(key)
    model["warnings"] = warnings
    return model
