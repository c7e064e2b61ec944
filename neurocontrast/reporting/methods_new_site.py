"""The methods text about sites left out and scans that lie outside."""

from __future__ import annotations

from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.metrics import describe_metric
from neurocontrast.reporting.naming import join_words
from neurocontrast.reporting.new_sites import CONSTANT, is_error, new_site_metric, new_site_metrics, recentred
from neurocontrast.reporting.outlyingness import count_outside
from neurocontrast.reporting.references import Citations

__all__ = ["write_new_site", "write_outlyingness"]


def write_new_site(files: EvaluationFiles, cite: Citations) -> str:
    """Return how sites were left out, and what recentring was; nothing where none was left out."""
    if not files.summary.get("new_site") or new_site_metric(files) is None:
        return ""
    design = str((files.summary.get("new_site") or {}).get("design") or "leave-one-site-out")
    turn = "each site was left out in turn" if design == "leave-one-site-out" else f"sites were left out ({design})"
    text = (
        f"To estimate what happens at a site that was not trained on, {turn} (internal–external "
        f"cross-validation {cite('internal_external')}): everything that is fitted after the encoder, from "
        "standardisation to the choice of the penalty, used the other sites only. "
    )
    text += (
        "These predictions are set beside those of the main cross-validation for the same people, where other people "
        f"of their site were trained on, and beside a constant guess, {CONSTANT[files.kind]}."
    )
    errors = [describe_metric(key).name for key in new_site_metrics(files) if is_error(key)]
    if errors:
        text += f" The ratio of unseen to known is given for {join_words(errors)}, with a paired bootstrap interval."
    if recentred(files):
        text += (
            " In a second, transductive analysis each site's own mean was taken out of its features, for the left-out "
            "site the mean of its unlabelled scans; it is in the spirit of adapting a network's normalisation to an "
            f"unlabelled domain {cite('recentring')}."
        )
    return text


def write_outlyingness(files: EvaluationFiles, cite: Citations) -> str:
    """Return how scans outside were found; nothing where they were not looked for."""
    counted = count_outside(files)
    if counted is None:
        return ""
    block = files.summary.get("outlyingness") or {}
    text = f"How far each scan lies from {counted.reference} was measured by its Mahalanobis distance"
    if "Ledoit" in str(block.get("covariance")):
        text += (
            f" to the nearest of their sites {cite('mahalanobis')}, with the covariance pooled within sites, along "
            f"principal axes, and shrunk by the rule of Ledoit and Wolf {cite('shrinkage')}"
        )
    else:
        text += f" {cite('mahalanobis')}"
    if block.get("k"):
        text += f"; beside it, by the mean distance to its {block['k']} nearest neighbours {cite('neighbours')}"
    text += (
        ". Distances are given as percentiles among those of the reference, each measured without its own subject, as "
        f"conformal p-values are {cite('conformal')}."
    )
    if counted.threshold is not None:
        text += f" Beyond percentile {counted.threshold:g} of the Mahalanobis distance a scan is called outside."
    if counted.unseen:
        text += " Where sites were left out, each scan was also measured from the scans of the other sites alone."
    return text
