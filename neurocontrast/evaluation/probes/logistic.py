"""Logistic regression with an L2 penalty."""

from __future__ import annotations

from sklearn.linear_model import LogisticRegression

from neurocontrast.evaluation.probes import Probe
from neurocontrast.evaluation.settings import EvaluationSettings


class Logistic(Probe):
    """Logistic regression; weaker penalties are not tried once three in a row have done worse: they take longest."""

    title = "L2-penalised logistic regression"
    citation = "Cox DR. The regression analysis of binary sequences. J R Stat Soc B 1958;20:215-242."
    numbers = False
    strength = "C"
    rotates = gives_up = True

    def estimator(self, settings: EvaluationSettings, *, continuous: bool, seed: int) -> LogisticRegression:  # noqa: ARG002
        """Return the solver of scikit-learn that is quickest to a tight optimum without a Hessian of p × p."""
        return LogisticRegression(solver="newton-cg", tol=1e-8, max_iter=1000)

    def large_estimator(self, settings: EvaluationSettings, *, continuous: bool, seed: int) -> LogisticRegression:  # noqa: ARG002
        """Return the solver that goes through the scans the least often, to the precision that single numbers have."""
        return LogisticRegression(solver="lbfgs", tol=1e-5, max_iter=1000)
