"""The built-in probes: scikit-learn's estimators, their strength chosen on inner folds by `GridSearchCV`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit
from sklearn import config_context
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV, _TemperatureScaling
from sklearn.compose import TransformedTargetRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, ParameterGrid
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC, LinearSVR

from neurocontrast.evaluation.features import FoldFeatures, PrincipalAxes
from neurocontrast.evaluation.linear import N_RISES, log_losses
from neurocontrast.evaluation.probes import Design, Pairs
from neurocontrast.evaluation.settings import EvaluationSettings
from neurocontrast.evaluation.sgd import MomentumSGDClassifier

__all__ = [
    "STRENGTH_NAMES",
    "FittedModel",
    "PathSearchCV",
    "SmoothedNeighbours",
    "built_in_features",
    "describe_built_in",
    "fit_built_in",
    "inner_scores",
    "tempered",
]

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]
Positions = list[tuple[Rows, Rows]]

STRENGTH_NAMES = {"logistic": "C", "ridge": "alpha", "svm": "C", "knn": "k", "sgd": "learning_rate"}
"""What each kind calls the value that is chosen on inner folds."""
_PARAMETERS = {"knn": "n_neighbors"}
EPSILON = 0.1
"""Errors of a support vector regression below this many standard deviations of the target cost nothing."""


class SmoothedNeighbours(KNeighborsClassifier):
    """Classify by nearest neighbours whose shares are never 0 or 1.

    Probabilities are (k · share of the neighbours + share of the training rows) / (k + 1), as if one neighbour more had
    the classes of the training rows; so a log-loss is finite. All else is `sklearn.neighbors.KNeighborsClassifier`.

    Examples
    --------
    >>> model = SmoothedNeighbours(n_neighbors=1).fit([[0.0], [1.0]], [0, 1])
    >>> model.predict_proba([[0.1]]).tolist()
    [[0.75, 0.25]]
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = tags.classifier_tags.multi_label = False
        return tags

    def fit(self, X: npt.ArrayLike, y: npt.ArrayLike) -> SmoothedNeighbours:
        """Remember the training rows (n, p), their classes (n,) and the shares of these."""
        super().fit(X, y)
        self.shares_ = np.bincount(np.unique(np.asarray(y), return_inverse=True)[1].ravel()) / len(np.asarray(y))
        return self

    def predict_proba(self, X: npt.ArrayLike) -> Floats:
        """Return probabilities (n, k) in the order of ``classes_``."""
        return (self.n_neighbors * super().predict_proba(X) + self.shares_) / (self.n_neighbors + 1)


class PathSearchCV(GridSearchCV):
    """Search a grid value after value, and give up once the score has fallen three times in a row.

    All else is `sklearn.model_selection.GridSearchCV`, whose choice differs only where a score rises again after that.
    Permutation tests give up by the same rule (`linear.choose_c`).

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> x = np.arange(20.0)[:, None]
    >>> search = PathSearchCV(Ridge(), {"alpha": [0.1, 1e2, 1e3, 1e4, 1e5, 1e6]}).fit(x, x[:, 0])
    >>> search.best_params_, len(search.cv_results_["params"])
    ({'alpha': 0.1}, 4)
    """

    def _run_search(self, evaluate_candidates: Callable[[list[dict[str, Any]]], dict[str, Any]]) -> None:
        n_falls = 0
        for candidate in ParameterGrid(self.param_grid):
            scores = evaluate_candidates([candidate])["mean_test_score"]
            n_falls = n_falls + 1 if len(scores) > 1 and scores[-1] < scores[-2] else 0
            if n_falls == N_RISES:
                break


@dataclass(frozen=True)
class FittedModel:
    """A fitted pipeline from row numbers to scores.

    Attributes
    ----------
    model : Pipeline or CalibratedClassifierCV
        Fitted on all training rows.
    refit : callable
        Fits the same with its chosen strength, not calibrated, to other rows (n,) and their values (n,).
    strength : float
        The chosen value; NaN where nothing is chosen.
    n_not_converged : int
        Fits that stopped before the solver was satisfied.
    """

    model: Any
    refit: Callable[[Rows, npt.NDArray[np.generic]], Pipeline]
    strength: float
    n_not_converged: int = 0


def built_in_features(name: str, design: Design) -> FoldFeatures:
    """Return the first step of a built-in probe: standardised, and along principal axes where that changes nothing."""
    linear = name in ("logistic", "ridge", "svm")
    steps = (StandardScaler(copy=False), PrincipalAxes()) if linear else (StandardScaler(copy=False),)
    return FoldFeatures(design, make_pipeline(*steps))


def describe_built_in(name: str, *, continuous: bool, settings: EvaluationSettings) -> str:
    """Return a built-in probe as the scikit-learn expression it amounts to."""
    model, grid = _model_and_grid(name, continuous=continuous, settings=settings, seed=settings.seed)
    parameter = _parameter(name, continuous=continuous)
    search = _search_class(name).__name__
    searched = f"{search}(make_pipeline(StandardScaler(), {model!r}), {{'{parameter}': {list(grid)}}})"
    text = (
        f"CalibratedClassifierCV({searched}, method='temperature', ensemble=False)"
        if name == "svm" and not continuous
        else searched
    )
    return " ".join(text.split())


def fit_built_in(
    name: str,
    features: FoldFeatures,
    rows: Rows,
    values: npt.NDArray[np.generic],
    *,
    pairs: Pairs,
    cover: Pairs,
    settings: EvaluationSettings,
    seed: int,
    continuous: bool,
) -> FittedModel:
    """Choose the strength of a built-in probe on inner folds, and fit it on all training rows.

    The strength is the one of least mean log-loss or squared error over the inner folds; of equals, the strongest
    penalty: grids run from the strongest on, and `GridSearchCV` takes the first of the best. Weaker penalties of a
    logistic regression are not tried once three in a row have done worse (`PathSearchCV`): they take the longest.
    Without inner folds the strength is the middle of the grid.

    Parameters
    ----------
    name : {"logistic", "ridge", "svm", "knn", "sgd"}
        Which.
    features : FoldFeatures
        As `built_in_features` returned it.
    rows, values : array (n,)
        Training rows, and their class codes or numbers.
    pairs : sequence of pair of arrays
        Inner folds: rows to fit and rows to try a strength on.
    cover : sequence of pair of arrays
        Inner folds in which every training row is tried once, for the probabilities of a support vector machine.
    settings : EvaluationSettings
        Grids, and the settings of ``sgd``.
    seed : int
        Of the order in which ``sgd`` takes rows.
    continuous : bool
        Whether values are numbers.
    """
    model, grid = _model_and_grid(name, continuous=continuous, settings=settings, seed=seed)
    if name == "knn":  # more neighbours than training rows are as many as there are
        least = min([len(fit) for fit, _ in pairs], default=len(rows))
        grid = list(dict.fromkeys(min(k, least) for k in grid))
    parameter = f"model__{_parameter(name, continuous=continuous)}"
    pipeline = Pipeline([("features", features), ("model", model)])
    x = rows[:, None]
    with _counting() as failed:
        for pair in pairs:
            features.prepare(*pair)
        if pairs and len(grid) > 1:
            search = _search_class(name)(
                pipeline, {parameter: grid}, scoring=_scoring(name, continuous=continuous),
                cv=_positions(pairs, rows), refit=False, error_score="raise",
            )  # fmt: skip
            strength = search.fit(x, values).best_params_[parameter]
        else:
            strength = grid[(len(grid) - 1) // 2 if name in _DESCENDING else len(grid) // 2]
        template = clone(pipeline).set_params(**{parameter: strength})
        fitted: Any = clone(template)
        if name == "svm" and not continuous:
            folds = _positions(cover, rows) or [(np.arange(len(rows)),) * 2]
            # One temperature for all classes: unlike a sigmoid's slope, it never turns the order of scores round.
            fitted = CalibratedClassifierCV(fitted, method="temperature", cv=folds, ensemble=False)
        fitted.fit(x, values)
    return FittedModel(fitted, lambda some, y: clone(template).fit(some[:, None], y), float(strength), len(failed))


def inner_scores(
    fitted: FittedModel, rows: Rows, values: npt.NDArray[np.generic], *, pairs: Pairs
) -> tuple[Rows, Floats]:
    """Return training rows of two classes, and the probabilities of models that have not seen their subjects.

    The temperature of a support vector machine is that of `fitted`. Without inner folds, the training rows' own
    probabilities are all there is.
    """
    value_of, tried, parts = dict(zip(rows.tolist(), values.tolist(), strict=True)), [], []
    for fit_rows, try_rows in pairs or [(rows, rows)]:
        with _counting():
            model = fitted.refit(fit_rows, np.array([value_of[row] for row in fit_rows.tolist()]))
        x = try_rows[:, None]
        if isinstance(fitted.model, CalibratedClassifierCV):
            parts.append(expit(tempered(fitted.model)[1] * model.decision_function(x)))
        else:
            parts.append(model.predict_proba(x)[:, 1])
        tried.append(try_rows)
    return np.concatenate(tried), np.concatenate(parts)


def tempered(model: CalibratedClassifierCV) -> tuple[Pipeline, float]:
    """Return the machine of a calibrated one, and by what its decision values are multiplied before the softmax."""
    calibrated = model.calibrated_classifiers_[0]
    beta = float(calibrated.calibrators[0].beta_)
    return calibrated.estimator, 2 * beta if len(model.classes_) == 2 else beta


_DESCENDING = ("ridge", "knn")
"""Whose grids run from the largest value on, the strongest penalty first."""


def _search_class(name: str) -> type[GridSearchCV]:
    return PathSearchCV if name == "logistic" else GridSearchCV


def _parameter(name: str, *, continuous: bool) -> str:
    parameter = _PARAMETERS.get(name, STRENGTH_NAMES[name])
    return f"regressor__{parameter}" if name == "svm" and continuous else parameter


def _model_and_grid(
    name: str, *, continuous: bool, settings: EvaluationSettings, seed: int
) -> tuple[Any, Sequence[float]]:
    if name == "logistic":
        # Of scikit-learn's solvers the quickest to a tight optimum: few steps, and no Hessian of p × p.
        return LogisticRegression(solver="newton-cg", tol=1e-8, max_iter=1000), settings.C
    if name == "ridge":
        return Ridge(), settings.alpha[::-1]
    if name == "knn":
        return (KNeighborsRegressor if continuous else SmoothedNeighbours)(weights="distance"), settings.k[::-1]
    if name == "sgd":
        chosen = settings.sgd.model_dump(exclude={"learning_rate"})
        return MomentumSGDClassifier(**chosen, random_state=seed), settings.sgd.learning_rate
    if not continuous:
        return LinearSVC(dual=False, max_iter=10_000), settings.C
    machine = LinearSVR(
        loss="squared_epsilon_insensitive", epsilon=EPSILON, dual=False, max_iter=10_000
    )  # fmt: skip
    return TransformedTargetRegressor(machine, transformer=StandardScaler()), settings.C


def _scoring(name: str, *, continuous: bool) -> Any:
    if continuous:
        return "neg_mean_squared_error"
    if name == "svm":
        return _tempered_log_loss
    return _log_likelihood


def _log_likelihood(model: Pipeline, rows: Rows, codes: npt.NDArray[np.generic]) -> float:
    """Return minus the mean log-loss; minus infinity where a descent at too high a rate has ended in no number.

    `sklearn.metrics.log_loss` gives the same, and checks for longer than a small model is fitted.
    """
    probabilities = model.predict_proba(rows)
    if not np.isfinite(probabilities).all():
        return -float("inf")
    return -float(log_losses(np.searchsorted(model.classes_, codes)[:, None], probabilities[:, None])[0])


def _tempered_log_loss(machine: Pipeline, rows: Rows, codes: npt.NDArray[np.generic]) -> float:
    """Return minus the log-loss of decision values at the temperature that suits the same rows best."""
    decisions = machine.decision_function(rows)
    found = _TemperatureScaling().fit(decisions, np.searchsorted(machine.classes_, codes)).predict(decisions)
    return -float(log_loss(codes, found, labels=machine.classes_))


def _positions(pairs: Pairs, rows: Rows) -> Positions:
    order = np.argsort(rows, kind="stable")
    return [tuple(order[np.searchsorted(rows, part, sorter=order)] for part in pair) for pair in pairs]  # type: ignore[misc]


@contextmanager
def _counting() -> Iterator[list[Any]]:
    """Collect warnings of solvers that stopped early; other warnings of the fits tell a user nothing.

    What scikit-learn checks of parameters and features at each of thousands of fits has been checked before.
    """
    found: list[Any] = []
    checked = config_context(assume_finite=True, skip_parameter_validation=True)
    with checked, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield found
    found += [each for each in caught if issubclass(each.category, ConvergenceWarning)]
