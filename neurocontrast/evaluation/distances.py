"""Distances of scans from those that a probe was fitted on, and their place among usual distances."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["LEVELS", "TrainingDistribution", "place"]

Floats = npt.NDArray[np.float64]

_BLOCK_ROWS, MAX_AT_ONCE = 1024, 4096
LEVELS = np.linspace(0.0, 100.0, 201)
"""Percentiles at which the distances of training scans are kept."""


@dataclass(frozen=True, eq=False)
class TrainingDistribution:
    """Centres, spread and usual distances of training scans; nothing of a single person.

    `scale` (p,) is the standard deviation within sites, infinite for a feature that does not vary there. `axes` (p, k)
    and `variances` (k,) are of the principal axes of the scaled features within sites (shrunk), `remainder` of every
    direction orthogonal to them. `usual` (n centres, 201) are distances of training scans at percentiles 0, 0.5 … 100.
    """

    sites: tuple[str, ...]
    centres: Floats
    scale: Floats
    axes: Floats
    variances: Floats
    remainder: float
    usual: Floats

    def distances(self, x: npt.NDArray[np.floating]) -> tuple[Floats, npt.NDArray[np.intp]]:
        """Return the distance of each scan to the nearest centre, and which that is."""
        x = np.asarray(x)
        size = _BLOCK_ROWS if len(x) > MAX_AT_ONCE else max(1, len(x))
        blocks = [x[start : start + size] for start in range(0, max(1, len(x)), size)]
        found = np.concatenate([[self._distance(rows - centre) for centre in self.centres] for rows in blocks], axis=1)
        nearest = found.argmin(axis=0)
        return found[nearest, np.arange(len(x))], nearest

    def percentiles(self, x: npt.NDArray[np.floating]) -> tuple[Floats, Floats]:
        """Return the distance of each scan, and its percentile among training scans nearest to the same centre."""
        distances, nearest = self.distances(x)
        placed = [place(distance, self.usual[centre]) for distance, centre in zip(distances, nearest, strict=True)]
        return distances, np.array(placed, dtype=float)

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
