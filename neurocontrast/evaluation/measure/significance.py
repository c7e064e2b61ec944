"""Test two models against each other, and a model against chance.

Two models are tested on one test set (McNemar), or over folds (Nadeau and Bengio). The test against
chance permutes labels for the whole nested procedure. Labels are exchanged between subjects of the
same site, and new random folds are made for the permuted labels: an exact test of "given the site,
labels say nothing of the features". Folds from a file, a column or a splitter are kept, and labels
are then exchanged within site and fold.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from neurocontrast.evaluation.fit.out_of_fold import OutOfFold, cross_validate
from neurocontrast.evaluation.measure.uncertainty import pooled_metrics
from neurocontrast.evaluation.metrics import DESCRIPTIVE, LOWER_IS_BETTER, finite_or_none
from neurocontrast.evaluation.plan.models import Model
from neurocontrast.evaluation.probes.fitting import FitContext
from neurocontrast.evaluation.rows import Labels, Texts
from neurocontrast.evaluation.splits import Split
from neurocontrast.evaluation.target import Target
from neurocontrast.parallel.workers import map_files
from neurocontrast.seeds import derive_generator


def mcnemar_test(hits_a: npt.ArrayLike, hits_b: npt.ArrayLike) -> float:
    """Return the exact p-value of two models having the same accuracy on one test set.

    `hits_a` and `hits_b` say for each scan whether a model's decision is right. The test of McNemar
    (1947) is about the two fitted models, not about models that another seed would have trained.

    Examples
    --------
    >>> a, b = [True] * 8 + [False] * 4, [False] * 7 + [True] * 2 + [False] * 3
    >>> round(mcnemar_test(a, b), 3)
    0.07
    """
    a = np.asarray(hits_a, dtype=bool)
    b = np.asarray(hits_b, dtype=bool)
    only_a = int((a & ~b).sum())
    only_b = int((b & ~a).sum())
    if not only_a + only_b:
        return 1.0
    return float(stats.binomtest(only_a, only_a + only_b, 0.5).pvalue)


def corrected_resampled_t(differences: npt.ArrayLike, *, n_train: float, n_test: float) -> float:
    """Return the p-value of two models being equal over (repeated) cross-validation.

    `differences` holds the difference of a metric in each fold, and `n_train` and `n_test` are mean
    numbers of scans. The test is that of Nadeau and Bengio (2003). Training folds overlap, so the
    variance is enlarged by the size of test folds relative to training folds. Equal differences in
    every fold have no spread to be tested by: 1 where all are 0, else NaN.

    Examples
    --------
    >>> round(corrected_resampled_t([0.02, 0.05, 0.01, 0.04, 0.03], n_train=80, n_test=20), 3)
    0.047
    """
    values = np.asarray(differences, dtype=float)
    n = len(values)
    if n < 2:
        raise ValueError(f"differences: two folds or more are needed, got {n}")
    mean = abs(values.mean())
    error = np.sqrt((1 / n + n_test / n_train) * values.var(ddof=1))
    if error > 1e-12 * mean:
        return float(2 * stats.t.sf(mean / error, n - 1))
    if mean == 0:
        return 1.0
    return float("nan")


def fold_p_value(differences: pd.Series, folds: pd.DataFrame) -> float | None:
    """Return the p-value of a metric's differences between two models over folds.

    `differences` has one metric's difference in each fold, in the rows of `folds`, the table
    ``folds.tsv``. The test (`corrected_resampled_t`) takes the folds for random draws of the scans.
    None is returned where a fold holds out a site, since such a fold is no random draw; for fewer
    than two folds; and where differences have no spread to be tested by.
    """
    defined = differences.astype(float).dropna()
    if len(defined) < 2 or folds["held_out_site"].notna().any():
        return None
    sizes = folds.loc[defined.index]
    n_train = sizes["n_train"].mean()
    n_test = sizes["n_test"].mean()
    return finite_or_none(corrected_resampled_t(defined, n_train=n_train, n_test=n_test))


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Return p-values adjusted for how many they are (Holm, 1979), in the same order.

    None stays None.
    """
    defined = pd.Series(np.array(p_values, dtype=float)).dropna().sort_values()
    adjusted = (defined * np.arange(len(defined), 0, -1)).clip(upper=1.0).cummax()
    in_order = list[float | None]()
    for number, p_value in enumerate(p_values):
        if p_value is None:
            in_order.append(None)
        else:
            in_order.append(float(adjusted[number]))
    return in_order


class PermutationTest(NamedTuple):
    """Result of a permutation test: observed metrics, p-values, and how labels were permuted."""

    within_fold: bool
    share_moved: float
    """Mean share of the scans that have another label after a permutation."""
    observed: dict[str, float]
    p_values: dict[str, float | None]


def permutation_test(
    model: Model,
    target: Target,
    splits: Sequence[Split],
    predictions: OutOfFold,
    context: FitContext,
    *,
    redeal: Callable[[Target, int], Sequence[Split]] | None = None,
    advance: Callable[[int], None] = lambda _: None,
) -> PermutationTest:
    """Compare a model's metrics in the first repeat with its metrics for permuted labels.

    Returned is a `PermutationTest`: observed metrics, and the p-value of each. The model is fitted
    anew in every fold for each of ``n_permutations`` permutations.

    Parameters
    ----------
    model, target, splits, predictions : Model, Target, sequence of Split, OutOfFold
        Model, the values that the model predicted in the splits, and its predictions.
    context : FitContext
        Subjects, sites and settings: labels are exchanged between subjects of the same site.
    redeal : callable, optional
        Makes new random folds for permuted labels, given the number of the permutation; with None,
        the folds are kept.
    advance : callable
        Called after each permutation with the number of folds in which the model was fitted.
    """
    first = [split for split in splits if split.repeat == 0]
    settings = context.settings
    n = settings.n_permutations
    assert context.sites is not None
    places: Sequence[str] | Texts = context.sites
    if redeal is None:
        folds_and_sites = zip(context.sites, predictions.folds[0], strict=True)
        places = [f"{site}\x1f{fold}" for site, fold in folds_and_sites]
    subjects = context.subjects
    labels = permuted_labels(target, places, subjects, n_permutations=n, seed=settings.seed)
    in_one_process = replace(context, settings=settings.model_copy(update={"n_jobs": 1}))
    tasks = []
    for number, values in enumerate(labels.T):
        permuted = replace(target, values=values)
        folds: Sequence[Split] = first
        if redeal is not None:
            folds = redeal(permuted, number)
        tasks.append((model, permuted, folds, in_one_process))
    observed = _figures(target, _first_repeat(predictions))
    as_good = dict.fromkeys(observed, 0)
    for of_permuted in map_files(
        _permuted_figures, tasks, n_workers=settings.n_jobs, option="evaluation.n_jobs"
    ):
        for name, value in observed.items():
            as_good[name] += _is_as_good(name, of_permuted[name], value)
        advance(len(first))
    p_values = _p_values(observed, as_good, n)
    share_moved = float((labels != target.values[:, None]).mean())
    return PermutationTest(redeal is None, share_moved, observed, p_values)


def _p_values(
    observed: Mapping[str, float], as_good: Mapping[str, int], n: int
) -> dict[str, float | None]:
    """Return name of a metric → p-value of the observed labels among `n` permutations.

    `as_good` counts permutations that are as good as `observed`; the observed labels count as one
    more permutation. The p-value is None where the observed metric is undefined.
    """
    p_values = dict[str, float | None]()
    for name in observed:
        p_values[name] = None
        if np.isfinite(observed[name]):
            p_values[name] = (1 + as_good[name]) / (1 + n)
    return p_values


def _first_repeat(predictions: OutOfFold) -> OutOfFold:
    """Return a model's out-of-fold predictions in the first repeat of cross-validation."""
    return replace(
        predictions,
        scores=predictions.scores[:1],
        decisions=predictions.decisions[:1],
        folds=predictions.folds[:1],
    )


def _is_as_good(metric: str, permuted: float, observed: float) -> bool:
    """Tell whether a metric of permuted labels is as good as the observed one; NaN counts as good.

    A tie counts as good, and so does a value worse by less than 1e-12, which is a rounding error.
    """
    sign = 1
    if metric in LOWER_IS_BETTER:
        sign = -1
    return not sign * permuted < sign * observed - 1e-12


def permuted_labels(
    target: Target,
    places: Sequence[str] | Texts,
    subjects: Texts,
    *,
    n_permutations: int,
    seed: int,
) -> Labels:
    """Return `n_permutations` random permutations of labels between subjects with equal `places`.

    `places` has a text for each scan: its site, or its site and fold if folds are kept. Labels are
    exchanged between subjects who have the same number of scans, at the same places. `target` holds
    the observed labels. Each column of the result (n, n_permutations) has the labels of the n scans
    in one permutation, drawn with a generator that is derived from `seed` and the column's number.
    """
    rows = pd.DataFrame({"subject": subjects.astype(str), "place": np.asarray(places).astype(str)})
    people = rows.reset_index().sort_values(["subject", "place"]).groupby("subject")
    scans = people.agg(rows=("index", list), places=("place", tuple))
    strata = [alike.tolist() for _, alike in scans["rows"].groupby(scans["places"])]
    vectors = np.tile(target.values[:, None], n_permutations)
    for number, vector in enumerate(vectors.T):
        generator = derive_generator("permutation", seed, number)
        for members in strata:
            drawn = [members[source] for source in generator.permutation(len(members))]
            vector[np.concatenate(members)] = target.values[np.concatenate(drawn)]
    return vectors


def _permuted_figures(
    model: Model, target: Target, splits: Sequence[Split], context: FitContext
) -> dict[str, float]:
    """Cross-validate a model on a target of permuted labels; return its metrics by name.

    `target` holds the labels after the permutation. A metric is of all folds' predictions together.
    """
    return _figures(target, cross_validate(model, target, splits, context))


def _figures(target: Target, model: OutOfFold) -> dict[str, float]:
    """Return name of a metric → value, from all folds' predictions of a model together.

    Metrics of which neither more nor less is better, such as the calibration slope, are left out.
    """
    names = [name for name in target.metric_names if name not in DESCRIPTIVE]
    pooled = pooled_metrics(target, model, rows=model.tested, names=names)
    return {name: float(pooled[name][0]) for name in names}
