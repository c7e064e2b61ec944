"""How far a training has come, and how its figures add up to a row of ``metrics.csv``."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

MetricsRow = dict[str, float | None]
"""Figures of an epoch by the columns of ``metrics.csv``; None where nothing was measured."""


@dataclass
class Position:
    """Count epochs and batches, and keep measurements; all other randomness is keyed by epoch and sample."""

    epoch: int = 0
    """Epochs finished."""
    batch: int = 0
    """Batches finished of the epoch under way."""
    sums: dict[str, float] = field(default_factory=dict)
    """Figures of that epoch, summed over its scans."""
    sum_of_norms: float = 0.0
    """Finite gradient norms of that epoch, summed over its steps."""
    n_norms: int = 0
    seconds: float = 0.0
    """Time that the steps of that epoch took."""
    metrics: list[MetricsRow] = field(default_factory=list)
    """One row for each finished epoch."""

    def count_batch(self, figures: Mapping[str, float], *, n_scans: int) -> None:
        """Count a batch as finished, with its figures."""
        self.batch += 1
        for name, value in figures.items():
            if name != "gradient_norm":
                self.sums[name] = self.sums.get(name, 0.0) + value * n_scans
            elif math.isfinite(value):
                # Float16's loss scaler skips a step whose gradient overflows.
                self.sum_of_norms += value
                self.n_norms += 1

    def means(self, n_scans: int) -> MetricsRow:
        """Return the mean figures of the epoch under way: of a scan, and of a step's gradient norm."""
        row: MetricsRow = {}
        for name, total in self.sums.items():
            row[f"train_{name}"] = total / n_scans
        row["gradient_norm"] = None
        if self.n_norms:
            row["gradient_norm"] = self.sum_of_norms / self.n_norms
        return row

    def close_epoch(self, row: MetricsRow) -> None:
        """Count the epoch as finished, with its row of metrics."""
        self.metrics.append(row)
        self.epoch += 1
        self.batch = 0
        self.sums = {}
        self.seconds = 0.0
        self.sum_of_norms = 0.0
        self.n_norms = 0
