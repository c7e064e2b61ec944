"""Fit the models of a plan in every fold, and the embedding's probe once more to all scans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from neurocontrast.evaluation.fit.distribution import Reference, training_reference
from neurocontrast.evaluation.fit.final_probe import fit_on_all
from neurocontrast.evaluation.fit.out_of_fold import OutOfFold, Predictions, cross_validate
from neurocontrast.evaluation.fit.stored_probe import FittedProbe
from neurocontrast.evaluation.plan.plan import Plan
from neurocontrast.evaluation.probes.fitting import Prediction
from neurocontrast.progress import SILENT, Progress


@dataclass(frozen=True)
class Fits:
    """Out-of-fold predictions of a plan's models, and the embedding's probe fitted to all scans."""

    predictions: Predictions
    """Out-of-fold predictions of each model, by its name."""
    reference: Reference | str | None
    """Distribution of the scans that the probe was fitted on, the reason as text why it could not
    be learned, or None with ``outlyingness=false``."""
    probe: FittedProbe | None
    """Probe of the embedding, fitted to all scans; None where the estimator cannot be stored."""


def fit(plan: Plan, progress: Progress = SILENT) -> Fits:
    """Return out-of-fold predictions of a plan's models, and the embedding's probe of all scans.

    Every model is fitted in every split. The embedding's probe is fitted once more, to all scans;
    the caller writes ``probe.json``.
    """
    predictions = predict_out_of_fold(plan, progress)
    reference = training_reference(plan)
    probe = _fit_final(plan, predictions["embedding"], reference)
    return Fits(predictions, reference, probe)


def predict_out_of_fold(plan: Plan, progress: Progress = SILENT) -> Predictions:
    """Return each model's predictions of the test scans of a plan's splits, by the model's name."""
    n_fits = len(plan.models) * len(plan.splits)
    predictions = {}
    with progress.task("Fitting models", n_fits, "fold") as task:
        for model in plan.models:
            predictions[model.name] = cross_validate(
                model, plan.target, plan.splits, plan.context, advance=task.advance
            )
    return predictions


def _fit_final(
    plan: Plan, embedding: OutOfFold, reference: Reference | str | None
) -> FittedProbe | None:
    """Return the embedding's probe fitted to all scans; None if `Plan.why_not_stored` has a reason.

    The probe is for ``probe.json``, which the caller writes. `embedding` holds the out-of-fold
    predictions of the embedding's model. If a column names train and test rows, there is one split,
    and the penalty is not chosen anew: the penalty, and the share of the network's features (as
    opposed to principal components) in the total variance, are the ones chosen for the predictions
    in `embedding`. If `reference` is a `Reference`, its distribution of the training scans is kept
    in the probe.
    """
    if plan.why_not_stored is not None:
        return None
    distribution = None
    if isinstance(reference, Reference):
        distribution = reference.distribution
    chosen: Sequence[Prediction] = ()
    if plan.fixed:
        chosen = embedding.fits[0].members or (embedding.fits[0],)
    encoder = plan.info.encoder_digest
    return fit_on_all(plan, encoder=encoder, distribution=distribution, chosen=chosen)[1]
