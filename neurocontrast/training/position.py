"""Count finished epochs and batches of a training, and average metrics for ``metrics.csv``."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

MetricsRow = dict[str, float | None]
"""Metrics of an epoch by column of ``metrics.csv``; None if not measured."""


@dataclass
class Position:
    """Progress of a training: finished epochs and batches, with the metrics of each epoch."""

    epoch: int = 0
    """Number of finished epochs."""
    batch: int = 0
    """Number of finished batches of the current epoch."""
    sums: dict[str, float] = field(default_factory=dict)
    """Metrics of the current epoch's batches, summed over scans."""
    sum_of_norms: float = 0.0
    """Sum of the finite gradient norms of the current epoch's steps."""
    n_norms: int = 0
    """Number of finite gradient norms of the current epoch."""
    seconds: float = 0.0
    """Duration of the current epoch's steps, in seconds."""
    metrics: list[MetricsRow] = field(default_factory=list)
    """Row of metrics for each finished epoch."""

    def count_batch(self, figures: Mapping[str, float], *, n_scans: int) -> None:
        """Count a batch as finished, and add its metrics, `figures`, to the sums of the epoch."""
        self.batch += 1
        for name, value in figures.items():
            if name != "gradient_norm":
                self.sums[name] = self.sums.get(name, 0.0) + value * n_scans
            elif math.isfinite(value):
                # The loss scaler of float16 skips a step whose gradient overflows.
                self.sum_of_norms += value
                self.n_norms += 1

    def means(self, n_scans: int) -> MetricsRow:
        """Return mean metrics of the current epoch by column of ``metrics.csv``.

        Metrics are divided by `n_scans`. The gradient norm is the mean over the epoch's steps, or
        None without a finite norm.
        """
        row: MetricsRow = {}
        for name, total in self.sums.items():
            row[f"train_{name}"] = total / n_scans
        row["gradient_norm"] = None
        if self.n_norms:
            row["gradient_norm"] = self.sum_of_norms / self.n_norms
        return row

    def close_epoch(self, row: MetricsRow) -> None:
        """Count the current epoch as finished, append `row` to `metrics`, and begin a new epoch.

        `row` has the epoch's metrics, a row of ``metrics.csv``; here it is kept in memory. The
        number of finished batches, the sums of metrics and gradient norms over the batches of an
        epoch, and the duration of the epoch are set to 0.
        """
        self.metrics.append(row)
        self.epoch += 1
        self.batch = 0
        self.sums = {}
        self.seconds = 0.0
        self.sum_of_norms = 0.0
        self.n_norms = 0
