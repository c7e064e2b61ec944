"""Distances of scans from those that a probe was fitted on, and their percentiles."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

LEVELS = np.linspace(0.0, 100.0, 201)
"""Percentiles at which the distances of training scans are kept."""
OUTSIDE_PERCENTILE = 97.5
"""Percentile of the training scans' own distances beyond which a scan is called outside."""
_BLOCK_ROWS = 4096


@dataclass(frozen=True, eq=False)
class TrainingDistribution:
    """Centres, spread and usual distances of training scans; nothing of a single person.

    `centres` (n sites, p); `scale` (p,) is the standard deviation within sites, infinite for a feature that does not
    vary there. `axes` (p, k) and `variances` (k,) are of the principal axes of the scaled features within sites,
    `remainder` of every direction orthogonal to them. `usual` (n sites, 201) are distances of training scans at
    percentiles 0, 0.5 … 100: the same for every site, but of each site its own in probes of earlier versions.
    """

    sites: tuple[str, ...]
    centres: Floats
    scale: Floats
    axes: Floats
    variances: Floats
    remainder: float
    usual: Floats

    def distances(self, x: npt.NDArray[np.floating]) -> Floats:
        """Return the distance of each scan (n, p) to the nearest centre (n,)."""
        return self._from_centres(x).min(axis=0)

    def percentiles(self, x: npt.NDArray[np.floating]) -> tuple[Floats, Floats]:
        """Return the distance of each scan, and its percentile among usual distances from the same centre."""
        found = self._from_centres(x)
        distances, usual = found.min(axis=0), self.usual[found.argmin(axis=0)]
        return distances, np.array([place(*each) for each in zip(distances, usual, strict=True)], dtype=float)

    def _from_centres(self, x: npt.NDArray[np.floating]) -> Floats:
        """Return the distance of each scan from every centre, (n sites, n)."""
        blocks = [np.asarray(x[start : start + _BLOCK_ROWS]) for start in range(0, max(1, len(x)), _BLOCK_ROWS)]
        return np.concatenate([[self._distance(rows - each) for each in self.centres] for rows in blocks], axis=1)

    def _distance(self, deviations: Floats) -> Floats:
        scaled = deviations / self.scale
        along = scaled @ self.axes
        rest = np.einsum("ij,ij->i", scaled, scaled) - np.einsum("ij,ij->i", along, along)
        return np.sqrt((along**2 / self.variances).sum(axis=1) + np.maximum(rest, 0.0) / self.remainder)


def place(distance: float, usual: Floats) -> float:
    """Return the percentile of a distance among usual ones, ties in their middle."""
    low, high = (np.searchsorted(usual, distance, side=side) for side in ("left", "right"))
    if low < high:
        return float((LEVELS[low] + LEVELS[high - 1]) / 2)
    return float(np.interp(distance, usual, LEVELS))
