"""All findings (analyses that have a section) in the order of the report, and the report's page."""

import os
from collections.abc import Sequence

from neurocontrast.documents.document import content_of
from neurocontrast.progress import SILENT, Progress
from neurocontrast.reporting.blocks import Head, Section, render
from neurocontrast.reporting.finding import Finding
from neurocontrast.reporting.folder import EvaluationFolder, read_folder
from neurocontrast.reporting.naming import (
    name_encoder,
    name_pretraining,
    name_splits,
    name_target,
)
from neurocontrast.reporting.result_prose import result_prose
from neurocontrast.reporting.sections.brain import BRAIN
from neurocontrast.reporting.sections.calibration import CALIBRATION
from neurocontrast.reporting.sections.cohort import COHORT
from neurocontrast.reporting.sections.confounds import CONFOUNDS
from neurocontrast.reporting.sections.curves import CURVES
from neurocontrast.reporting.sections.errors import ERRORS
from neurocontrast.reporting.sections.external import EXTERNAL
from neurocontrast.reporting.sections.folds import FOLDS
from neurocontrast.reporting.sections.groups import GROUPS
from neurocontrast.reporting.sections.learning import LEARNING
from neurocontrast.reporting.sections.methods import METHODS
from neurocontrast.reporting.sections.new_site import NEW_SITE
from neurocontrast.reporting.sections.outside import OUTSIDE
from neurocontrast.reporting.sections.provenance import PROVENANCE
from neurocontrast.reporting.sections.result import RESULT
from neurocontrast.reporting.sections.samples import SAMPLES
from neurocontrast.reporting.sections.silences import SILENCES
from neurocontrast.reporting.sections.sites import SITES
from neurocontrast.reporting.sections.warnings import WARNINGS
from neurocontrast.reporting.sections.worst import WORST

FINDINGS: tuple[Finding, ...] = (
    WARNINGS,
    RESULT,
    NEW_SITE,
    OUTSIDE,
    COHORT,
    SAMPLES,
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


def open_folder(
    folder: str | os.PathLike[str],
    *,
    show_ids: bool = False,
    findings: Sequence[Finding] = FINDINGS,
) -> EvaluationFolder:
    """Read and check an evaluation folder; return its content for a report.

    Returned is an `EvaluationFolder`. `findings` are the analyses whose sections the report has, by
    default all; the key of each in ``evaluation.json`` is checked, too. With `show_ids`,
    identifiers of participants may appear in the report.
    """
    return read_folder(folder, show_ids=show_ids, findings=findings)


def build_sections(files: EvaluationFolder, *, progress: Progress = SILENT) -> list[Section]:
    """Return the sections of an evaluation's report that have something to show.

    `files` is the content of the evaluation's folder, with the list of the report's analyses in
    `files.findings`. Each analysis shows at most one section; the sections are in the order of the
    list.
    """
    sections = []
    with progress.task("Building the report", len(files.findings), "section") as task:
        for finding in files.findings:
            if finding.show is not None and finding.fits(files):
                section = finding.show(files)
                if section is not None:
                    sections.append(section)
            task.advance()
    return sections


def render_report(files: EvaluationFolder, sections: Sequence[Section]) -> str:
    """Return the report of an evaluation as one HTML page, a text with all `sections`.

    At the top of the page are the title, the result in a sentence, encoder, pretraining, splits and
    data.
    """
    result = result_prose(files)
    return render(
        sections,
        Head(
            kicker="neurocontrast evaluation report",
            title=name_target(files),
            summary=result.sentence(),
            facts=[
                ("Encoder", name_encoder(files)),
                ("Pretraining", name_pretraining(files.run, files.objective)),
                ("Evaluation", name_splits(files)),
                ("Data", result.data() or "not recorded"),
            ],
        ),
        simulated=files.summary.simulated,
        environment=content_of(files.summary.environment),
    )
