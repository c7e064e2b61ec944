"""What a reader must know before the figures: the warnings of the evaluation, each with what it means."""

from __future__ import annotations

import re
from typing import Any

from neurocontrast.reporting.blocks import Items, Paragraph, Section
from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.options import ReportOptions
from neurocontrast.reporting.section import SectionBuilder
from neurocontrast.reporting.words import IMAGES

__all__ = ["WARNINGS", "explain_warning", "list_warnings"]

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
    found = [each if isinstance(each, dict) else {"message": each} for each in files.summary.get("warnings") or []]
    if files.words is IMAGES:
        found = [each for each in found if each.get("code") not in _NOT_OF_IMAGES]
    n_overlap, units = files.summary.get("n_overlap") or 0, files.words.units
    if n_overlap and not any("overlap" in str(each.get("code")) for each in found):
        text = f"{n_overlap} of the {units} evaluated here were also in the pretraining cohort (overlap allowed)."
        found.insert(0, {"message": text, "explanation": _OVERLAP.format(units=units)})
    messages = [str(each.get("message") or each.get("code")) for each in found]
    if not show_ids:
        codes = [str(each.get("code")) for each in found]
        messages = [_hide_ids(text, files, code) for text, code in zip(messages, codes, strict=True)]
    return [(message, explain_warning(each)) for message, each in zip(messages, found, strict=True)]


def explain_warning(warning: Any) -> str:
    """Return what a warning means for the reading of the report; empty for older evaluations, which do not say."""
    return str(warning.get("explanation") or "")


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
