"""What several seeds say together: means, intervals, and paired differences."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

__all__ = ["mean_interval", "summarise_seeds"]


def mean_interval(values: npt.ArrayLike, *, level: float = 0.95) -> tuple[float, float, float]:
    """Return the mean of a few values and the interval of Student's t for it.

    Parameters
    ----------
    values : array-like (n,)
        One a seed; those that are not finite are left out.
    level : float
        Share of such intervals that hold the mean.

    Returns
    -------
    mean, low, high : float
        The last two are NaN with fewer than two values, where nothing is known of their spread.

    Examples
    --------
    >>> mean, low, high = mean_interval([0.8, 0.9, 1.0])
    >>> round(mean, 2), round(low, 2), round(high, 2)
    (0.9, 0.65, 1.15)
    """
    known = np.asarray(values, dtype=float)
    known = known[np.isfinite(known)]
    if len(known) < 2:
        return (float(known.mean()) if len(known) else np.nan), np.nan, np.nan
    half = float(stats.t.ppf((1 + level) / 2, len(known) - 1) * known.std(ddof=1) / np.sqrt(len(known)))
    mean = float(known.mean())
    return mean, mean - half, mean + half


def summarise_seeds(values: pd.DataFrame, *, reference: str, level: float = 0.95) -> pd.DataFrame:
    """Return means over seeds with intervals, and differences to a reference, paired by seed.

    Parameters
    ----------
    values : DataFrame
        ``variant, layer, measure, seed, value``: one row a seed.
    reference : str
        The variant that is subtracted.
    level : float
        Of every interval.

    Returns
    -------
    DataFrame
        ``variant, layer, measure, n_seeds, mean, sd, low, high``, and ``difference, difference_low, difference_high,
        n_pairs`` and ``n_above`` (pairs in which the variant is above the reference); in the order of `values`. The
        reference has no difference. A pair is two runs of one seed: they begin with the same order and views.
    """
    rows = []
    keys = ["variant", "layer", "measure"]
    for (variant, layer, measure), part in values.groupby(keys, sort=False, dropna=False):
        mean, low, high = mean_interval(part["value"], level=level)
        row = {"variant": variant, "layer": layer, "measure": measure, "n_seeds": int(part["value"].notna().sum()),
               "mean": mean, "sd": float(part["value"].std(ddof=1)), "low": low, "high": high}  # fmt: skip
        same = (values["variant"] == reference) & (values["layer"] == layer) & (values["measure"] == measure)
        rows.append(row | _difference(part, values[same], variant == reference, level))
    return pd.DataFrame(rows)


def _difference(part: pd.DataFrame, other: pd.DataFrame, is_reference: bool, level: float) -> dict[str, float]:
    names = ("difference", "difference_low", "difference_high", "n_pairs", "n_above")
    if is_reference:
        return dict.fromkeys(names, np.nan)
    pairs = part.set_index("seed")["value"] - other.set_index("seed")["value"]
    known = pairs.dropna()
    return dict(zip(names, (*mean_interval(known, level=level), len(known), int((known > 0).sum())), strict=True))
