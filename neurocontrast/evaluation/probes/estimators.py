"""Fit the estimators of a fold: built-in probes with a chosen strength, and a user's own."""

import pkgutil
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

from sklearn import config_context
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags

from neurocontrast.evaluation.probe_kinds import Probe
from neurocontrast.evaluation.probes.designs import (
    Design,
    FeatureDesign,
    standardised,
    weighed,
)
from neurocontrast.evaluation.probes.search import Search, choose_strength, choose_weight, expand
from neurocontrast.evaluation.rows import Floats, Labels, Rows, Texts
from neurocontrast.evaluation.settings import EvaluationSettings
from neurocontrast.evaluation.splits.inner import Pairs
from neurocontrast.evaluation.target import Target
from neurocontrast.exceptions import ConfigError
from neurocontrast.seeds import derive_seed

_OF_SEARCHES = {"estimator", "cv", "refit", "error_score"}
"""Parameters by which a search over another estimator's parameters is recognised."""
_MOST_CHARACTERS = 300
"""Most characters of another package's message; longer ones are cut."""


class EstimatorError(ConfigError):
    """An estimator of the user's own that cannot be imported, fitted, or asked for predictions."""


class FittedModel(NamedTuple):
    """An estimator fitted to training rows, with the features of test rows to predict from.

    `strength` is the value of the chosen penalty. It is NaN, and `scaler` is None, for a user's own
    estimator.
    """

    estimator: Any
    x_test: Floats
    n_not_converged: int
    strength: float = float("nan")
    scaler: StandardScaler | None = None
    axes: Floats | None = None
    chosen: bool = True
    weight: float | None = None
    """Weight of the first of two blocks; None for features whose blocks have no weight."""


def fit_built_in(
    probe: Probe,
    design: Design,
    rows: Rows,
    test: Rows,
    values: Labels,
    pairs: Pairs,
    settings: EvaluationSettings,
) -> FittedModel:
    """Choose the penalty on inner folds, and fit a built-in probe to all training rows.

    `rows` are the training rows, `pairs` the inner folds and `values` the target. Returned is the
    fitted estimator together with the features of the rows `test`, scaled as the estimator needs
    them for its predictions. Of penalties with equal losses the strongest is chosen.

    This is scikit-learn's `GridSearchCV` of a pipeline, except that each inner fold is standardised
    and rotated once for the whole grid. The width of a kernel, and the weight of two blocks
    (`neurocontrast.evaluation.probes.designs.weighed`), are chosen with the penalty.
    """
    large = len(rows) > settings.large_table
    if isinstance(design, FeatureDesign):
        design = replace(design, single=large)
    search = Search(probe, probe.make(large), tuple(probe.strengths(settings)))
    designs = dict(weighed(design))
    is_chosen = bool(pairs) or search.n_choices * len(designs) == 1
    choice = search.middle(next(iter(designs)))
    with _counting() as failed:
        if pairs and len(designs) > 1:
            choice = choose_weight(search, designs, pairs, values)
        elif pairs and search.n_choices > 1:
            choice = choose_strength(search, design, pairs, values)._replace(weight=choice.weight)
        x = standardised(designs[choice.weight], rows, test)
        x_train, x_test = expand(x.train, x.test, choice.width)
        fitted = search.estimator(choice.strength).fit(x_train, values[rows])
    return FittedModel(
        fitted,
        x_test,
        len(failed),
        float(choice.strength),
        x.scaler,
        x.axes,
        chosen=is_chosen,
        weight=choice.weight,
    )


@contextmanager
def _counting() -> Iterator[list[warnings.WarningMessage]]:
    """Yield a list of the warnings of solvers that stop early, and drop all other warnings.

    The yielded list is empty at first; warnings raised in the context are put into it when the
    context ends. In the context, scikit-learn's checks of parameters and features, at each of
    thousands of fits, are switched off: both have been checked before.
    """
    stopped: list[warnings.WarningMessage] = []
    checked = config_context(assume_finite=True, skip_parameter_validation=True)
    with checked, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield stopped
    stopped += _of_convergence(caught)


def _of_convergence(
    caught: Sequence[warnings.WarningMessage],
) -> list[warnings.WarningMessage]:
    """Return the warnings in `caught` that say that a solver stopped early."""
    return [warning for warning in caught if issubclass(warning.category, ConvergenceWarning)]


def import_estimator(path: str) -> BaseEstimator:
    """Return the estimator that an import path ``package.module:Object`` names.

    The module is executed. Call this only where a user asked for the path: never for one that was
    read in a folder.
    """
    try:
        imported = pkgutil.resolve_name(path)
    except Exception as error:  # a module of the user's may raise anything
        raise EstimatorError(
            f"probe: '{path}' cannot be imported ({shorten(error)}). Install the package, or put "
            "the folder of the "
            "module on PYTHONPATH."
        ) from error
    return as_estimator(imported, source=f"'{path}'")


def as_estimator(maker: Any, *, source: str = "estimator") -> BaseEstimator:
    """Return a fresh estimator made from an instance, a class, or a function without arguments.

    The instance, class or function is `maker`; `source` is the name to show for it in messages,
    such as its import path.
    """
    try:
        estimator = maker
        if isinstance(maker, type) or (callable(maker) and not hasattr(maker, "fit")):
            estimator = maker()
        lacking = []
        for name in ("fit", "predict"):
            if not callable(getattr(estimator, name, None)):
                lacking.append(name)
        if not lacking:
            return clone(estimator)
    except Exception as error:  # the user's own code is called, and may raise anything
        raise EstimatorError(
            f"probe: {source} cannot be made, or cloned for each fold: {shorten(error)} Derive it "
            "from "
            "sklearn.base.BaseEstimator; a class or function is called without arguments."
        ) from error
    raise EstimatorError(
        f"probe: {source} is a {type(estimator).__name__}, which has no "
        f"{' and no '.join(lacking)}. "
        "Give a scikit-learn "
        "classifier, regressor or pipeline that ends in one."
    )


def check_own(estimator: BaseEstimator, target: Target, *, threshold: float | str) -> None:
    """Refuse a user's estimator that does not fit the target, such as a regressor for classes.

    Refused too are a classifier for numbers, a classifier with neither probabilities nor decision
    values to rank scans by, and, with decision values alone, a `threshold` other than ``half``.
    """
    name = describe_own(estimator)[0]
    continuous = target.kind == "continuous"
    try:
        kind = get_tags(estimator).estimator_type
    except AttributeError:  # what derives from no class of scikit-learn has no tags
        kind = None
    needed = "classifier"
    trait = f"has {len(target.classes)} classes"
    if continuous:
        needed = "regressor"
        trait = "is continuous"
    if kind not in (None, needed):
        raise EstimatorError(
            f"probe: {name} is a {kind}, and '{target.name}' {trait}. Give a {needed}."
        )
    if continuous or gives_probabilities(estimator):
        return
    remedy = "Wrap it in sklearn.calibration.CalibratedClassifierCV"
    if not hasattr(estimator, "decision_function"):
        raise EstimatorError(
            f"probe: {name} has neither predict_proba nor decision_function to rank by. {remedy}."
        )
    if threshold != "half":
        raise EstimatorError(
            f"threshold: '{threshold}' is for probabilities, and {name} has decision values only. "
            f"{remedy}, or leave "
            "threshold out."
        )


def gives_probabilities(estimator: BaseEstimator) -> bool:
    """Tell whether a classifier has ``predict_proba``; others have decision values."""
    return hasattr(estimator, "predict_proba")


def describe_own(estimator: BaseEstimator) -> tuple[str, str]:
    """Return two texts: the short name of an estimator, and its ``repr`` on one line.

    The short name is that of the class, or for a pipeline the names of the steps.
    """
    steps = [estimator]
    if isinstance(estimator, Pipeline):
        steps = [step for _, step in estimator.steps]
    names = []
    for step in steps:
        if step not in (None, "passthrough"):
            names.append(type(step).__name__)
    expression = re.sub(r" at 0x[0-9a-f]+", "", " ".join(repr(estimator).split()))
    return " + ".join(names), expression


def fit_own(
    estimator: BaseEstimator,
    design: Design,
    rows: Rows,
    test: Rows,
    values: Labels,
    *,
    subjects: Texts,
    seed: int,
) -> FittedModel:
    """Fit a clone of the user's estimator to the training rows `rows`.

    A search, such as `GridSearchCV`, gets the subjects as ``groups``. `seed` sets every parameter
    ``random_state`` that is None. Returned is the fitted estimator together with the features of
    the rows `test`, of which the caller asks for predictions.
    """
    states = {
        key: derive_seed("estimator", seed, key) % 2**32
        for key, value in estimator.get_params().items()
        if value is None and key.split("__")[-1] == "random_state"
    }
    groups = {"groups": subjects[rows]} if _is_search(estimator) else {}
    x_train, x_test = design(rows, test)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            fitted = clone(estimator).set_params(**states).fit(x_train, values[rows], **groups)
        except Exception as error:  # the user's own fit may raise anything
            raise EstimatorError(
                f"probe: {describe_own(estimator)[0]} could not be fitted: {shorten(error)}"
            ) from error
    return FittedModel(fitted, x_test, len(_of_convergence(caught)))


def _is_search(estimator: BaseEstimator) -> bool:
    """Tell whether an estimator is a search like `GridSearchCV`, whose ``fit`` takes ``groups``.

    Searches of other packages, such as scikit-optimize's `BayesSearchCV`, have the same parameters.
    """
    return estimator.get_params(deep=False).keys() >= _OF_SEARCHES


def shorten(error: Exception) -> str:
    """Return class and message of an error on one line, cut after `_MOST_CHARACTERS`."""
    message = " ".join(str(error).split())
    if len(message) > _MOST_CHARACTERS:
        message = f"{message[:_MOST_CHARACTERS]} …"
    return f"{type(error).__name__}: {message}"
