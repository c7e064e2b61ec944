"""Statistics of an evaluation: one file a finding, each with its measurement and its typed record.

A finding is a question to every evaluation. `check` refuses settings that a question cannot serve;
`measure` computes the figures of the models and asks every question.
"""

from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter

from neurocontrast.evaluation.fits import Fits
from neurocontrast.evaluation.measure.external import plan_external
from neurocontrast.evaluation.measure.finding import Found, Inputs, Question
from neurocontrast.evaluation.results import StudyResult, measure_models
from neurocontrast.evaluation.study import Study
from neurocontrast.progress import SILENT, Progress

__all__ = ["Found", "Inputs", "Question", "check", "measure", "plan_external"]


def check(study: Study, questions: Sequence[Question]) -> None:
    """Refuse a study whose settings ask a question for an answer that cannot be measured."""
    for question in questions:
        if question.check is not None:
            question.check(study)


def measure(
    study: Study,
    fits: Fits,
    questions: Sequence[Question],
    *,
    progress: Progress = SILENT,
) -> StudyResult:
    """Measure the models of a study, ask every question, and return records, tables and warnings.

    Parameters
    ----------
    study : Study
        As `plan_study` returned it, with an external test set or without.
    fits : Fits
        Predictions of its models, as `neurocontrast.evaluation.fits.fit` returned them.
    questions : sequence of Question
        Such as ``neurocontrast.reporting.findings.FINDINGS``; ``(*FINDINGS, MINE)`` adds one.
    progress : Progress
        Receives progress messages.
    """
    result = measure_models(study, fits, progress)
    inputs = Inputs(study, fits.models, fits.reference, progress)
    found = inputs.found
    records = {}
    for question in sorted(questions, key=attrgetter("last")):
        if question.record is not None:
            records[question.record.key] = question.record
        if question.measure is not None:
            new = question.measure(inputs)
            found.summary.update(new.summary)
            found.tables.update(new.tables)
            found.notices.extend(new.notices)
    evaluation = result.evaluation.with_parts(found.summary, records)
    warnings = [*evaluation.warnings]
    if study.external is not None:
        warnings += study.external.notices
    warnings += found.notices
    evaluation = evaluation.model_copy(update={"warnings": warnings})
    return replace(result, evaluation=evaluation, tables=result.tables | found.tables)
