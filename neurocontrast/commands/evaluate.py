"""Evaluate an embeddings table, compared with covariates and with the scans' own voxels."""

import os
from collections.abc import Mapping
from glob import escape as escape_pattern
from html import escape
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from sklearn.base import BaseEstimator

from neurocontrast.commands.report import report
from neurocontrast.commands.written import WrittenFigures
from neurocontrast.data.columns import no_column
from neurocontrast.display import as_progress
from neurocontrast.documents.embeddings import Embeddings
from neurocontrast.documents.environment import Environment
from neurocontrast.documents.figures import Metric
from neurocontrast.documents.info import EmbeddingsInfo
from neurocontrast.documents.result import FILE, EmbeddingsOrigin, read_evaluation
from neurocontrast.evaluation import (
    EvaluationSettings,
    StudyResult,
    plan_study,
    read_split_file,
    save_probe,
)
from neurocontrast.evaluation.estimators import import_estimator
from neurocontrast.evaluation.measure import check, measure
from neurocontrast.evaluation.measure.external import ExternalTest, plan_external
from neurocontrast.evaluation.probes import PROBES
from neurocontrast.evaluation.stored_probe import FOLDER as PROBE_FOLDER
from neurocontrast.exceptions import ConfigError, one_of
from neurocontrast.files import (
    atomic_folder,
    check_output_folder,
    write_json,
    write_table,
    write_text,
)
from neurocontrast.progress import Progress
from neurocontrast.provenance import Description, describe_environment
from neurocontrast.reporting.findings import FINDINGS
from neurocontrast.reporting.rivals import estimator_title, rivals
from neurocontrast.reporting.wording import DASH, count_text, estimate_text, leading_metrics
from neurocontrast.runs.voxels import with_voxels
from neurocontrast.settings import settings_from
from neurocontrast.torch_state import in_default_torch_state

_PATHS = ("test", "split_file", "scans")
"""Settings that name a file."""


class EvaluationResult(WrittenFigures):
    """The folder of an evaluation: a path, whose figures are attributes.

    ``print(result)`` shows the figures. ``result / "folds.tsv"``, ``f"{result}"`` and every
    attribute of a `Path` work, and so does every function that takes the folder. A metric of the
    embedding is an attribute too, such as ``result.auc``: of all predictions out of their folds at
    once, or the mean over folds where a metric has no such value.

    Parameters
    ----------
    folder : path
        Folder written by `evaluate`.

    Attributes
    ----------
    folder : Path
        The folder.
    record : Result
        Content of ``evaluation.json``.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        super().__init__(folder)
        self.folder = self.location
        self.record = read_evaluation(folder)

    def __getattr__(self, name: str) -> Any:
        """Return a metric of the embedding, or an attribute of the path."""
        if name.startswith("_") or name in ("folder", "location", "record"):
            raise AttributeError(name)
        if name in self.record.metrics:
            return self.record.metrics[name].value
        if hasattr(self.folder, name):
            return getattr(self.folder, name)
        raise AttributeError(
            f"an evaluation has no attribute '{name}'; its metrics: {one_of(self.record.metrics)}."
        )

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.record.metrics})

    @property
    def models(self) -> dict[str, dict[str, Metric]]:
        """Metrics of each model that was evaluated, by its name: the embedding, and those it is compared with."""
        record = self.record
        trained = record.probe.name if record.finetuning else None
        found = {trained or "embedding": record.metrics, "covariates only": record.baseline}
        found |= {each.name: each.metrics for each in rivals(record)}
        return {name: metrics for name, metrics in found.items() if metrics}

    @property
    def _estimators(self) -> dict[str, str]:
        """Return how the estimator of each model is called, by the names of `models`."""
        record = self.record
        keys = {"embedding": "embedding", "covariates only": "baseline"}
        for rival in rivals(record):
            keys[rival.name] = rival.key
        titles = {}
        for name, key in keys.items():
            titles[name] = estimator_title(record.estimators.get(key))
        return titles

    @property
    def table(self) -> pd.DataFrame:
        """Every metric of every model, with interval, mean and deviation over folds, and estimator."""
        rows = []
        estimators = self._estimators
        for model, metrics in self.models.items():
            for name, metric in metrics.items():
                low, high = metric.interval or (None, None)
                row = {
                    "model": model,
                    "metric": name,
                    "value": metric.value,
                    "low": low,
                    "high": high,
                }
                spread = {"mean": metric.mean, "sd": metric.sd}
                rows.append({**row, **spread, "estimator": estimators.get(model)})
        return pd.DataFrame(rows)

    def report(self, **options: Any) -> Path:
        """Write the report of the evaluation, and return its path; the options are those of `neurocontrast.report`."""
        return report(self, **options)

    def summary(self) -> str:
        """Describe who was evaluated, and each model's leading metrics with intervals."""
        record = self.record
        people = f"{count_text(record.n.scans or 0, 'scan')} of {record.n.subjects:,} subjects"
        names = leading_metrics(record.kind, record.metrics)[:_N_METRICS]
        figures = pd.DataFrame(self.models).reindex(names)
        n_warnings = len(record.warnings)
        lines = [f"{record.target}, {record.splits}: {people}"]
        if names:
            lines.append(figures.T.map(_estimate).to_string())
        if n_warnings:
            lines.append(f"{count_text(n_warnings, 'warning')}: read them in the report.")
        return "\n".join(lines)

    def __repr__(self) -> str:
        first = next(iter(self.record.metrics), None)
        figure = "" if first is None else f", {first} {getattr(self, first):.3g}"
        return (
            f"EvaluationResult('{self.folder}': {self.record.target}, {self.record.splits}{figure})"
        )

    def _repr_html_(self) -> str:
        n = len(self.record.warnings)
        notes = f"<p>{n} warning{'' if n == 1 else 's'}: read them in the report.</p>" if n else ""
        title = escape(f"{self.record.target}, {self.record.splits}")
        table = self.table.to_html(index=False, float_format="{:.3f}".format, na_rep="–")
        return f"<p><b>{title}</b></p>{table}{notes}"


_N_METRICS = 3
"""Metrics that a printed evaluation shows."""


def _estimate(metric: Metric | float) -> str:
    """Write a metric with its interval; a dash where a model has none, which pandas makes NaN."""
    if not isinstance(metric, Metric) or metric.value is None:
        return DASH
    return estimate_text(metric.value, metric.interval, digits=3)


@in_default_torch_state
def evaluate(
    embeddings: str | os.PathLike[str] | pd.DataFrame,
    *,
    out: str | os.PathLike[str],
    target: str | None = None,
    settings: EvaluationSettings | None = None,
    estimator: BaseEstimator | None = None,
    cv: Any = None,
    overwrite: bool = False,
    progress: Progress | bool | None = None,
    **options: Any,
) -> EvaluationResult:
    """Predict a column from frozen embeddings by cross-validation, and return the folder of the evaluation.

    Parameters
    ----------
    embeddings : path or DataFrame
        Table written by `embed`, or a DataFrame with ``participant_id``, ``feature_0000`` … and
        metadata. A DataFrame does not know who was pretrained on.
    out : path
        Folder to write: ``evaluation.json``, ``predictions.tsv``, ``folds.tsv``, ``sites.tsv`` and
        more.
    target : str, optional
        Column to predict; that of the settings (``diagnosis``) by default.
    settings : EvaluationSettings, optional
        All choices together; `target` and `options` go before them.
    estimator : estimator, optional
        Any scikit-learn classifier, regressor or pipeline, to be fitted instead of the built-in
        one, to the embedding and to what it is compared with; an instance, a class, or a function
        of no argument. ``probe="package.module:Object"`` imports one. It is cloned for each fold, a
        `random_state` of None is set from the seed, and classes are 0, 1, … in the order of
        ``classes`` in ``evaluation.json``, of two the positive one last.
    cv : splitter, or iterable of index pairs, optional
        Splitter in place of ``splits``; called as scikit-learn calls it, with subjects as `groups`
        and, where it takes them, `sites`. A repeat ends where a scan would be tested for the second
        time. Where every split tests one whole site that it does not train on, sites count as held
        out, and the baseline goes without them.
    overwrite : bool, default=False
        Whether an evaluation already at `out` is replaced.
    progress : Progress, bool or None
        Receives progress messages; True shows them on standard error, False nothing. None shows
        lines in a terminal or notebook, and warns with `NeurocontrastWarning`.
    **options
        Fields of `EvaluationSettings`: ``splits``, ``n_folds``, ``where`` and so on; ``test`` may
        be a DataFrame too.

    Returns
    -------
    EvaluationResult
        The folder, a path, whose figures are attributes: ``result.auc``, ``result.table``,
        ``result.report()``.
    """
    progress = as_progress(progress)
    test = options.get("test")
    if isinstance(test, pd.DataFrame):
        options["test"] = "test.parquet"  # as the record calls a DataFrame
    options |= _texts_of_paths(options)
    given = options if target is None else {**options, "target": target}
    given = given if settings is None else {**settings.model_dump(), **given}
    chosen = settings_from(EvaluationSettings, given, source="evaluation")
    folder = Path(out)
    check_output_folder(folder, overwrite=overwrite, marker=FILE, what="an evaluation")
    read = Embeddings.of(embeddings)
    if estimator is None and chosen.probe not in ("auto", *PROBES):
        estimator = import_estimator(chosen.probe)
    planned = chosen
    preprocessing = read.info.run.preprocessing
    if preprocessing.kind == "measures" and not chosen.regional and chosen.voxels != "off":
        # An encoder of regional measures is compared with models of the same ones.
        names = [escape_pattern(name) for name in preprocessing.columns if name in read.table]
        planned = chosen.model_copy(update={"regional": tuple(names)})
    rows = None if chosen.split_file is None else read_split_file(chosen.split_file)
    if chosen.target not in {*read.table, "tiv"}:
        raise ConfigError(no_column(read.path.name, chosen.target, read.table.columns))
    how: dict[str, Any] = {
        "settings": planned,
        "info": read.info,
        "split_rows": rows,
        "estimator": estimator,
        "cv": cv,
    }
    study = plan_study(read.table, read.features, **how)
    external = None
    other = None
    check(study, FINDINGS)
    if chosen.test is not None:
        if not isinstance(test, pd.DataFrame):
            test = chosen.test
        other = Embeddings.of(test, parameter="test")
        external = plan_external(
            study, other.table, other.features, info=other.info, training_info=read.info
        )
    progress.message(study.text())
    study = with_voxels(study, read.info, progress)
    for notice in [*study.notices, *(external.notices if external else ())]:
        progress.warning(notice.message)
    result = measure(
        study, FINDINGS, external=external, encoder=read.info.encoder_digest, progress=progress
    )
    _write(folder, result, chosen, read, other)
    return EvaluationResult(folder)


def _texts_of_paths(options: Mapping[str, object]) -> dict[str, str]:
    """Return the settings that name a file by a path, as text."""
    texts = {}
    for name in _PATHS:
        path = options.get(name)
        if isinstance(path, os.PathLike):
            texts[name] = os.fspath(path)
    return texts


def _write(
    folder: Path,
    result: StudyResult,
    settings: EvaluationSettings,
    read: Embeddings,
    other: Embeddings | None,
) -> None:
    info = read.info
    changed: Description = {}  # said only where it is another one than that of the run
    if info.layer != "encoder":
        changed["layer"] = info.layer
    if info.max_missing is not None:
        changed["max_missing"] = info.max_missing
    made_of = EmbeddingsOrigin(
        file=read.path.name,
        digest=read.digest(),
        cohort_source=info.cohort_source,
        cohort_digest=info.cohort_digest,
        environment=info.environment,
        **changed,
    )
    found = result.evaluation
    added: dict[str, Any] = {"embeddings": made_of}
    added["software"] = ["scikit-learn"]
    external = found.part(ExternalTest)
    if other is not None and external is not None:
        added["external"] = external.model_copy(
            update={"file": other.path.name, "digest": other.digest()}
        )
    choices = {"embeddings": read.path.name, "evaluation": settings.without_folders()}
    write_evaluation(folder, result, choices=choices, info=info, added=added)


def write_evaluation(
    folder: Path,
    result: StudyResult,
    *,
    choices: Mapping[str, Any],
    info: EmbeddingsInfo,
    added: Mapping[str, Any],
) -> None:
    """Write an evaluation folder, whole or not at all.

    `choices` become ``config.yaml``; `info` describes run and cohort; `added` are further keys of
    ``evaluation.json``.
    """
    origin = {
        "simulated": info.simulated,
        "simulation": info.simulation,
        "run": info.run if info.content().get("run") else None,
        "objective": info.objective,
        "environment": Environment.model_validate(describe_environment()),
    }
    with atomic_folder(folder) as new:
        for name, table in result.tables.items():
            write_table(new / f"{name}.tsv", table)
        if info.training_metrics:
            write_table(new / "training.tsv", pd.DataFrame(info.training_metrics))
        if result.probe is not None:
            save_probe(new / PROBE_FOLDER, result.probe)
        write_text(
            new / "config.yaml", yaml.safe_dump(dict(choices), sort_keys=False, allow_unicode=True)
        )
        write_json(new / FILE, result.evaluation.model_copy(update={**origin, **added}).content())
