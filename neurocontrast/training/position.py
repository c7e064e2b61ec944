"""Count epochs and batches of a training, and average figures for ``metrics.csv``."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

MetricsRow = dict[str, float | None]
"""Figures of an epoch by the columns of ``metrics.csv``; None where nothing was measured."""


@dataclass
class Position:
    """Progress of a training: finished epochs and batches, and their figures."""

    epoch: int = 0
    """Number of finished epochs."""
    batch: int = 0
    """Number of finished batches of the current epoch."""
    sums: dict[str, float] = field(default_factory=dict)
    """Figures of the current epoch, summed over scans."""
    sum_of_norms: float = 0.0
    """Finite gradient norms of the current epoch, summed over steps."""
    n_norms: int = 0
    """Number of finite gradient norms of the current epoch."""
    seconds: float = 0.0
    """Time of the steps of the current epoch."""
    metrics: list[MetricsRow] = field(default_factory=list)
    """One row for each finished epoch."""

    def count_batch(self, figures: Mapping[str, float], *, n_scans: int) -> None:
        """Count a batch as finished, with its figures."""
        self.batch += 1
        for name, value in figures.items():
            if name != "gradient_norm":
                self.sums[name] = self.sums.get(name, 0.0) + value * n_scans
            elif math.isfinite(value):
                # The loss scaler of float16 skips a step whose gradient overflows.
                self.sum_of_norms += value
                self.n_norms += 1

    def means(self, n_scans: int) -> MetricsRow:
        """Return the means of the current epoch: figures over scans, gradient norm over steps."""
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
