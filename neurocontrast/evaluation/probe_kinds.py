"""The built-in probes: scikit-learn estimators, linear or of a kernel, with a grid of penalties."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sklearn.linear_model import LogisticRegression, Ridge

from neurocontrast.settings import Settings


@dataclass(frozen=True)
class Probe:
    """Built-in estimator that predicts a target from standardised features, with a penalty.

    The penalty is chosen from a grid by log-loss or squared error on inner folds. With `widths` the
    estimator is fitted to features expanded by a Gaussian kernel, whose width is chosen by the same
    loss.
    """

    title: str
    """Name of the probe in a sentence of the report."""
    citation: str
    make: Callable[[bool], Any]
    """Function that returns the estimator, given whether the table is large."""
    strength: str
    """Name of the estimator's penalty, and of the setting with the grid of penalties."""
    continuous: bool = False
    """Whether numbers are predicted, not classes."""
    descending: bool = False
    """Whether the largest value of the setting `strength` is the strongest penalty."""
    gives_up: bool = False
    """Whether the rest of the grid is left out once the score has fallen three times in a row."""
    name: str = ""
    """Name in ``evaluation.json`` of a probe that the setting ``probe`` cannot name."""
    widths: tuple[float, ...] = ()
    """Factors to try of the kernel exp(−factor · d²/v); d is a distance, v the total variance."""

    def strengths(self, settings: Settings) -> list[float]:
        """Return the values of the penalty to choose from, the strongest penalty first."""
        grid = list(getattr(settings, self.strength))
        if self.descending:
            grid.reverse()
        return grid


def _logistic(large: bool) -> LogisticRegression:
    """Return a logistic regression, not yet fitted, with a tight tolerance of the optimum.

    If the table is `large`, the tolerance suits single precision.
    """
    if large:
        return LogisticRegression(solver="lbfgs", tol=1e-5, max_iter=1000)
    return LogisticRegression(solver="newton-cg", tol=1e-8, max_iter=1000)


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


WIDTHS = (0.1, 0.3, 1.0)
"""Values to try of the factor in `Probe.widths`.

1 is scikit-learn's ``gamma="scale"``; the nearer to 0, the more linear the fitted model.
"""
N_LANDMARKS = 400
"""Most training scans that a kernel compares with; with more scans, this number is drawn
(Nyström)."""
NYSTROM = (
    "Williams CKI, Seeger M. Using the Nyström method to speed up kernel machines. "
    "Adv Neural Inf Process Syst 2001;13:682-688."
)

_KERNEL_LOGISTIC = Probe(
    "kernel logistic regression",
    "Zhu J, Hastie T. Kernel logistic regression and the import vector machine. "
    "J Comput Graph Stat 2005;14:185-205.",
    lambda _: _logistic(large=True),
    strength="C",
    gives_up=True,
    name="kernel-logistic",
    widths=WIDTHS,
)
_KERNEL_RIDGE = Probe(
    "kernel ridge regression",
    "Saunders C, Gammerman A, Vovk V. Ridge regression learning algorithm in dual variables. "
    "Proc Int Conf Mach Learn 1998;515-521.",
    lambda _: Ridge(),
    strength="alpha",
    continuous=True,
    descending=True,
    gives_up=True,
    name="kernel-ridge",
    widths=WIDTHS,
)


def kernel_probe(kind: str) -> Probe:
    """Return the probe with a Gaussian kernel for a kind of target.

    It is kernel ridge regression for ``continuous``, and kernel logistic regression for classes.
    """
    if kind == "continuous":
        return _KERNEL_RIDGE
    return _KERNEL_LOGISTIC
