"""What the report leaves unsaid, spelled out so that nobody reads it in."""

from __future__ import annotations

from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.naming import covariates_text

__all__ = ["list_silences"]


def list_silences(files: EvaluationFiles) -> list[tuple[str, str]]:
    """Return what this report does not say."""
    items = [
        (
            "Not a diagnosis.",
            "The figures describe groups. They do not say how sure one may be about one person, nor what it costs to "
            "be wrong.",
        ),
        ("Not other scanners.", _scanners(files)),
        (
            "Not the cause.",
            "Whatever differs between the groups can carry the result: medication, motion, the scanner, how people "
            f"were recruited. The baseline covers {covariates_text(files)} and nothing else.",
        ),
        (
            "Not the whole uncertainty.",
            "Intervals come from resampling the predictions. They leave out what another pretraining seed, other folds "
            "or other preprocessing would change.",
        ),
    ]
    if files.explanation is None:
        items.append(
            ("Not where in the brain.", "No map of the regions that carry the prediction is part of this report.")
        )
    else:
        items.append(
            ("Not the seat of an illness.", "The map shows what the model used. Scanner and motion have regions too.")
        )
    if files.kind != "continuous" and files.calibration is None:
        items.append(("Not calibration.", "That a score of 0.8 means 8 of 10 is not shown here."))
    if files.kind != "continuous":
        items.append(("Not a decision.", "No threshold here was weighed against what a wrong decision would cost."))
    if not files.summary.get("permutation"):
        items.append(
            ("Not a test against chance.", "No permutation test was made (--set evaluation.n_permutations=…).")
        )
    if len(files.metrics) > 1:
        items.append(
            ("No correction for many looks.", "Intervals of several metrics, sites and groups are each read by itself.")
        )
    return items


def _scanners(files: EvaluationFiles) -> str:
    if files.summary.get("external"):
        return "The external test set is one more collection; the next hospital may differ more."
    if files.summary["splits"] == "leave-site-out" or files.summary.get("new_site"):
        return "Each site was left out in turn, but all belong to this collection; a new hospital may differ more."
    return "Cross-validation over mixed sites tells about these sites; only sites left out tell about new ones."
