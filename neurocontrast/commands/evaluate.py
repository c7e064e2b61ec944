"""Evaluate an embeddings table, compared with covariates and with the scans' own voxels."""

import os
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

import pandas as pd
from sklearn.base import BaseEstimator

from neurocontrast.commands.report import report
from neurocontrast.commands.written import WrittenFigures
from neurocontrast.display import as_progress
from neurocontrast.documents.embeddings import Embeddings
from neurocontrast.documents.figures import Metric
from neurocontrast.documents.result import FILE, read_evaluation
from neurocontrast.evaluation import EvaluationSettings
from neurocontrast.evaluation.fit.fits import fit
from neurocontrast.evaluation.measure import measure
from neurocontrast.evaluation.measure.writing import write_evaluation
from neurocontrast.exceptions import one_of
from neurocontrast.files import check_output_folder
from neurocontrast.progress import Progress
from neurocontrast.reporting.baselines import estimator_title, list_baselines
from neurocontrast.reporting.findings import FINDINGS
from neurocontrast.reporting.wording import DASH, count_text, estimate_text, leading_metrics
from neurocontrast.runs.planning import make_plan
from neurocontrast.settings import settings_from
from neurocontrast.torch_state import in_default_torch_state

_PATHS = ("test", "split_file", "scans")
"""Settings of an evaluation that are paths of files."""


class EvaluationResult(WrittenFigures):
    """Folder of an evaluation: a path with the evaluation's metrics as attributes.

    ``print(result)`` shows the people who were evaluated and the leading metrics. The result works
    as a `Path`: ``result / "folds.tsv"``, ``f"{result}"``, every attribute of a `Path`, and every
    function that takes the folder. A metric of the embedding is an attribute too, such as
    ``result.auc``: computed over the held-out predictions of all folds together, or the mean over
    folds for metrics that are only defined by fold.

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
        """Return the value of a metric of the embedding, or an attribute of the folder's path."""
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
        """Metrics by name of the model, then by name of the metric.

        The models are the embedding, or the fine-tuned network, and all others of the evaluation,
        such as ``covariates only``. A model without metrics is absent.
        """
        record = self.record
        trained = record.probe.name if record.finetuning else None
        models = {trained or "embedding": record.metrics, "covariates only": record.baseline}
        for baseline in list_baselines(record):
            models[baseline.name] = baseline.metrics
        return {name: metrics for name, metrics in models.items() if metrics}

    @property
    def _estimators(self) -> dict[str, str]:
        """Name of each model → title of the model's estimator, such as "ridge"."""
        record = self.record
        keys = {"embedding": "embedding", "covariates only": "baseline"}
        for baseline in list_baselines(record):
            keys[baseline.name] = baseline.key
        titles = {}
        for name, key in keys.items():
            titles[name] = estimator_title(record.estimators.get(key))
        return titles

    @property
    def table(self) -> pd.DataFrame:
        """Table of metrics, one row a model and metric: interval, spread over folds, estimator."""
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
        """Write the report of this evaluation; return its path.

        `options` are those of `neurocontrast.report`.
        """
        return report(self, **options)

    def summary(self) -> str:
        """Return lines of text on the evaluated people and the leading metrics of each model."""
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
"""Number of metrics that a printed evaluation shows."""


def _estimate(metric: Metric | float) -> str:
    """Format a metric with its interval as text; a dash for a metric that a model lacks (NaN)."""
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
    """Predict a column from frozen embeddings by cross-validation; return the evaluation's folder.

    Parameters
    ----------
    embeddings : path or DataFrame
        Table written by `embed`, or a DataFrame with ``participant_id``, ``feature_0000`` … and
        metadata. For a DataFrame that does not record the people of pretraining, a warning says
        that overlap with the evaluated people is unknown.
    out : path
        Folder to write: ``evaluation.json``, ``predictions.tsv``, ``folds.tsv``, ``sites.tsv`` and
        more.
    target : str, optional
        Column to predict; that of the settings (``diagnosis``) by default.
    settings : EvaluationSettings, optional
        All choices together; `target` and `options` take precedence over `settings`.
    estimator : estimator, optional
        Any scikit-learn classifier, regressor or pipeline, to be fitted instead of the built-in
        one, to the embedding and to the models that the embedding is compared with; an instance, a
        class, or a function of no argument. ``probe="package.module:Object"`` imports one. It is
        cloned for each fold, a `random_state` of None is set from the seed, and classes are 0, 1, …
        in the order of ``classes`` in ``evaluation.json``, of two the positive one last.
    cv : splitter, or iterable of index pairs, optional
        Splitter in place of ``splits``; called as scikit-learn calls it, with subjects as `groups`
        and, where it takes them, `sites`. A repeat ends where a scan would be tested for the second
        time. Where every split tests one whole site that it does not train on, sites count as held
        out, and ``site`` is no covariate of the baseline.
    overwrite : bool, default=False
        Whether an evaluation already at `out` is replaced.
    progress : Progress, bool or None
        Receives progress messages; True shows them on standard error, False nothing. With None,
        lines appear in a terminal or notebook alone, and warnings (`NeurocontrastWarning`) always.
    **options
        Fields of `EvaluationSettings`: ``splits``, ``n_folds``, ``where`` and so on; ``test`` may
        be a DataFrame too.

    Returns
    -------
    EvaluationResult
        The folder, a path, whose metrics are attributes: ``result.auc``, ``result.table``,
        ``result.report()``.
    """
    progress = as_progress(progress)
    test = options.get("test")
    if not isinstance(test, pd.DataFrame):
        test = None
    chosen = _choose_settings(settings, target, options)
    folder = Path(out)
    check_output_folder(folder, overwrite=overwrite, marker=FILE, what="an evaluation")
    read = Embeddings.of(embeddings)
    plan = make_plan(read, chosen, test=test, estimator=estimator, cv=cv, progress=progress)
    fits = fit(plan, progress)
    result = measure(plan, fits, FINDINGS, progress=progress)
    write_evaluation(result, folder)
    return EvaluationResult(folder)


def _choose_settings(
    settings: EvaluationSettings | None, target: str | None, options: Mapping[str, object]
) -> EvaluationSettings:
    """Return the settings of a call of `evaluate`: `target` and `options` override `settings`."""
    choices: dict[str, object] = {}
    if settings is not None:
        choices |= settings.model_dump()
    choices |= options
    for name in _PATHS:
        path = options.get(name)
        if isinstance(path, os.PathLike):
            choices[name] = os.fspath(path)
    if isinstance(options.get("test"), pd.DataFrame):
        choices["test"] = "test.parquet"  # as the record calls a DataFrame
    if target is not None:
        choices["target"] = target
    return settings_from(EvaluationSettings, choices, source="evaluation")
