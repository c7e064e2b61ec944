"""The permutation test of an evaluation, as a reader needs it: k, n, and what was permuted."""

from __future__ import annotations

from dataclasses import dataclass

from neurocontrast.reporting.folder import EvaluationFiles

__all__ = ["PermutationResult", "permutation_result"]


@dataclass(frozen=True)
class PermutationResult:
    """A permutation test of one metric.

    Attributes
    ----------
    p_value : float
        (1 + k)/(1 + n).
    k, n : int
        Permutations at least as good as the observed value, and all of them.
    unit : str
        What labels were exchanged between.
    within_site : bool
        Whether only between those of the same site.
    within_fold : bool or None
        Whether only between those of the same fold too, folds held; False: folds were dealt anew; None:
        not recorded.
    observed : float or None
        The value that was compared; None where not recorded.
    """

    p_value: float
    k: int
    n: int
    unit: str
    within_site: bool
    within_fold: bool | None
    observed: float | None


def permutation_result(files: EvaluationFiles, metric: str) -> PermutationResult | None:
    """Return the permutation test of a metric; None where there was none."""
    permutation = files.summary.get("permutation") or {}
    p_value = (permutation.get("p_values") or {}).get(metric)
    n = permutation.get("n")
    if not isinstance(p_value, int | float) or not isinstance(n, int) or n < 1:
        return None
    within_fold = permutation.get("within_fold")
    observed = (permutation.get("observed") or {}).get(metric)
    return PermutationResult(
        p_value=p_value,
        k=round(p_value * (1 + n)) - 1,
        n=n,
        unit=str(permutation.get("unit") or "subject"),
        within_site=bool(permutation.get("within_site")),
        within_fold=within_fold if isinstance(within_fold, bool) else None,
        observed=float(observed) if isinstance(observed, int | float) else None,
    )
