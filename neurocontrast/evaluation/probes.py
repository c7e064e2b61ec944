"""The built-in probes: a linear scikit-learn estimator each, with the grid of its penalty."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sklearn.linear_model import LogisticRegression, Ridge

from neurocontrast.settings import Settings


@dataclass(frozen=True)
class Probe:
    """A linear estimator of standardised features, whose penalty is chosen by log-loss or squared error."""

    title: str
    """Name in a sentence."""
    citation: str
    make: Callable[[bool], Any]
    """Returns the estimator, given whether the table is large."""
    strength: str
    """Parameter that is chosen, and setting with its grid."""
    continuous: bool = False
    """Whether numbers are predicted, not classes."""
    descending: bool = False
    """Whether the largest value is the strongest penalty."""
    gives_up: bool = False
    """Whether the rest of the grid is left out once the score has fallen three times in a row."""

    def strengths(self, settings: Settings) -> list[float]:
        """Return the strengths to choose from, the strongest penalty first."""
        grid = getattr(settings, self.strength)
        return list(grid[::-1] if self.descending else grid)


def _logistic(large: bool) -> LogisticRegression:
    """Return a tight optimum; of very many scans one to single precision, by the fewest passes over them."""
    solver, tolerance = ("lbfgs", 1e-5) if large else ("newton-cg", 1e-8)
    return LogisticRegression(solver=solver, tol=tolerance, max_iter=1000)


PROBES: dict[str, Probe] = {
    "logistic": Probe(
        "L2-penalised logistic regression",
        "Cox DR. The regression analysis of binary sequences. J R Stat Soc B 1958;20:215-242.",
        _logistic,
        strength="C",
        gives_up=True,
    ),
    "ridge": Probe(
        "ridge regression",
        "Hoerl AE, Kennard RW. Ridge regression. Technometrics 1970;12:55-67.",
        lambda _: Ridge(),
        strength="alpha",
        continuous=True,
        descending=True,
    ),
}
"""The built-in probes, by the name that the setting ``probe`` takes."""


def default_probe(kind: str) -> Probe:
    """Return the probe of models that are not the embedding: ridge for a continuous target, else logistic."""
    return PROBES["ridge" if kind == "continuous" else "logistic"]
