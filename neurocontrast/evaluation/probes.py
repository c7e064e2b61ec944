"""Kinds of probes: a scikit-learn estimator each, with the grid of its penalty; `PROBES` lists them by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sklearn.linear_model import LogisticRegression, Ridge

from neurocontrast.settings import Settings


@dataclass(frozen=True)
class Probe:
    """A kind of probe: its estimator, the grid of its strength, and what it can predict.

    A new kind is a line of `PROBES`. The strength is chosen on inner folds by log-loss or squared error.
    """

    title: str
    """Name in a sentence."""
    citation: str
    make: Callable[[bool, bool], Any]
    """Returns the estimator of standardised features, given whether the target is continuous, and the table large."""
    strength: str
    """Name of the value that is chosen, and of the setting with its grid."""
    parameter: str
    """Parameter of the estimator that holds the strength."""
    classes: bool = True
    numbers: bool = True
    """Whether categorical, and continuous, targets can be predicted."""
    grid: Sequence[float] | None = None
    """Strengths to choose from, the strongest penalty first. None: those of the setting."""
    descending: bool = False
    """Whether the largest value of the setting is the strongest penalty."""
    gives_up: bool = False
    """Whether the rest of the grid is left out once the score has fallen three times in a row."""
    rotates: bool = False
    """Whether predictions stay the same when features are rotated."""
    why_not_stored: str | None = None
    """Reason why a fitted probe is not written; None for a linear one, which is written as its coefficients."""

    def strengths(self, settings: Settings) -> list[float]:
        """Return the strengths to choose from, the strongest penalty first."""
        grid = getattr(settings, self.strength) if self.grid is None else self.grid
        return list(grid[::-1] if self.descending else grid)


def _logistic(continuous: bool, large: bool) -> LogisticRegression:  # noqa: ARG001
    """Return a tight optimum; of very many scans one to single precision, by the fewest passes over them."""
    solver, tolerance = ("lbfgs", 1e-5) if large else ("newton-cg", 1e-8)
    return LogisticRegression(solver=solver, tol=tolerance, max_iter=1000)


PROBES: dict[str, Probe] = {
    "logistic": Probe(
        "L2-penalised logistic regression",
        "Cox DR. The regression analysis of binary sequences. J R Stat Soc B 1958;20:215-242.",
        _logistic,
        strength="C",
        parameter="C",
        numbers=False,
        gives_up=True,
        rotates=True,
    ),
    "ridge": Probe(
        "ridge regression",
        "Hoerl AE, Kennard RW. Ridge regression. Technometrics 1970;12:55-67.",
        lambda *_: Ridge(),
        strength="alpha",
        parameter="alpha",
        classes=False,
        descending=True,
        rotates=True,
    ),
}
"""All kinds of probes, by the name that the setting ``probe`` takes."""


def default_probe(kind: str) -> Probe:
    """Return the probe of models that are not the embedding: ridge for a continuous target, else logistic."""
    return PROBES["ridge" if kind == "continuous" else "logistic"]
