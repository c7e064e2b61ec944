"""An estimator of the user's own: imported, checked and described."""

from __future__ import annotations

import importlib
import re
from typing import Any

from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from neurocontrast.evaluation.target import Target
from neurocontrast.exceptions import ConfigError

__all__ = ["EstimatorError", "as_estimator", "check_own", "describe_own", "gives_probabilities", "import_estimator",
           "shorten"]  # fmt: skip


class EstimatorError(ConfigError):
    """An estimator of the user's own that cannot be imported, fitted, or asked for predictions."""


def import_estimator(path: str) -> BaseEstimator:
    """Return the estimator that an import path ``package.module:Object`` names.

    The module is executed. Call this only where a user asked for the path: never for one that was read in a folder.
    """
    module, _, name = path.partition(":")
    try:
        found: Any = importlib.import_module(module)
    except ImportError as error:
        raise EstimatorError(
            f"probe: '{path}' cannot be imported ({error}). Install the package, or put the folder of the module on "
            "PYTHONPATH."
        ) from error
    except Exception as error:
        raise EstimatorError(f"probe: '{path}': its module raised {shorten(error)}") from error
    for part in name.split("."):
        if not hasattr(found, part):
            public = [each for each in dir(found) if not each.startswith("_")]
            raise EstimatorError(
                f"probe: '{path}': there is no '{part}' in '{module}'. It has: {', '.join(public[:20])}."
            )
        found = getattr(found, part)
    return as_estimator(found, source=f"'{path}'")


def as_estimator(given: Any, *, source: str = "estimator") -> BaseEstimator:
    """Return an estimator from an instance, a class, or a function of no argument that makes one."""
    made = given
    if isinstance(given, type) or (callable(given) and not hasattr(given, "fit")):
        try:
            made = given()
        except Exception as error:
            raise EstimatorError(f"probe: {source} cannot be called without arguments: {shorten(error)}") from error
    lacking = [name for name in ("fit", "predict") if not callable(getattr(made, name, None))]
    if lacking:
        raise EstimatorError(
            f"probe: {source} is a {type(made).__name__}, which has no {' and no '.join(lacking)}. Give a scikit-learn "
            "classifier, regressor or pipeline that ends in one."
        )
    try:
        return clone(made)
    except Exception as error:
        raise EstimatorError(
            f"probe: {source} ({type(made).__name__}) cannot be cloned for each fold: {shorten(error)} Derive it from "
            "sklearn.base.BaseEstimator."
        ) from error


def check_own(estimator: BaseEstimator, target: Target, *, threshold: float | str) -> None:
    """Refuse a regressor for classes, a classifier for numbers, and a classifier that gives nothing to rank by."""
    name, kind = describe_own(estimator)[0], _kind(estimator)
    continuous = target.kind == "continuous"
    if continuous and kind not in (None, "regressor"):
        raise EstimatorError(
            f"probe: {name} is a {kind}, and '{target.name}' is continuous. Give a regressor, or evaluation.kind="
            "categorical."
        )
    if continuous:
        return
    if kind not in (None, "classifier"):
        raise EstimatorError(
            f"probe: {name} is a {kind}, and '{target.name}' has {len(target.classes)} classes. Give a classifier."
        )
    if not hasattr(estimator, "predict_proba") and not hasattr(estimator, "decision_function"):
        raise EstimatorError(
            f"probe: {name} has neither predict_proba nor decision_function, and an AUC needs scores to rank by. Wrap "
            "it in sklearn.calibration.CalibratedClassifierCV, or choose another classifier."
        )
    if not gives_probabilities(estimator) and threshold != "half":
        raise EstimatorError(
            f"threshold: '{threshold}' is for probabilities, and {name} has decision values only. Leave threshold out, "
            "or wrap it in sklearn.calibration.CalibratedClassifierCV."
        )


def gives_probabilities(estimator: BaseEstimator) -> bool:
    """Return whether a classifier has probabilities; if not, it has decision values."""
    return hasattr(estimator, "predict_proba")


def describe_own(estimator: BaseEstimator) -> tuple[str, str]:
    """Return a short name of an estimator, of a pipeline its steps', and its repr on one line."""
    steps = [step for _, step in estimator.steps] if isinstance(estimator, Pipeline) else [estimator]
    text = re.sub(r" at 0x[0-9a-f]+", "", " ".join(repr(estimator).split()))
    return " + ".join(type(step).__name__ for step in steps if step not in (None, "passthrough")), text


def _kind(estimator: BaseEstimator) -> str | None:
    try:
        return get_tags(estimator).estimator_type
    except Exception:  # what derives from no class of scikit-learn has no tags
        return None


def shorten(error: Exception) -> str:
    """Return an error on one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:300]}{' …' if len(text) > 300 else ''}"
