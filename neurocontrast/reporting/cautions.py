"""What each warning of an evaluation means for a reader, in plain words."""

from __future__ import annotations

from neurocontrast.reporting.folder import EvaluationFiles

__all__ = ["explain_warning", "list_warnings"]

# The first word that a warning's code contains decides; codes of later versions still find their family.
_EXPLANATIONS = (
    (
        "overlap",
        "The encoder has already seen these people. Its features can fit them better than anybody new, so the figures "
        "below may be too good.",
    ),
    (
        "single_class",
        "A site where everybody has the same label says nothing about telling labels apart, and helps a model that has "
        "merely learned to recognise the site.",
    ),
    (
        "fold",
        "A test fold with one label only has no AUC; it counts in the pooled result and not in the mean over folds.",
    ),
    (
        "confound",
        "Where site and target go together, a model that recognises the scanner looks as if it recognised the target. "
        "Compare with the baseline and with one site left out at a time.",
    ),
    (
        "few",
        "With so few scans chance alone moves the result a lot. Read the interval, not the point.",
    ),
    (
        "small",
        "With so few scans chance alone moves the result a lot. Read the interval, not the point.",
    ),
    (
        "missing",
        "Scans without a value cannot take part. If they differ from others, the result holds for a selected group.",
    ),
    (
        "exclu",
        "Excluded scans are not in any figure below. If they differ from the others, the result holds for a selected "
        "group.",
    ),
    (
        "baseline",
        "Without a sound baseline nobody can say what the scan adds to what was known without it.",
    ),
    (
        "interval",
        "Without an interval a result can be neither compared nor trusted to its second digit.",
    ),
    (
        "bootstrap",
        "Without a sound interval a result can be neither compared nor trusted to its second digit.",
    ),
    (
        "imbalance",
        "Where one class is rare, accuracy looks high for a model that never names it; balanced accuracy does not.",
    ),
    (
        "site",
        "Results can differ between scanners; what holds at these sites need not hold at another.",
    ),
    (
        "simulat",
        "The brains are computed, not measured. The figures test the software and say nothing about patients.",
    ),
)
_GENERAL = "Keep this in mind while reading the figures below."


def explain_warning(code: str) -> str:
    """Return what a warning of this code means for the reading of the report."""
    name = code.lower().replace("-", "_")
    return next((text for word, text in _EXPLANATIONS if word in name), _GENERAL)


def list_warnings(files: EvaluationFiles) -> list[tuple[str, str]]:
    """Return each warning with its explanation, in the order of the evaluation.

    An allowed overlap with pretraining is told even where the evaluation lists no warning of it.
    """
    found = []
    codes = []
    for warning in files.summary.get("warnings") or []:
        # A bare sentence is accepted too: a warning must never be lost over its form.
        code, message = (
            (str(warning.get("code", "")), str(warning.get("message", "")))
            if isinstance(warning, dict)
            else ("", str(warning))
        )
        codes.append(code)
        found.append((message or code, explain_warning(code)))
    n_overlap = files.summary.get("n_overlap") or 0
    if n_overlap and not any("overlap" in code for code in codes):
        message = f"{n_overlap} of the subjects evaluated here were also in the pretraining cohort (overlap allowed)."
        found.insert(0, (message, explain_warning("overlap")))
    return found
