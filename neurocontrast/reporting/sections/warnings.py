"""What a reader must know before the figures: the warnings of the evaluation, each with what it means."""

from __future__ import annotations

import re

from neurocontrast.evaluation.schema import Notice
from neurocontrast.reporting.blocks import Items, Paragraph, Section
from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.options import ReportOptions
from neurocontrast.reporting.section import SectionBuilder
from neurocontrast.reporting.words import IMAGES

__all__ = ["WARNINGS", "list_warnings"]

_OVERLAP = (
    "The encoder has already seen these {units}. Its features can fit them better than anybody new, so the figures "
    "below may be too good."
)
_NOT_OF_IMAGES = ("site_missing", "single_site", "baseline_empty", "baseline_incomplete", "outside_distribution")
"""Warnings about what an evaluation of images does not have."""


def _build(files: EvaluationFiles, options: ReportOptions) -> Section:
    """Build the warnings, each with what it means; the reader is told too when there is none."""
    warnings = list_warnings(files, show_ids=options.show_ids)
    if not warnings:
        text = "The evaluation raised no warning about its data, the sizes of groups, or overlap with pretraining."
        return Section("warnings", "Read this first", [Paragraph(text, role="note")])
    count = "1 warning" if len(warnings) == 1 else f"{len(warnings)} warnings"
    return Section("warnings", f"Read this first: {count}", [Items(warnings, role="warnings")])


def list_warnings(files: EvaluationFiles, *, show_ids: bool = False) -> list[tuple[str, str]]:
    """Return each warning with its explanation, in the order of the evaluation.

    An allowed overlap with pretraining is told even where the evaluation lists no warning of it.
    """
    found = list(files.summary.warnings)
    if files.words is IMAGES:
        found = [each for each in found if each.code not in _NOT_OF_IMAGES]
    n_overlap, units = files.summary.n_overlap, files.words.units
    if n_overlap and not any("overlap" in each.code for each in found):
        text = f"{n_overlap} of the {units} evaluated here were also in the pretraining cohort (overlap allowed)."
        found.insert(0, Notice("pretraining_overlap", text, _OVERLAP.format(units=units)))
    messages = [each.message or each.code for each in found]
    if not show_ids:
        messages = [_hide_ids(text, files, each.code) for text, each in zip(messages, found, strict=True)]
    return [(message, each.explanation) for message, each in zip(messages, found, strict=True)]


def _hide_ids(text: str, files: EvaluationFiles, code: str) -> str:
    """Replace identifiers of participants in a message.

    Identifiers made of digits alone look like counts, so they are looked for only in warnings
    about duplicates, which list people.
    """
    names = {
        str(name)
        for table in (files.predictions, files.external_predictions, files.outlyingness, files.external_outlyingness)
        for column in ("participant_id", "subject_id")
        if table is not None and column in table
        for name in table[column].dropna()
    }
    if "duplicate" not in code:
        names = {name for name in names if not name.isdigit() and len(name) > 2}
    if not names:
        return text
    longest_first = sorted(names, key=len, reverse=True)
    pattern = r"(?<![\w-])(?:" + "|".join(re.escape(name) for name in longest_first) + r")(?![\w-])"
    return re.sub(pattern, "[id]", text)


WARNINGS = SectionBuilder("warnings", "Read this first", order=0, build=_build, covers="warnings")
