"""The methods paragraph, generated from the run, and what the report leaves unsaid."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.metrics import describe_metric
from neurocontrast.reporting.naming import (
    capitalise,
    covariates_text,
    encoder_text,
    join_words,
    objective_text,
    probe_text,
    value_text,
)

__all__ = ["list_silences", "write_methods"]


def write_methods(files: EvaluationFiles) -> list[str]:
    """Return the paragraphs of a methods section, saying only what the files record."""
    paragraphs = [_images(files), _pretraining(files), _evaluation(files), _uncertainty(files)]
    return [text for text in paragraphs if text]


def _run(files: EvaluationFiles) -> Mapping[str, Any]:
    run = files.summary.get("run")
    return run if isinstance(run, Mapping) else {}


def _images(files: EvaluationFiles) -> str:
    n = files.summary.get("n") or {}
    text = "The data are simulated. " if files.simulated else ""
    text += f"{n.get('scans', 'An unrecorded number of')} scans of {n.get('subjects', 'unrecorded')} subjects"
    text += f" at {n.get('sites', 'unrecorded')} sites were evaluated."
    preprocessing = _run(files).get("preprocessing")
    if isinstance(preprocessing, Mapping):
        text += " " + _preprocessing(preprocessing)
    return text


def _preprocessing(contract: Mapping[str, Any]) -> str:
    parts = []
    if contract.get("orientation"):
        parts.append(f"reoriented to {contract['orientation']}")
    if contract.get("spacing_mm"):
        parts.append(f"resampled to {value_text(contract['spacing_mm'])} mm")
    if contract.get("shape"):
        parts.append("cropped or padded to " + " × ".join(str(size) for size in contract["shape"]) + " voxels")
    how = {
        "zscore": "standardised over the whole volume",
        "zscore-brain": "standardised over the voxels of the brain",
        "none": "left at their intensities",
    }
    if contract.get("normalise"):
        parts.append(how.get(str(contract["normalise"]), f"normalised by {contract['normalise']}"))
    return f"Volumes were {join_words(parts)}." if parts else ""


def _pretraining(files: EvaluationFiles) -> str:
    objective = files.summary.get("objective")
    if not isinstance(objective, Mapping) or not objective.get("loss"):
        return "How the encoder was pretrained is not recorded in the embeddings."
    text = f"An encoder ({encoder_text(files)}) was pretrained by contrastive learning with {objective_text(objective)}"
    if objective.get("temperature") is not None:
        text += f", at temperature {value_text(objective['temperature'])}"
    run = _run(files)
    text += f", for {run['epochs']} epochs" if run.get("epochs") else ""
    text += f" on {run['n_training_scans']} scans" if run.get("n_training_scans") else ""
    text += (
        ". Two random views of each scan were compared; features are taken before the projection head and were frozen."
    )
    if run.get("batchnorm"):
        text += " Batch normalisation statistics were re-estimated on un-augmented training scans."
    return text


def _evaluation(files: EvaluationFiles) -> str:
    s = files.summary
    chosen = "its penalty" if files.kind == "continuous" else "its inverse penalty C"
    text = (
        f"{capitalise(files.target)} was predicted from the standardised features by L2-penalised "
        f"{probe_text(files)}, {chosen} chosen by cross-validation inside each training fold. "
    )
    if s["splits"] == "leave-site-out":
        text += (
            f"Each site was left out once and predicted by a model fitted on all others ({s.get('n_folds', '?')} folds)"
        )
    else:
        text += f"Cross-validation used {s.get('n_folds', '?')} folds stratified by target and site"
        text += f", repeated {s['n_repeats']} times" if (s.get("n_repeats") or 1) > 1 else ""
    text += "; all sessions of a subject were kept in the same fold."
    if s.get("allow_overlap") and s.get("n_overlap"):
        text += f" {s['n_overlap']} of the subjects had also been in the pretraining cohort."
    elif any("overlap_unknown" in str(warning) for warning in s.get("warnings") or []):
        text += " Whether a subject had been in the pretraining cohort could not be checked."
    elif _run(files) and s.get("n_overlap") == 0:
        text += " No evaluated subject had been in the pretraining cohort."
    if files.baseline:
        text += f" A baseline of the same form used {covariates_text(files)} only, in the same folds."
    return text


def _uncertainty(files: EvaluationFiles) -> str:
    names = join_words([describe_metric(key).label.lower().replace("roc", "ROC") for key in files.metrics])
    text = f"We report {names.replace('(r²)', '(R²)')}." if names else ""
    bootstrap = files.summary.get("bootstrap") or {}
    if bootstrap.get("n"):
        text += (
            f" Intervals hold the central {float(bootstrap.get('level') or 0.95):.0%}"
            f" of {bootstrap['n']:,} bootstrap draws of {bootstrap.get('unit', 'subject')}s from the "
            "pooled out-of-fold predictions, with models held fixed."
        )
    seed = files.summary.get("seed")
    version = (files.summary.get("environment") or {}).get("neurocontrast")
    text += f" Seed {seed}." if seed is not None else ""
    return text + (f" Analyses were run with neurocontrast {version}." if version else "")


def list_silences(files: EvaluationFiles) -> list[tuple[str, str]]:
    """Return what this report does not say, so that nobody reads it in."""
    items = [
        (
            "Not a diagnosis.",
            "The figures describe groups. They do not say how sure one may be about one person, nor what it costs to "
            "be wrong.",
        ),
        (
            "Not other scanners.",
            "Cross-validation over mixed sites tells about these sites; only sites left out tell about new ones."
            if files.summary["splits"] != "leave-site-out"
            else "Each site was left out in turn, but all belong to this collection; a new hospital may differ more.",
        ),
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
        ("Not where in the brain.", "No map of the regions that carry the prediction is part of this report."),
    ]
    if files.kind != "continuous":
        items.append(
            (
                "Not calibration.",
                "That a score of 0.8 means 8 of 10 is not shown here; the threshold 0.5 was not chosen for any use.",
            )
        )
    if len(files.metrics) > 1:
        items.append(
            ("No correction for many looks.", "Intervals of several metrics and sites are each read by itself.")
        )
    return items
