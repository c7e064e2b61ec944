"""Could the result be chance? The whole nested procedure, repeated on labels permuted within site."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from neurocontrast.evaluation.crossval import cross_validate
from neurocontrast.evaluation.metrics import DESCRIPTIVE, LOWER_IS_BETTER
from neurocontrast.evaluation.probes import Design
from neurocontrast.evaluation.settings import EvaluationSettings
from neurocontrast.evaluation.splits import Split
from neurocontrast.evaluation.target import Target
from neurocontrast.evaluation.uncertainty import pooled_metrics
from neurocontrast.seeds import derive_generator

__all__ = ["permutation_p_values", "permute_within_site"]


def permutation_p_values(
    design: Design,
    target: Target,
    make_splits: Callable[[Target, int], Sequence[Split]],
    *,
    sites: Sequence[str | None],
    subjects: npt.NDArray[np.object_],
    settings: EvaluationSettings,
    observed: Mapping[str, float],
    advance: Callable[[], None] = lambda: None,
) -> dict[str, float | None]:
    """Return, for each pooled metric, the share of permutations that do at least as well.

    The p-value is (1 + number at least as good) / (1 + number of permutations), so it is never
    0; permutations that leave a metric undefined count as good. Every permutation makes its
    folds, chooses its penalties and fits its probes anew. A metric that is not defined on the
    true labels has None; one that has no better or worse (calibration) is left out.

    Parameters
    ----------
    make_splits : callable
        Gives the folds of a target and the number of the permutation.
    observed : mapping of str to float
        Pooled metrics on the true labels.
    """
    observed = {name: value for name, value in observed.items() if name not in DESCRIPTIVE}
    as_good = dict.fromkeys(observed, 0)
    for permutation in range(settings.n_permutations):
        generator = derive_generator("permutation", settings.seed, permutation)
        permuted = permute_within_site(target, sites, subjects, generator)
        splits = make_splits(permuted, permutation)
        model = cross_validate(design, permuted, splits, subjects=subjects, settings=settings)
        found = pooled_metrics(permuted, model, rows=model.tested, names=observed)
        for name, value in observed.items():
            sign = -1 if name in LOWER_IS_BETTER else 1
            # Ties must count; the slack keeps rounding from breaking them.
            as_good[name] += not sign * found[name][0] < sign * value - 1e-12
        advance()
    n = settings.n_permutations
    return {name: (1 + as_good[name]) / (1 + n) if np.isfinite(observed[name]) else None for name in observed}


def permute_within_site(
    target: Target, sites: Sequence[str | None], subjects: npt.NDArray[np.object_], generator: np.random.Generator
) -> Target:
    """Exchange labels between subjects of the same site, so that what the site says of the label stays.

    A subject's labels move together; where subjects have several scans, they are exchanged among
    those with equally many (at the same sites).
    """
    rows_of: dict[str, list[int]] = {}
    for row, subject in enumerate(subjects):
        rows_of.setdefault(str(subject), []).append(row)
    strata: dict[tuple[str, ...], list[list[int]]] = {}
    for subject in sorted(rows_of):
        rows = sorted(rows_of[subject], key=lambda row: str(sites[row]))
        strata.setdefault(tuple(str(sites[row]) for row in rows), []).append(rows)
    values = target.values.copy()
    for places in sorted(strata):
        members = strata[places]
        for rows, source in zip(members, generator.permutation(len(members)), strict=True):
            values[rows] = target.values[members[source]]
    return Target(target.name, target.kind, values, target.classes, target.positive)
