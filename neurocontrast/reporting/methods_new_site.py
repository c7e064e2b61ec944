"""The methods text about sites left out and scans that lie outside."""

from __future__ import annotations

from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.metrics import describe_metric
from neurocontrast.reporting.naming import join_words
from neurocontrast.reporting.new_sites import CONSTANT, is_error, new_site_metric, new_site_metrics, recentred
from neurocontrast.reporting.outlyingness import SCORES, count_outside
from neurocontrast.reporting.references import Citations

__all__ = ["write_new_site", "write_outlyingness"]

_SCORES = {
    "mahalanobis_percentile": ("Mahalanobis distance from the mean of the reference", "mahalanobis"),
    "knn_percentile": ("distance to its nearest neighbours in the reference", "neighbours"),
}


def write_new_site(files: EvaluationFiles, cite: Citations) -> str:
    """Return how sites were left out, and what recentring was; nothing where none was left out."""
    if not files.summary.get("new_site") or new_site_metric(files) is None:
        return ""
    text = (
        "To estimate what happens at a site that was not trained on, each site was left out in turn (internal–external "
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
    table = files.outlyingness
    known = [name for name in SCORES if table is None or name in table]
    scores = [f"its {_SCORES[name][0]} {cite(_SCORES[name][1])}" for name in known]
    text = (
        f"How far each scan lies from the distribution of the reference ({counted.reference}) was measured in the "
        f"features by {join_words(scores)}. Each distance is given as the percentile where it falls among scans of the "
        f"reference that had no part in shaping it, as a conformal p-value does {cite('conformal')}."
    )
    if counted.threshold is not None:
        text += f" From the {counted.threshold:g}th percentile of either on, a scan is called outside."
    return text
