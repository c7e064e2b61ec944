"""What a report of images leaves unsaid, spelled out so that nobody reads it in."""

from __future__ import annotations

from neurocontrast.reporting.folder import EvaluationFiles

__all__ = ["list_silences"]


def list_silences(files: EvaluationFiles) -> list[tuple[str, str]]:
    """Return what this report does not say."""
    items = [
        (
            "Not another seed.",
            "Intervals come from resampling the tested images, with encoder and probe held fixed. Another seed of "
            "pretraining can move the result by more: pretrain several times before calling one objective better.",
        ),
        (
            "Not other images.",
            "The test images come from the same source as those of training. Other cameras, styles or corruptions "
            "are not tested here.",
        ),
        (
            "Not fine-tuning.",
            "The encoder is frozen. Which objective is better after fine-tuning is another question.",
        ),
        (
            "Not the labels' own errors.",
            "Labels are taken as true; test sets in common use hold wrong ones, which bound every accuracy.",
        ),
    ]
    if not files.summary.get("sensitive"):
        text = "No sensitive variable was named (evaluation.sensitive), so nothing is said about what else is encoded."
        items.append(("Not fairness.", text))
    else:
        text = "Only a linear probe looked for the sensitive variable; one that is not linear may find more."
        items.append(("Not all of fairness.", text))
    left = _not_shown(files)
    if left:
        items.append(("Not everything that was measured.", left))
    return items


def _not_shown(files: EvaluationFiles) -> str:
    """Name what the evaluation holds and a report of images leaves to the tables."""
    there = [
        name
        for name, found in (
            ("new_sites.tsv", files.new_sites),
            ("groups.tsv", files.groups),
            ("confounds.tsv", files.confounds),
            ("outlyingness.tsv", files.outlyingness),
            ("calibration.tsv", files.calibration),
            ("external_predictions.tsv", files.external_predictions),
        )
        if found is not None
    ]
    return f"The evaluation folder also holds {', '.join(there)}, which this page does not draw." if there else ""
