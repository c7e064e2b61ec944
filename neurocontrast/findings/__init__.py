"""What an evaluation finds, one question each: measured, recorded in ``evaluation.json``, and shown in the report.

A finding is one file, or a folder of ``measure.py`` and ``show.py`` where it is long, and a line of
`FINDINGS`.
"""

import os
from collections.abc import Sequence
from dataclasses import replace

from neurocontrast.evaluation.results import StudyResult, run_study
from neurocontrast.evaluation.study import Study
from neurocontrast.findings.brain import BRAIN
from neurocontrast.findings.cohort import COHORT
from neurocontrast.findings.confounds import CONFOUNDS
from neurocontrast.findings.external import EXTERNAL, External, plan_external
from neurocontrast.findings.finding import Finding, Found, Inputs
from neurocontrast.findings.folder import EvaluationFolder, read_folder
from neurocontrast.findings.images import IMAGE_COHORT
from neurocontrast.findings.learning import LEARNING
from neurocontrast.findings.methods import METHODS, PROVENANCE, SILENCES
from neurocontrast.findings.new_site.show import NEW_SITE
from neurocontrast.findings.outside import OUTSIDE
from neurocontrast.findings.predictions import CALIBRATION, CURVES, ERRORS, WORST
from neurocontrast.findings.prose import naming, write
from neurocontrast.findings.result import RESULT, WARNINGS, say_result
from neurocontrast.findings.sites import FOLDS, GROUPS, SITES
from neurocontrast.page.blocks import Head, Section, render
from neurocontrast.progress import SILENT, Progress

__all__ = [
    "FINDINGS",
    "External",
    "Finding",
    "Found",
    "Inputs",
    "build_sections",
    "check",
    "measure",
    "open_folder",
    "plan_external",
    "render_report",
]

FINDINGS: tuple[Finding, ...] = (
    WARNINGS,
    RESULT,
    NEW_SITE,
    OUTSIDE,
    COHORT,
    IMAGE_COHORT,
    SITES,
    GROUPS,
    CURVES,
    CALIBRATION,
    ERRORS,
    WORST,
    LEARNING,
    EXTERNAL,
    CONFOUNDS,
    BRAIN,
    FOLDS,
    METHODS,
    SILENCES,
    PROVENANCE,
)
"""Every finding, in the order of the report."""


def check(study: Study, *, findings: Sequence[Finding] = FINDINGS) -> None:
    """Refuse a study whose settings ask a finding for what it cannot measure."""
    for each in findings:
        if each.check is not None:
            each.check(study)


def measure(
    study: Study,
    *,
    external: External | None = None,
    encoder: str | None = None,
    findings: Sequence[Finding] = FINDINGS,
    progress: Progress = SILENT,
) -> StudyResult:
    """Run a study, measure every finding, and return the result with their records, tables and warnings.

    Parameters
    ----------
    study : Study
        As `plan_study` returned it.
    external : External, optional
        A test set of other people, as `plan_external` returned it.
    encoder : str, optional
        Digest of the encoder that made the features, which the stored probe records.
    findings : sequence of Finding
        Questions to ask; ``(*FINDINGS, MINE)`` adds one.
    progress : Progress
        Receives progress messages.
    """
    result = run_study(study, encoder=encoder, progress=progress)
    inputs = Inputs(study, result.models, external, result.reference, progress)
    found = inputs.found
    for each in sorted(findings, key=lambda finding: finding.last):
        if each.measure is not None:
            new = each.measure(inputs)
            found.summary.update(new.summary)
            found.tables.update(new.tables)
            found.notices.extend(new.notices)
    records = {each.record.key: each.record for each in findings if each.record is not None}
    evaluation = result.evaluation.with_parts(found.summary, records)
    warnings = [*evaluation.warnings, *(external.notices if external else ()), *found.notices]
    evaluation = evaluation.model_copy(update={"warnings": warnings})
    return replace(result, evaluation=evaluation, tables=result.tables | found.tables)


def open_folder(
    folder: str | os.PathLike[str],
    *,
    show_ids: bool = False,
    findings: Sequence[Finding] = FINDINGS,
) -> EvaluationFolder:
    """Read and check an evaluation folder for a report of some findings, whose records are checked too."""
    return read_folder(folder, show_ids=show_ids, findings=findings)


def build_sections(files: EvaluationFolder, *, progress: Progress = SILENT) -> list[Section]:
    """Return the sections of a report that have something to show, in the order of its findings."""
    sections = []
    with progress.task("Building the report", len(files.findings), "section") as task:
        for each in files.findings:
            section = each.show(files) if each.show is not None and each.fits(files) else None
            sections += [] if section is None else [section]
            task.advance()
    return sections


def render_report(files: EvaluationFolder, sections: Sequence[Section]) -> str:
    """Return the report of an evaluation as one HTML page, its sections in this order."""
    return render(
        sections,
        Head(
            kicker="neurocontrast evaluation report",
            title=naming("target", files),
            summary=say_result(files, "sentence"),
            facts=[
                ("Encoder", naming("encoder", files)),
                ("Pretraining", naming("pretraining", files.run, files.objective)),
                ("Evaluation", naming("splits", files)),
                ("Data", write("result.j2", files, what="data") or "not recorded"),
            ],
        ),
        simulated=files.summary.simulated,
        environment=files.environment,
    )
