"""The warnings of an evaluation, with what each means for a reader."""

from __future__ import annotations

import re

from neurocontrast.reporting.folder import EvaluationFiles, external_part
from neurocontrast.reporting.new_site_sentences import say_new_site, say_nothing_left
from neurocontrast.reporting.new_sites import is_lost, new_site_metric, nothing_left
from neurocontrast.reporting.outlyingness import count_outside
from neurocontrast.reporting.outlyingness_sentences import say_outside
from neurocontrast.reporting.words import IMAGES

__all__ = ["hide_ids", "list_warnings"]

_SEEN = (
    "The encoder has already seen these people. Its features can fit them better than anybody new, so the figures "
    "below may be too good."
)
_ELSEWHERE = (
    "The result below is of sites that were trained on. At another scanner expect the error of unseen sites, or a "
    "larger one. See “At a site it has not seen”."
)
_USELESS = (
    "At a scanner that was not trained on, do not trust the number: as far as these data tell, a guess without the "
    "scan serves as well. See “At a site it has not seen”."
)
_OUTSIDE = (
    "Do not trust the number for these scans: the model gives one wherever they lie, but it learned from nothing like "
    "them. They count in the figures below. See “Scans unlike those it learned from”."
)
_DERIVED = {
    "pretraining_overlap": _SEEN,
    "new_site_worse": _ELSEWHERE,
    "new_site_no_better_than_constant": _USELESS,
    "outside_distribution": _OUTSIDE,
    "external_outside_distribution": _OUTSIDE,
}
"""What warnings mean that the report itself derives."""
_NOT_OF_IMAGES = frozenset(
    {"site_missing", "single_site", "baseline_empty", "baseline_incomplete", "outside_distribution"}
)
"""Warnings about what an evaluation of images does not have."""


def list_warnings(files: EvaluationFiles, *, show_ids: bool = False) -> list[tuple[str, str]]:
    """Return each warning with its explanation, in the order of the evaluation.

    An allowed overlap with pretraining is told even where the evaluation lists no warning of it.
    """
    words = files.words
    found, codes = [], []
    for warning in files.summary.get("warnings") or []:
        # A bare sentence is accepted too: a warning must never be lost over its form.
        parts = warning if isinstance(warning, dict) else {"message": warning}
        code = str(parts.get("code", ""))
        message = str(parts.get("message") or code)
        if words is IMAGES and code in _NOT_OF_IMAGES:
            continue
        codes.append(code)
        explanation = str(parts.get("explanation", ""))
        found.append((message if show_ids else hide_ids(message, files, code=code), explanation))
    n_overlap = files.summary.get("n_overlap") or 0
    if n_overlap and not any("overlap" in code for code in codes):
        message = (
            f"{n_overlap} of the {words.units} evaluated here were also in the pretraining cohort (overlap allowed)."
        )
        found.insert(0, (message, _DERIVED["pretraining_overlap"]))
    if words is IMAGES:
        return found
    derived = [*_look_at_new_site(files, codes), *_look_at_outside(files)]
    return found + [(message, _DERIVED[code]) for code, message in derived if code not in codes]


def _look_at_new_site(files: EvaluationFiles, codes: list[str]) -> list[tuple[str, str]]:
    """Return what the panel of unseen sites calls for: nothing left there, or less than at known sites."""
    metric = new_site_metric(files)
    said = say_new_site(files)
    if metric is None or said is None:
        return []
    if nothing_left(files, metric):
        told = "new_site_worse" in codes
        return [("new_site_no_better_than_constant", say_nothing_left(files, metric) if told else said)]
    return [("new_site_worse", said)] if is_lost(files, metric) else []


def _look_at_outside(files: EvaluationFiles) -> list[tuple[str, str]]:
    """Return what the scans outside call for, here and in the external test set."""
    found = []
    external = external_part(files)
    for code, part, whose in (
        ("outside_distribution", files, ""),
        ("external_outside_distribution", external, " of the external test set"),
    ):
        counted = None if part is None else count_outside(part)
        if counted is not None and counted.more_than_chance:
            found.append((code, say_outside(counted, whose=whose)))
    return found


def hide_ids(text: str, files: EvaluationFiles, *, code: str = "") -> str:
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
