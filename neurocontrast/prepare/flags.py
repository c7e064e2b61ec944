"""Flag scans with a measure beyond absolute bounds, or beyond bounds of the scan's site."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

N_DEVIATIONS = 6.0
"""Distance of a bound from a site's median, in robust standard deviations (1.4826 median absolute
deviations).
"""
N_SITE = 10
"""Smallest number of people with which a site gets bounds of its own."""


@dataclass(frozen=True)
class Rule:
    """Rule for a measure of image quality: bounds for all scans, and whether a site has bounds too.

    A scan below `low` or above `high` is flagged. `worse` says whether low values, high values or
    both are also flagged when far from the values of the scan's site.
    """

    title: str
    worse: str = ""
    """Values that are also flagged when far from the values of the scan's site: ``low`` values,
    ``high`` values, ``both``, or "" for none.
    """
    low: float = -np.inf
    high: float = np.inf
    about: str = ""
    """Explanation of the measure, for the report."""


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
"""Measure → rule, in the order of the report."""


class Bound(NamedTuple):
    """Bound of a measure, and the reason for the bound in words."""

    value: float
    reason: str


class Flag(NamedTuple):
    """Name of a measure that is beyond a bound, and a sentence that says so."""

    measure: str
    text: str


def bounds_of(
    name: str,
    values: npt.NDArray[np.float64],
    n_deviations: float = N_DEVIATIONS,
    *,
    people: Sequence[object] | None = None,
) -> tuple[Bound, Bound]:
    """Return the lower and the upper bound of a measure, for the scans of one site.

    Each is the stricter one of the bound for all scans and of the site's own bound, `n_deviations`
    from the median of the site. With fewer than `N_SITE` people, a site has no bound of its own.

    Parameters
    ----------
    name : str
        Measure, a key of `RULES`.
    values : array (n,)
        Value of each scan.
    n_deviations : float
        Robust standard deviations from the median of the site.
    people : sequence, optional
        Person of each scan; the median of a person's values counts. By default each scan is of
        another person.
    """
    rule = RULES[name]
    scans = pd.Series(values)
    owners = np.asarray(scans.index)
    if people is not None:
        owners = np.asarray(people)
    usual = scans.groupby(owners).median()
    finite = usual[np.isfinite(usual)].to_numpy()
    low = Bound(rule.low, "for every scan")
    high = Bound(rule.high, "for every scan")
    if len(finite) < N_SITE:
        return low, high
    middle = float(np.median(finite))
    spread = 1.4826 * float(np.median(np.abs(finite - middle)))
    if spread == 0:
        return low, high
    reason = (
        f"median {middle:.4g} of {len(finite)} people, {n_deviations:g} robust deviations of "
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
    """Return the flags of each scan in a table, and a number for how near the scan is to a bound.

    The table has ``site``, ``subject_id`` and measures of `RULES`. The first result has a list of
    flags for each row, the second is a Series with the index of the table. A measure at the median
    of the scan's site counts 0, at a bound 1, and beyond the bound above 1, in proportion to the
    distance from the median; a scan's number is the largest over all measures and bounds, at least
    0.
    """
    people = table["subject_id"].to_numpy()
    flags: list[list[Flag]] = [[] for _ in range(len(table))]
    worst = np.zeros(len(table))
    sites = [np.asarray(rows) for rows in table.groupby("site").indices.values()]
    for name in filter(table.__contains__, RULES):
        values = table[name].to_numpy(dtype=float)
        for rows in sites:
            of_site = values[rows]
            if not np.isfinite(of_site).any():
                continue
            middle = float(np.nanmedian(of_site))
            low, high = bounds_of(name, of_site, n_deviations, people=people[rows])
            for bound, sign, side in ((low, -1, "below"), (high, 1, "above")):
                if not np.isfinite(bound.value):
                    continue
                distance = max(sign * (bound.value - middle), 1e-9)
                worst[rows] = np.fmax(worst[rows], sign * (of_site - middle) / distance)
                for row in rows[sign * (of_site - bound.value) > 0]:
                    sentence = (
                        f"{RULES[name].title} {values[row]:.4g} is {side} {bound.value:.4g} "
                        f"({bound.reason})"
                    )
                    flags[row].append(Flag(name, sentence))
    return flags, pd.Series(worst, index=table.index)
