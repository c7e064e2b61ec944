"""What a reader must know before the figures: the warnings of the evaluation, each with what it means."""

from __future__ import annotations

import re

from neurocontrast.reporting.page import Items, Section, SectionBuilder, note
from neurocontrast.reporting.read import EvaluationFiles
from neurocontrast.reporting.wording import IMAGES

__all__ = ["WARNINGS", "list_warnings"]

_NOT_OF_IMAGES = ("site_missing", "single_site", "baseline_empty", "baseline_incomplete", "outside_distribution")
"""Warnings about what an evaluation of images does not have."""


def _build(files: EvaluationFiles) -> Section:
    warnings = list_warnings(files)
    if not warnings:
        text = "The evaluation raised no warning about its data, the sizes of groups, or overlap with pretraining."
        return Section("warnings", "Read this first", [note(text)])
    count = "1 warning" if len(warnings) == 1 else f"{len(warnings)} warnings"
    return Section("warnings", f"Read this first: {count}", [Items(warnings, role="warnings")])


def list_warnings(files: EvaluationFiles) -> list[tuple[str, str]]:
    """Return each warning with its explanation, in the order of the evaluation."""
    found = list(files.summary.warnings)
    if files.words is IMAGES:
        found = [each for each in found if each.code not in _NOT_OF_IMAGES]
    messages = [each.message or each.code for each in found]
    if not files.show_ids:
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


WARNINGS = SectionBuilder("warnings", "Read this first", order=0, build=_build)
