"""Tests: of two models on one test set (McNemar) and over folds (Nadeau and Bengio), and against chance.

The test against chance permutes labels for the whole nested procedure. Labels are exchanged between
subjects of the same site, and folds are dealt anew for them: an exact test of "given the site,
labels say nothing of the features". Folds that were given stay, and labels then stay in their fold,
too.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from neurocontrast.evaluation.measure.uncertainty import pooled_metrics
from neurocontrast.evaluation.metrics import DESCRIPTIVE, LOWER_IS_BETTER, finite_or_none
from neurocontrast.evaluation.plan.models import Model, OutOfFold, cross_validate
from neurocontrast.evaluation.rows import Labels, Texts
from neurocontrast.evaluation.settings import EvaluationSettings
from neurocontrast.evaluation.splits import Split
from neurocontrast.evaluation.target import Target
from neurocontrast.parallel.workers import map_files
from neurocontrast.seeds import derive_generator


def mcnemar_test(hits_a: npt.ArrayLike, hits_b: npt.ArrayLike) -> float:
    """Return the p-value of two models being right about the same share of one test set (McNemar, 1947; exact).

    It is about these two fitted models, not about others that another seed would have trained.

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
    return float(stats.binomtest(only_a, only_a + only_b, 0.5).pvalue) if only_a + only_b else 1.0


def corrected_resampled_t(differences: npt.ArrayLike, *, n_train: float, n_test: float) -> float:
    """Return the p-value of two models being equal over (repeated) cross-validation (Nadeau and Bengio, 2003).

    Training folds overlap, so the variance is enlarged by the size of test folds relative to
    training folds. Equal differences in every fold have no spread to be tested by: 1 where all are
    0, else NaN.

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
    return 1.0 if mean == 0 else float("nan")


def fold_p_value(differences: pd.Series, folds: pd.DataFrame) -> float | None:
    """Return the p-value of differences over folds; None of fewer than two, and where sites are held out: no draws."""
    known = differences.astype(float).dropna()
    if len(known) < 2 or folds["held_out_site"].notna().any():
        return None
    sizes = folds.loc[known.index]
    n_train = sizes["n_train"].mean()
    n_test = sizes["n_test"].mean()
    return finite_or_none(corrected_resampled_t(known, n_train=n_train, n_test=n_test))


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Return p-values adjusted for how many there are (Holm, 1979); None stays None."""
    known = pd.Series(np.array(p_values, dtype=float)).dropna().sort_values()
    adjusted = (known * np.arange(len(known), 0, -1)).clip(upper=1.0).cummax()
    return [
        None if value is None else float(adjusted[place]) for place, value in enumerate(p_values)
    ]


class PermutationTest(NamedTuple):
    """The result of a permutation test."""

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
    *,
    sites: Texts,
    subjects: Texts,
    settings: EvaluationSettings,
    redeal: Callable[[Target, int], Sequence[Split]] | None = None,
    advance: Callable[[int], None] = lambda _: None,
) -> PermutationTest:
    """Compare the pooled metrics of the first repeat with those of permuted labels.

    `redeal` deals the folds of permuted labels by the number of the permutation; None: the folds
    stay.
    """
    first = [split for split in splits if split.repeat == 0]
    n = settings.n_permutations
    places: Sequence[str] | Texts = sites
    if redeal is None:
        folds = predictions.folds[0]
        places = [f"{site}\x1f{fold}" for site, fold in zip(sites, folds, strict=True)]
    labels = permuted_labels(target, places, subjects, n_permutations=n, seed=settings.seed)
    targets = [replace(target, values=values) for values in labels.T]
    given = {
        "subjects": subjects,
        "sites": sites,
        "settings": settings.model_copy(update={"n_jobs": 1}),
    }
    tasks = [
        (model, permuted, first if redeal is None else redeal(permuted, number), given)
        for number, permuted in enumerate(targets)
    ]
    once = replace(
        predictions,
        scores=predictions.scores[:1],
        decisions=predictions.decisions[:1],
        folds=predictions.folds[:1],
    )
    observed = _figures(target, once)
    as_good = dict.fromkeys(observed, 0)
    for found in map_files(
        _permuted_figures, tasks, n_workers=settings.n_jobs, option="evaluation.n_jobs"
    ):
        for name, value in observed.items():
            sign = -1 if name in LOWER_IS_BETTER else 1
            # Ties must count; the slack keeps rounding from breaking them.
            as_good[name] += not sign * found[name] < sign * value - 1e-12
        advance(len(first))
    p_values = {
        name: (1 + as_good[name]) / (1 + n) if np.isfinite(observed[name]) else None
        for name in observed
    }
    moved = float((labels != target.values[:, None]).mean())
    return PermutationTest(redeal is None, moved, observed, p_values)


def permuted_labels(
    target: Target,
    places: Sequence[str] | Texts,
    subjects: Texts,
    *,
    n_permutations: int,
    seed: int,
) -> Labels:
    """Return label vectors (n, permutations), exchanged between subjects with scans in the same places."""
    rows = pd.DataFrame({"subject": subjects.astype(str), "place": np.asarray(places).astype(str)})
    people = rows.reset_index().sort_values(["subject", "place"]).groupby("subject")
    own = people.agg(rows=("index", list), places=("place", tuple))
    strata = [alike.tolist() for _, alike in own["rows"].groupby(own["places"])]
    vectors = np.tile(target.values[:, None], n_permutations)
    for number, vector in enumerate(vectors.T):
        generator = derive_generator("permutation", seed, number)
        for members in strata:
            drawn = [members[source] for source in generator.permutation(len(members))]
            vector[np.concatenate(members)] = target.values[np.concatenate(drawn)]
    return vectors


def _permuted_figures(
    model: Model, target: Target, splits: Sequence[Split], given: dict[str, Any]
) -> dict[str, float]:
    return _figures(target, cross_validate(model, target, splits, **given))


def _figures(target: Target, model: OutOfFold) -> dict[str, float]:
    """Return the pooled metrics that have a better direction."""
    names = [name for name in target.metric_names if name not in DESCRIPTIVE]
    found = pooled_metrics(target, model, rows=model.tested, names=names)
    return {name: float(found[name][0]) for name in names}
