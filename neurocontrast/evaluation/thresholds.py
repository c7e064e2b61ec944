"""When a scan is called positive: a rule given, or a value chosen on predictions of inner folds."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from neurocontrast.exceptions import suggestion

__all__ = ["RULES", "choose_threshold", "needs_inner_predictions", "parse_threshold"]

Floats = npt.NDArray[np.float64]

RULES = ("half", "prevalence", "youden", "sensitivity=0.9", "specificity=0.9")
"""What a threshold can be, besides a probability; the numbers are examples."""

_AIM = re.compile(r"(sensitivity|specificity)\s*=\s*(\S+)")


def parse_threshold(given: float | str) -> float | str:
    """Return a threshold in one form: a probability as a number, a rule as text.

    Raises
    ------
    ValueError
        If it is no rule, and no number between 0 and 1.
    """
    text = str(given).strip()
    aim = _AIM.fullmatch(text)
    number = _number(aim[2] if aim else text)
    if number is not None and 0 < number < 1:
        return f"{aim[1]}={number:g}" if aim else number
    if text in ("half", "prevalence", "youden"):
        return text
    raise ValueError(
        "must be half, prevalence, youden, sensitivity=… or specificity=… (a share between 0 and 1, for instance "
        f"sensitivity=0.9), or a probability between 0 and 1; got '{text}'.{suggestion(text, RULES)}"
    )


def needs_inner_predictions(rule: float | str) -> bool:
    """Say whether a rule chooses its value by what probes of inner folds say."""
    return isinstance(rule, str) and rule not in ("half", "prevalence")


def choose_threshold(
    rule: float | str, *, prevalence: float, truth: npt.NDArray[np.generic] | None = None, scores: Floats | None = None
) -> float:
    """Return the probability from which on a scan is called positive.

    Parameters
    ----------
    rule : float or str
        As `parse_threshold` returns it.
    prevalence : float
        Share of positives among the training scans.
    truth, scores : array (n,), optional
        Training scans, and what probes said of them that had not seen their subjects: needed by
        ``youden`` (of equals, the value nearest to `prevalence`), ``sensitivity=…`` (the highest value that
        reaches it) and ``specificity=…`` (the lowest value that reaches it). Where all of them are of one
        class, nothing can be chosen, and it is `prevalence`.
    """
    if isinstance(rule, float):
        return rule
    if rule in ("half", "prevalence"):
        return 0.5 if rule == "half" else prevalence
    if truth is None or scores is None:
        raise ValueError(f"threshold '{rule}': needs predictions of inner folds")
    if len(np.unique(truth)) < 2:
        return prevalence
    values = np.unique(scores)
    cuts = np.concatenate([values[:1], (values[1:] + values[:-1]) / 2, [np.nextafter(values[-1], np.inf)]])
    # Rounding of a midpoint must not move a scan to the other side of it.
    cuts[1:-1] = np.maximum(cuts[1:-1], np.nextafter(values[:-1], np.inf))
    positive, negative = np.sort(scores[truth == 1]), np.sort(scores[truth == 0])
    sensitivity = 1 - np.searchsorted(positive, cuts) / len(positive)
    specificity = np.searchsorted(negative, cuts) / len(negative)
    if rule == "youden":
        best = np.flatnonzero(sensitivity + specificity >= (sensitivity + specificity).max() - 1e-12)
        return float(cuts[best[np.abs(cuts[best] - prevalence).argmin()]])
    name, aim = rule.split("=")
    if name == "sensitivity":
        return float(cuts[np.flatnonzero(sensitivity >= float(aim) - 1e-12)[-1]])
    return float(cuts[np.flatnonzero(specificity >= float(aim) - 1e-12)[0]])


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
