"""Which measures of a scan are beyond their bounds: absolute ones, and those of the other scans of its site."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

N_DEVIATIONS = 6.0
"""Robust standard deviations (1.4826 median absolute deviations) from the median of a site."""
N_SITE = 10
"""Sites of fewer people have no bounds of their own."""


@dataclass(frozen=True)
class Rule:
    """A measure, its bounds for every scan, and the side ("low", "high", "both") also compared with its site."""

    title: str
    worse: str = ""
    low: float = -np.inf
    high: float = np.inf
    about: str = ""


RULES = {
    "correlation": Rule(
        "correlation with the template",
        "low",
        low=0.4,
        about="inside the template's brain, at 4 mm",
    ),
    "dice": Rule(
        "Dice with the template's brain", "low", low=0.8, about="overlap of the two masks"
    ),
    "brain_ml": Rule(
        "brain volume (mL)", "both", 1300.0, 2700.0, "in MNI space, so that it is no brain size"
    ),
    "shift_mm": Rule(
        "shift (mm)", "high", high=5.0, about="translation by which the template fits best"
    ),
    "flip_gain": Rule(
        "gain by a flip", high=0.0, about="how much better the template fits front-back or up-down"
    ),
    "site_correlation": Rule(
        "correlation with the site",
        "low",
        low=0.5,
        about="with the mean of the other scans of the site",
    ),
    "asymmetry": Rule(
        "left-right asymmetry",
        low=-0.05,
        about="correlation with that of the site's other scans: below 0 when swapped",
    ),
    "cjv": Rule(
        "CJV",
        "high",
        about="coefficient of joint variation of grey and white matter, lower is better",
    ),
    "efc": Rule("EFC", "high", about="entropy focus criterion, lower is better"),
    "scale_min": Rule("smallest affine scale", "low", low=0.6, about="from prepare's quality.tsv"),
    "scale_max": Rule("largest affine scale", "high", high=1.5, about="from prepare's quality.tsv"),
    "iqr": Rule("CAT12's IQR", "high", high=4.0, about="grade of the image, lower is better"),
    "euler": Rule(
        "Euler number",
        "low",
        low=-217.0,
        about="FreeSurfer's, the mean of both hemispheres; 2 is best",
    ),
}
"""Measures that are flagged, in the order of the page."""


class Bound(NamedTuple):
    """A bound, and where it is from."""

    value: float
    reason: str


class Flag(NamedTuple):
    """A measure of a scan that is beyond a bound."""

    measure: str
    text: str


def bounds_of(
    name: str,
    values: npt.NDArray[np.float64],
    n_deviations: float = N_DEVIATIONS,
    *,
    people: Sequence[object] | None = None,
) -> tuple[Bound, Bound]:
    """Return the lower and upper bound of a measure for the scans of one site: the stricter one.

    Parameters
    ----------
    name : str
        Measure, a key of `RULES`.
    values : array (n,)
        Value of each scan.
    n_deviations : float
        Robust standard deviations from the median of the site.
    people : sequence, optional
        Person of each scan, one value of whom counts: the median; by default scans are of as many
        people.
    """
    rule = RULES[name]
    scans = pd.Series(values)
    usual = scans.groupby(np.asarray(scans.index if people is None else people)).median()
    known = usual[np.isfinite(usual)].to_numpy()
    low = Bound(rule.low, "for every scan")
    high = Bound(rule.high, "for every scan")
    if len(known) < N_SITE:
        return low, high
    middle = float(np.median(known))
    spread = 1.4826 * float(np.median(np.abs(known - middle)))
    if spread == 0:
        return low, high
    reason = (
        f"median {middle:.4g} of {len(known)} people, {n_deviations:g} robust deviations of "
        f"{spread:.2g}"
    )
    if rule.worse in ("low", "both") and middle - n_deviations * spread > low.value:
        low = Bound(middle - n_deviations * spread, reason)
    if rule.worse in ("high", "both") and middle + n_deviations * spread < high.value:
        high = Bound(middle + n_deviations * spread, reason)
    return low, high


def flag_scans(
    table: pd.DataFrame, n_deviations: float = N_DEVIATIONS
) -> tuple[list[list[Flag]], pd.Series]:
    """Return the flags of each scan of a table, and how close the scan is to a bound.

    The table has ``site``, ``subject_id`` and measures of `RULES`. The closeness is for ordering:
    the largest share of the distance from the median of the scan's site to a bound.
    """
    people = table["subject_id"].to_numpy()
    flags: list[list[Flag]] = [[] for _ in range(len(table))]
    worst = np.zeros(len(table))
    sites = [np.asarray(rows) for rows in table.groupby("site").indices.values()]
    for name in [name for name in RULES if name in table]:
        values = table[name].to_numpy(dtype=float)
        for places in sites:
            here = values[places]
            if not np.isfinite(here).any():
                continue
            middle = float(np.nanmedian(here))
            for bound, sign, side in zip(
                bounds_of(name, here, n_deviations, people=people[places]),
                (-1, 1),
                ("below", "above"),
                strict=True,
            ):
                if not np.isfinite(bound.value):
                    continue
                way = max(sign * (bound.value - middle), 1e-9)
                worst[places] = np.fmax(worst[places], sign * (here - middle) / way)
                for row in places[sign * (here - bound.value) > 0]:
                    text = f"{RULES[name].title} {values[row]:.4g} is {side} {bound.value:.4g} ({bound.reason})"
                    flags[row].append(Flag(name, text))
    return flags, pd.Series(worst, index=table.index)
