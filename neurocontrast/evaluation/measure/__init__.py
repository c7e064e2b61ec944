"""Statistics of an evaluation: one file a finding, each with its measurement and its typed record.

A finding is a question to every evaluation. `check` refuses settings that a question cannot serve;
`measure` fits the models and asks every question.
"""

from collections.abc import Sequence
from dataclasses import replace

from neurocontrast.evaluation.measure.external import External, plan_external
from neurocontrast.evaluation.measure.finding import Found, Inputs, Question
from neurocontrast.evaluation.results import StudyResult, run_study
from neurocontrast.evaluation.study import Study
from neurocontrast.progress import SILENT, Progress

__all__ = ["External", "Found", "Inputs", "Question", "check", "measure", "plan_external"]


def check(study: Study, questions: Sequence[Question]) -> None:
    """Refuse a study whose settings ask a question for an answer that cannot be measured."""
    for question in questions:
        if question.check is not None:
            question.check(study)


def measure(
    study: Study,
    questions: Sequence[Question],
    *,
    external: External | None = None,
    encoder: str | None = None,
    progress: Progress = SILENT,
) -> StudyResult:
    """Run a study, ask every question, and return the result with their records, tables and warnings.

    Parameters
    ----------
    study : Study
        As `plan_study` returned it.
    questions : sequence of Question
        Such as ``neurocontrast.reporting.findings.FINDINGS``; ``(*FINDINGS, MINE)`` adds one.
    external : External, optional
        A test set of other people, as `plan_external` returned it.
    encoder : str, optional
        Digest of the encoder that made the features, which the stored probe records.
    progress : Progress
        Receives progress messages.
    """
    result = run_study(study, encoder=encoder, progress=progress)
    inputs = Inputs(study, result.models, external, result.reference, progress)
    found = inputs.found
    for question in sorted(questions, key=lambda question: question.last):
        if question.measure is not None:
            new = question.measure(inputs)
            found.summary.update(new.summary)
            found.tables.update(new.tables)
            found.notices.extend(new.notices)
    records = {}
    for question in questions:
        if question.record is not None:
            records[question.record.key] = question.record
    evaluation = result.evaluation.with_parts(found.summary, records)
    warnings = [*evaluation.warnings, *(external.notices if external else ()), *found.notices]
    evaluation = evaluation.model_copy(update={"warnings": warnings})
    return replace(result, evaluation=evaluation, tables=result.tables | found.tables)
