"""Plan an evaluation, with models of the scans' voxels and an external test set."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sklearn.base import BaseEstimator

from neurocontrast.data.columns import no_column
from neurocontrast.documents.embeddings import AnyEmbeddings, Embeddings
from neurocontrast.documents.result import EmbeddingsOrigin
from neurocontrast.evaluation import EvaluationSettings, Plan, plan_evaluation
from neurocontrast.evaluation.measure import check
from neurocontrast.evaluation.plan.external import plan_external, warn_of_untested
from neurocontrast.evaluation.plan.plan import External
from neurocontrast.evaluation.probe_kinds import PROBES
from neurocontrast.evaluation.probes.estimators import import_estimator
from neurocontrast.exceptions import ConfigError
from neurocontrast.progress import SILENT, Progress
from neurocontrast.provenance import Description
from neurocontrast.reporting.findings import FINDINGS
from neurocontrast.runs.voxels import with_voxels


def make_plan(
    embeddings: Embeddings,
    settings: EvaluationSettings,
    *,
    test: AnyEmbeddings | None = None,
    estimator: BaseEstimator | None = None,
    cv: Any = None,
    progress: Progress = SILENT,
) -> Plan:
    """Return the checked plan of an evaluation, with its folds and models; fit no model yet.

    Settings and data that do not allow the evaluation are refused with an error.

    Parameters
    ----------
    embeddings : Embeddings
        Features and metadata of the scans.
    settings : EvaluationSettings
        Target, folds, probe and all other choices; ``probe="package.module:Object"`` is imported.
    test : path or DataFrame, optional
        Embeddings of the external test set, in place of the file that the settings name.
    estimator, cv : estimator, splitter, optional
        Estimator and splitter of the user, as `plan_evaluation` takes them.
    progress : Progress
        Shows the user who is evaluated, in which folds, and each warning.
    """
    if estimator is None and settings.probe not in ("auto", *PROBES):
        estimator = import_estimator(settings.probe)
    if settings.target not in {*embeddings.table, "tiv"}:
        columns = embeddings.table.columns
        raise ConfigError(no_column(embeddings.path.name, settings.target, columns))
    plan = plan_evaluation(
        embeddings.table,
        embeddings.features,
        settings=settings,
        info=embeddings.info,
        estimator=estimator,
        cv=cv,
    )
    if test is None:
        test = settings.test
    if test is not None:
        plan = plan.with_external(_plan_test(plan, test))
    plan = complete_plan(plan, progress)
    choices = {"embeddings": embeddings.path.name, "evaluation": settings.without_folders()}
    return replace(plan, origin=_describe_origin(embeddings), choices=choices)


def complete_plan(plan: Plan, progress: Progress) -> Plan:
    """Check an evaluation's analyses; return a copy of the plan with baseline models of voxels.

    The models are added unless the settings switch them off. Analyses that the data do not allow
    are refused before the voxels are read, since reading is slow. `progress` shows the user the
    text of the returned plan and its warnings.
    """
    check(plan, FINDINGS)
    plan = with_voxels(plan, progress)
    plan = warn_of_untested(plan)
    progress.message(plan.text())
    for notice in plan.notices:
        progress.warning(notice.message)
    if plan.external is not None:
        for notice in plan.external.notices:
            progress.warning(notice.message)
    return plan


def _plan_test(plan: Plan, table: AnyEmbeddings) -> External:
    """Return the plan of an external test: the probe of `plan` on embeddings of other people.

    `table` holds these embeddings. The result says which of its scans are tested, and how many are
    left out for which reason; nothing is fitted.
    """
    test = Embeddings.of(table, parameter="test")
    external = plan_external(
        plan, test.table, test.features, info=test.info, training_info=plan.info
    )
    origin = EmbeddingsOrigin(file=test.path.name, digest=test.digest())
    return replace(external, origin=origin)


def _describe_origin(embeddings: Embeddings) -> EmbeddingsOrigin:
    """Return the record of the evaluated embeddings: file, digest, cohort and environment.

    The layer of the network that gave the features is stated only if it is not ``encoder``, and the
    share of measures that a person may lack only if `embed` changed the run's share.
    """
    info = embeddings.info
    changed: Description = {}
    if info.layer != "encoder":
        changed["layer"] = info.layer
    if info.max_missing is not None:
        changed["max_missing"] = info.max_missing
    return EmbeddingsOrigin(
        file=embeddings.path.name,
        digest=embeddings.digest(),
        cohort_source=info.cohort_source,
        cohort_digest=info.cohort_digest,
        environment=info.environment,
        **changed,
    )
