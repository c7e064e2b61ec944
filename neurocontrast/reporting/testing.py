"""The permutation test of an evaluation, as a reader needs it: k, n, and what was permuted."""

from __future__ import annotations

from dataclasses import dataclass

from neurocontrast.reporting.folder import EvaluationFiles


@dataclass(frozen=True)
class PermutationResult:
    """A permutation test of one metric: ``p_value = (1 + k)/(1 + n)``, and between whom labels were exchanged."""

    p_value: float
    k: int
    n: int
    unit: str
    within_site: bool
    within_fold: bool
    observed: float | None


def permutation_result(files: EvaluationFiles, metric: str) -> PermutationResult | None:
    """Return the permutation test of a metric; None where there was none."""
    test = files.summary.permutation
    p_value = test.p_values.get(metric) if test else None
    if test is None or p_value is None or not test.n:
        return None
    k = round(p_value * (1 + test.n)) - 1
    within = (bool(test.within_site), bool(test.within_fold))
    return PermutationResult(p_value, k, test.n, test.unit or "subject", *within, test.observed.get(metric))
