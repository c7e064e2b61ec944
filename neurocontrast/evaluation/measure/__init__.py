"""Statistics of an evaluation: metrics of its models, and findings, one file for each finding.

A finding answers one question about every evaluation, such as how well the site can be predicted.
It is a `Question`: a function that measures, and the Pydantic model of the result's section
(record) in ``evaluation.json``. `measure` computes the metrics of the models and calls every
finding's function. `check` refuses, before any fit, settings with which a finding cannot be
measured.
"""

from collections.abc import Container, Iterable, Sequence
from dataclasses import replace
from operator import attrgetter

from neurocontrast.evaluation.fit.fits import Fits
from neurocontrast.evaluation.measure.finding import Inputs, Measurement, Question
from neurocontrast.evaluation.measure.results import MeasuredPlan, measure_models
from neurocontrast.evaluation.plan.plan import Plan
from neurocontrast.progress import SILENT, Progress

__all__ = ["Inputs", "Measurement", "Question", "check", "measure"]


def check(plan: Plan, questions: Sequence[Question]) -> None:
    """Refuse a plan that asks for an impossible measurement, such as too large training sizes.

    Each of `questions`, such as how well the site can be predicted, may have a function `check`,
    which looks at the plan and raises the error.
    """
    for question in questions:
        if question.check is not None:
            question.check(plan)


def measure(
    plan: Plan,
    fits: Fits,
    questions: Sequence[Question],
    *,
    progress: Progress = SILENT,
) -> MeasuredPlan:
    """Compute the metrics of a plan's models, and answer further questions on the predictions.

    The function of each of `questions` is called: it measures, for instance, how well the site can
    be predicted, and its sections and tables are added to the result. The result holds the content
    of ``evaluation.json`` with all sections and warnings, the tables, the predictions, and the
    embedding's probe fitted to all scans. Nothing is written.

    Parameters
    ----------
    plan : Plan
        As `plan_evaluation` returned it, with an external test set or without.
    fits : Fits
        Predictions of its models, as `neurocontrast.evaluation.fit.fits.fit` returned them.
    questions : sequence of Question
        Such as ``neurocontrast.reporting.findings.FINDINGS``; ``(*FINDINGS, MINE)`` adds one.
    progress : Progress
        Receives progress messages.
    """
    result = measure_models(plan, fits, progress)
    measurement = Measurement()
    for question in sorted(questions, key=attrgetter("last")):
        if question.measure is not None:
            inputs = Inputs(plan, fits.predictions, fits.reference, progress, measurement)
            further = question.measure(inputs)
            _check_new("record", further.records, measurement.records)
            _check_new("table", further.tables, result.tables | measurement.tables)
            measurement = measurement.with_further(further)
    evaluation = result.evaluation.with_parts(measurement.records)
    warnings = [*evaluation.warnings]
    if plan.external is not None:
        warnings += plan.external.notices
    warnings += measurement.notices
    evaluation = evaluation.model_copy(update={"warnings": warnings})
    return replace(result, evaluation=evaluation, tables=result.tables | measurement.tables)


def _check_new(kind: str, names: Iterable[str], taken: Container[str]) -> None:
    """Raise `ValueError` if one of the new names is among the names already in use, `taken`.

    `names` and `taken` are of one kind: keys of records (sections of ``evaluation.json``), or names
    of tables. `kind`, ``record`` or ``table``, is a word for the message.
    """
    for name in names:
        if name in taken:
            raise ValueError(
                f"measure: a {kind} '{name}' is there already, of an earlier finding or of the "
                "models. Give the finding's a name of its own."
            )
