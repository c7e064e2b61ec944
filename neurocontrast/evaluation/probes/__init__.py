"""Kinds of probes, one file each: a probe is whatever class derived from `Probe` a file of this folder holds."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from neurocontrast.exceptions import one_of

if TYPE_CHECKING:
    from neurocontrast.evaluation.settings import EvaluationSettings

__all__ = ["Probe", "default_probe", "get_probe", "probe_names", "register"]


class Probe:
    """A kind of probe: its estimator, the grid of its strength, and what it can predict.

    A file in this folder with a class derived from `Probe`, named as the file is, adds one; `register` adds one from
    elsewhere. The strength is chosen on inner folds by log-loss or squared error.

    Attributes
    ----------
    title, citation : str
        Name in a sentence, and reference.
    classes, numbers : bool
        Whether a categorical and a continuous target can be predicted.
    strength, gives_up : str, bool
        Name of the value that is chosen, and whether its grid is left once the score has fallen three times in a row.
    rotates, calibrated : bool
        Whether predictions stay the same when features are rotated; whether decision values need a temperature.
    from_products : bool
        Whether the estimator of a large table takes the inner products of the columns, as ``precompute``.
    why_not_stored : str or None
        Reason why a fitted probe is not written; None where it is linear, and written as its coefficients.
    """

    title: str = ""
    citation: str = ""
    classes: bool = True
    numbers: bool = True
    strength: str = ""
    rotates: bool = False
    calibrated: bool = False
    gives_up: bool = False
    from_products: bool = False
    why_not_stored: str | None = None

    def estimator(self, settings: EvaluationSettings, *, continuous: bool, seed: int) -> Any:
        """Return a scikit-learn classifier, or regressor, for standardised features."""
        raise NotImplementedError

    def large_estimator(self, settings: EvaluationSettings, *, continuous: bool, seed: int) -> Any:
        """Return the estimator of a large table, of the same model: by default the one of any table."""
        return self.estimator(settings, continuous=continuous, seed=seed)

    def grid(self, settings: EvaluationSettings) -> Sequence[float]:
        """Return the strengths to choose from, the strongest penalty first: by default a key of the settings."""
        return getattr(settings, self.strength)

    def parameter(self, *, continuous: bool) -> str:  # noqa: ARG002
        """Return the parameter of the estimator that holds the strength."""
        return self.strength


_registered: dict[str, type[Probe]] = {}


def register(name: str, probe: type[Probe]) -> None:
    """Add a kind of probe under a name, which the setting ``probe`` then accepts."""
    _registered[name] = probe


def probe_names() -> tuple[str, ...]:
    """Return the names of all kinds of probes."""
    return (*sorted(found.name for found in pkgutil.iter_modules(__path__)), *_registered)


def get_probe(name: str) -> Probe:
    """Return the kind of probe of a name."""
    if name in _registered:
        return _registered[name]()
    if name not in probe_names():
        raise KeyError(f"'{name}' is no probe. There are {one_of(probe_names())}.")
    module = importlib.import_module(f"{__name__}.{name}")
    own = (each for each in vars(module).values() if isinstance(each, type) and each.__module__ == module.__name__)
    return next(each for each in own if issubclass(each, Probe))()


def default_probe(kind: str) -> Probe:
    """Return the probe of models that are not the embedding: ridge for a continuous target, else logistic."""
    return get_probe("ridge" if kind == "continuous" else "logistic")
