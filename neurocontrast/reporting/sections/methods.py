"""Section of methods, to be pasted into a paper."""

from functools import partial

from neurocontrast.documents.findings import Confounds, LearningCurve
from neurocontrast.evaluation.probe_kinds import N_LANDMARKS, NYSTROM
from neurocontrast.evaluation.probes.designs import WEIGHTS
from neurocontrast.reporting.baselines import say_weights
from neurocontrast.reporting.blocks import Block, Citations, Numbered, Paragraph, Section
from neurocontrast.reporting.finding import Finding
from neurocontrast.reporting.folder import EvaluationFolder
from neurocontrast.reporting.texts import (
    permutation_result,
    section,
    template_of,
    write_paragraphs,
)
from neurocontrast.reporting.wording import join_words, lower_first

_PROPER_NAMES = ("AUC", "Brier", "Pearson", "Spearman")
"""Proper names that begin the labels of metrics: their capital stays within a sentence."""


def show_methods(files: EvaluationFolder) -> Section:
    """Return the section with a paper's paragraphs on methods, and the list of references."""
    cite = Citations()
    blocks: list[Block] = []
    for heading, paragraph in write_methods(files, cite):
        blocks.append(Paragraph(paragraph, label=heading))
    return section("methods", [*blocks, Numbered("References", cite.listed())])


def write_methods(files: EvaluationFolder, cite: Citations) -> list[tuple[str, str]]:
    """Return headings and paragraphs of a methods section, from the evaluation's files alone.

    `cite` numbers the references that the paragraphs cite.
    """
    s = files.summary
    shared = {
        "files": files,
        "s": s,
        "run": files.run,
        "words": files.words,
        "cite": cite,
        "codes": [warning.code for warning in s.warnings],
    }
    of_findings = []
    for finding in files.findings:
        if finding.methods and finding.fits(files):
            template = template_of(finding.methods, files.words)
            record = None if finding.record is None else s.part(finding.record)
            # Rendered in its place, so that references are numbered in the order of the text.
            of_findings.append(partial(template.render, **shared, record=record))
    return write_paragraphs(
        "methods.j2",
        files,
        cite=cite,
        codes=shared["codes"],
        of_findings=of_findings,
        confounds=s.part(Confounds) or Confounds(),
        curve=s.part(LearningCurve) or LearningCurve(),
        labels=list(map(partial(_metric_label, files), files.metrics)),
        headline=files.headline,
        nystrom={"n": N_LANDMARKS, "citation": NYSTROM},
        weights=say_weights(s),
        grid_of_weights=join_words(list(map("{:g}".format, sorted(WEIGHTS)))),
        permutation=permutation_result(files, files.headline),
    )


def _metric_label(files: EvaluationFolder, metric: str) -> str:
    """Return a metric's label for the middle of a sentence: small letters but in proper names."""
    label = files.describe(metric).label
    if label.startswith(_PROPER_NAMES):
        return label
    return lower_first(label)


METHODS = Finding("methods", show_methods)
