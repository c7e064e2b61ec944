"""Scores of `regions.py`: errors of people and sites, concordance of pairs, and bootstraps whose unit is the site."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

__all__ = ["SHOTS", "Judged", "auc_of_pairs", "collect", "difference", "pair_counts", "scores"]

Floats = npt.NDArray[np.floating[Any]]
SHOTS, PRIOR, N_DRAWS, N_BOOTSTRAPS = (2, 5, 10, 20), 2.0, 20, 4000


class Judged(NamedTuple):
    """What a system says of people of sites left out, (seeds, people), and what is known of these."""

    age: Floats
    sex: Floats
    true_age: Floats
    male: npt.NDArray[Any]
    site: npt.NDArray[Any]
    home_age: float
    home_site: float

    def per_site(self, values: Floats) -> Floats:
        """Return the sum of values at each site, their first axis averaged."""
        return pd.Series(values.mean(0)).groupby(self.site).sum().to_numpy()

    def errors_after(self, shots: int) -> tuple[Floats, Floats]:
        """Return summed absolute errors and numbers of people, a site, after `shots` labelled people correct the rest.

        Sites with fewer than ten people beside them have none of either.
        """
        names = np.unique(self.site)
        sums, counts = np.zeros(len(names)), np.zeros(len(names))
        random = np.random.default_rng(0)
        for place, name in enumerate(names):
            rows = np.flatnonzero(self.site == name)
            if len(rows) < shots + 10:
                continue
            off = (self.age - self.true_age)[:, rows]
            orders = np.stack(
                [random.permutation(len(rows)) for _ in range(N_DRAWS if shots else 1)]
            )
            shift = off[:, orders[:, :shots]].sum(2) / (shots + PRIOR)
            sums[place] = np.abs(off[:, orders[:, shots:]] - shift[..., None]).mean() * len(rows)
            counts[place] = len(rows)
        return sums, counts


def collect(
    cells: Iterable[Mapping[str, Any]], folds: Mapping[tuple[int, int], Any], people: pd.DataFrame
) -> dict[str, Judged]:
    """Return what every system says in the seeds that all systems finished; `folds` by seed and group.

    A system is named as its cell, or "…, beside" with components beside the network.
    """
    said: dict[str, dict[tuple[int, int], Any]] = {}
    for cell in cells:
        for kind, found in cell["systems"].items():
            name = cell["key"]["system"] + ("" if kind == "alone" else f", {kind}")
            said.setdefault(name, {})[cell["key"]["seed"], cell["key"]["group"]] = found
    groups = {group for _, group in folds}
    done = set.intersection(*(set(of_system) for of_system in said.values()))
    seeds = [
        seed
        for seed in sorted({seed for seed, _ in done})
        if all((seed, group) in done for group in groups)
    ]
    judged = np.sort(np.concatenate([folds[seeds[0], group].new for group in groups]))
    known = people.iloc[judged]
    age = known["age"].to_numpy(float)
    result = {}
    for name, found in said.items():
        arrays = {key: np.full((len(seeds), len(people)), np.nan) for key in ("age", "sex")}
        home_age, home_site = [], []
        for row, seed in enumerate(seeds):
            for group in groups:
                cell, fold = found[seed, group], folds[seed, group]
                for key, array in arrays.items():
                    array[row, fold.new] = cell["new"][key]
                held_back, true = cell["home"]["age"], people["age"].to_numpy()[fold.home]
                # Of a part of the sites, fewer people are held back: their error is not asked for.
                home_age.append(
                    np.abs(held_back - true).mean() if len(held_back) == len(true) else np.nan
                )
                home_site.append(cell.get("site", np.nan))
        ages, sexes = (array[:, judged] for array in arrays.values())
        male, site = known["male"].to_numpy(), known["site"].to_numpy(str)
        result[name] = Judged(
            ages, sexes, age, male, site, float(np.mean(home_age)), float(np.mean(home_site))
        )
    return result


def scores(judged: Judged) -> dict[str, float]:
    """Return the columns of the table."""
    off = judged.age - judged.true_age
    by_site = [off[:, judged.site == name] for name in np.unique(judged.site)]
    found = {
        "age": np.abs(off).mean(),
        "sites": np.mean([np.abs(part).mean() for part in by_site]),
        "bias": np.mean([np.abs(part.mean(1)).mean() for part in by_site]),
        "spread": np.mean([part.std(1, ddof=1).mean() for part in by_site]),
    }
    for shots in SHOTS:
        sums, counts = judged.errors_after(shots)
        found[f"after {shots}"] = sums.sum() / counts.sum()
    pairs, n_pairs = sex_pairs(judged)
    found["sex"] = pairs.sum() / n_pairs.sum()
    right = [(judged.sex[:, judged.male == each] > 0) == bool(each) for each in (0, 1)]
    found["sex balanced"] = np.mean([part.mean() for part in right])
    found |= {"home age": judged.home_age, "home site": judged.home_site}
    found["OpenBHB"] = found["age"] * judged.home_site**0.3
    return {key: float(value) for key, value in found.items()}


def sex_pairs(judged: Judged) -> tuple[Floats, Floats]:
    """Return concordant pairs, and all pairs, of a man of one site with a woman of any site, (sites, sites)."""
    names = np.unique(judged.site)
    parts = [(judged.site == name) & (judged.male == each) for each in (1, 0) for name in names]
    men, women = parts[: len(names)], parts[len(names) :]
    n_pairs = np.array([[m.sum() * w.sum() for w in women] for m in men], dtype=float)
    pairs = np.zeros_like(n_pairs)
    for i, m in enumerate(men):
        for j, w in enumerate(women):
            if n_pairs[i, j]:
                pairs[i, j] = np.mean([pair_counts(row[m], row[w]) for row in judged.sex])
    return pairs, n_pairs


def pair_counts(positive: Floats, negative: Floats) -> float:
    """Return how many pairs are in order, ties as half."""
    apart = positive[:, None] - negative
    return float((apart > 0).sum() + 0.5 * (apart == 0).sum())


def _weights(n_sites: int) -> Floats:
    """Return how often each bootstrap draws each site; its first row is the sample itself."""
    drawn = np.random.default_rng(1).multinomial(
        n_sites, np.full(n_sites, 1 / n_sites), N_BOOTSTRAPS
    )
    return np.vstack([np.ones(n_sites), drawn]).astype(float)


def _summary(values: Floats) -> tuple[float, float, float]:
    low, high = np.nanquantile(values[1:], [0.025, 0.975])
    return float(values[0]), float(low), float(high)


def difference(first: Judged, second: Judged, what: str) -> tuple[float, float, float]:
    """Return a paired difference with its interval over sites: ``age``, ``sites``, ``sex`` or ``after 10``."""
    weights = _weights(len(np.unique(first.site)))
    both = []
    for judged in (first, second):
        if what == "sex":
            pairs, n_pairs = sex_pairs(judged)
            both.append(_quadratic(weights, pairs) / np.maximum(_quadratic(weights, n_pairs), 1))
        elif what == "age":
            sums = judged.per_site(np.abs(judged.age - judged.true_age))
            both.append(weights @ sums / (weights @ judged.per_site(np.ones_like(judged.age))))
        elif what == "sites":
            sums = judged.per_site(np.abs(judged.age - judged.true_age))
            both.append(
                weights @ (sums / judged.per_site(np.ones_like(judged.age))) / weights.sum(1)
            )
        else:
            sums, counts = judged.errors_after(int(what.split()[1]))
            both.append(weights @ sums / (weights @ counts))
    return _summary(both[0] - both[1])


def _quadratic(weights: Floats, pairs: Floats) -> Floats:
    return ((weights @ pairs) * weights).sum(1)


def auc_of_pairs(counts: Floats) -> Floats:
    """Return the AUC of pairs of one site, as it is and of each bootstrap over sites.

    `counts` are pairs in order and all pairs, by site (2, sites).
    """
    weights = _weights(counts.shape[1])
    return (weights @ counts[0]) / (weights @ counts[1])
