"""Fit the probe of ``probe.json`` to all scans of a plan; nothing is written here.

If a run has several encoders (members), an estimator is fitted to the features of each encoder, and
all are joined in one `FittedProbe`, whose predictions are averaged.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from neurocontrast.evaluation.fit.distribution import TrainingDistribution
from neurocontrast.evaluation.fit.stored_probe import FittedProbe
from neurocontrast.evaluation.plan.plan import Plan
from neurocontrast.evaluation.probes.designs import FeatureDesign
from neurocontrast.evaluation.probes.estimators import FittedModel
from neurocontrast.evaluation.probes.fitting import Prediction, average_members, fit_probe
from neurocontrast.evaluation.probes.members import designs_of
from neurocontrast.evaluation.splits import Split
from neurocontrast.evaluation.splits.inner import Pairs
from neurocontrast.provenance import CONTENT, KnownPeople


def fit_on_all(
    plan: Plan,
    *,
    encoder: str | None,
    distribution: TrainingDistribution | None = None,
    weight: float | None = None,
    chosen: Sequence[Prediction] = (),
    pairs: Sequence[Pairs] = (),
) -> tuple[Prediction, FittedProbe | None]:
    """Fit the embedding's probe to all scans of a plan, with a penalty chosen on inner folds.

    "All scans" are the rows `Plan.fitted_rows`. Return the probe's predictions of the same scans,
    and the probe as it is written to a file. The second is None where `Plan.why_not_stored` has a
    reason, or where all scans are of one class.

    `encoder` is the encoder's digest, and `distribution` is that of the training scans' features:
    both are kept in the probe. For encoders that return principal components after the network's
    features, `weight` is the share of the network's features in the total variance; with None, the
    share is chosen with the penalty. `chosen` holds predictions by earlier fits, one for each
    encoder of a run, whose penalty and share are used again. `pairs` replace the inner folds: for
    each encoder, the rows to fit, and the rows to try penalties and shares on.
    """
    rows = plan.fitted_rows
    on_all = Split(0, 0, rows, rows, validation=plan.splits[0].validation)
    designs = designs_of(plan.design())
    predictions = []
    models = []
    for number, of_member in enumerate(designs):
        assert isinstance(of_member, FeatureDesign)
        settings = plan.settings
        if chosen:
            # The grids hold what was chosen, so that the probe is stored as it was evaluated.
            strength = (chosen[number].strength,)
            settings = settings.model_copy(update={"C": strength, "alpha": strength})
            weight = chosen[number].weight
        of_pairs = None
        if pairs:
            of_pairs = pairs[number]
        predicted, model = fit_probe(
            replace(of_member, weight=weight),
            plan.target,
            on_all,
            replace(plan.context, settings=settings, seed=plan.final_seed),
            estimator=plan.estimator,
            pairs=of_pairs,
        )
        predictions.append(predicted)
        if model is not None:
            models.append(model)
    predicted = predictions[0]
    if plan.members:
        predicted = average_members(predictions, plan.target, rows, plan.settings)
    if plan.why_not_stored is not None or len(models) < len(designs):
        return predicted, None
    return predicted, _as_stored(plan, predicted, models, encoder, distribution)


def _as_stored(
    plan: Plan,
    predicted: Prediction,
    models: Sequence[FittedModel],
    encoder: str | None,
    distribution: TrainingDistribution | None,
) -> FittedProbe:
    """Return the probe for ``probe.json``, joined of the `models` fitted to all scans.

    `models` has one fitted estimator for each encoder of a run, or a single one. `predicted` is the
    probe's prediction of the scans that it was fitted to. Copied from `predicted` into the probe
    are the strength of the penalty, the threshold of a positive decision, and, for an encoder that
    returns principal components after the network's features, the share of the network's features
    in the total variance. `encoder` is the encoder's digest, and `distribution` is that of the
    training scans' features; either may be None.
    """
    target = plan.target
    rows = plan.fitted_rows
    n_classes = len(target.classes)
    means = []
    scales = []
    coefficients = []
    intercepts = []
    for model in models:
        assert model.scaler is not None  # as that of every built-in probe
        of_model = np.atleast_2d(model.estimator.coef_).T
        if model.axes is not None:
            of_model = model.axes @ of_model
        # A block with weight 0 is infinitely far away: files hold finite numbers that say the same.
        is_read = np.isfinite(model.scaler.scale_)
        means.append(model.scaler.mean_)
        scales.append(np.where(is_read, model.scaler.scale_, 1.0))
        coefficients.append(np.where(is_read[:, None], of_model, 0.0))
        intercepts.append(np.atleast_1d(model.estimator.intercept_))
    threshold: float | str = plan.settings.threshold
    if predicted.threshold is not None:
        threshold = predicted.threshold
    intercept = intercepts[0]
    if plan.members:
        intercept = np.stack(intercepts)
    people = KnownPeople.of_rows(plan.subjects[rows], plan.table[CONTENT].iloc[rows])
    shares = np.zeros(0)
    if n_classes:
        shares = np.bincount(target.values[rows], minlength=n_classes) / len(rows)
    return FittedProbe(
        name=str(plan.probe.name),
        target=target.name,
        kind=target.kind,
        classes=target.classes,
        strength=predicted.strength,
        threshold=threshold,
        shares=shares,
        encoder=encoder,
        trained_on=people.subjects or frozenset(),
        trained_contents=people.contents,
        contents_complete=people.is_complete,
        n_scans=len(rows),
        distribution=distribution,
        blocks=plan.blocks,
        members=plan.members,
        mean=np.concatenate(means),
        scale=np.concatenate(scales),
        coefficients=np.concatenate(coefficients),
        weight=predicted.weight,
        intercept=intercept,
    )
