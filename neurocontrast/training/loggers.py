"""Where the figures of each epoch go: ``metrics.csv``, TensorBoard's files, and a user's own loggers."""

from __future__ import annotations

import csv
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lightning_fabric.loggers import Logger

from neurocontrast.files import atomic_path

__all__ = ["open_loggers", "write_metrics"]

Row = Mapping[str, Any]


@contextmanager
def open_loggers(
    names: Sequence[str],
    folder: Path,
    *,
    history: Sequence[Row] = (),
    own: Sequence[Logger] = (),
    facts: Mapping[str, Any] | None = None,
) -> Iterator[Callable[[Row], None]]:
    """Open loggers in a run directory, and give the function that passes an epoch's figures to all of them.

    `history` are the epochs of a run that is continued: what was logged after them is taken back. A user's `own`
    loggers are given the `facts` of the run, and the epochs of this process.
    """
    rows = list(history)
    events = _EventFile(folder / "tensorboard", history) if "tensorboard" in names else None
    for logger in own:
        logger.log_hyperparams(dict(facts or {}))
    if "csv" in names:
        write_metrics(folder / "metrics.csv", rows)

    def log(row: Row) -> None:
        rows.append(row)
        if "csv" in names:
            write_metrics(folder / "metrics.csv", rows)
        if events is not None:
            events.log(row)
        for logger in own:
            logger.log_metrics(_figures(row), int(row["epoch"]))

    status = "failed"
    try:
        yield log
        status = "success"
    finally:
        if events is not None:
            events.close()
        for logger in own:
            logger.finalize(status)


def write_metrics(path: Path, rows: Sequence[Row]) -> None:
    """Write one row an epoch as CSV, atomically; a value that was not measured is an empty cell.

    Floats are written with all their digits, so that equal runs give equal files.
    """
    columns = list(dict.fromkeys(name for row in rows for name in row)) or ["epoch"]
    with atomic_path(path) as temporary, open(temporary, "w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


class _EventFile:
    """TensorBoard's scalars, without ``SummaryWriter``, which puts the host's name into the file's: runs travel."""

    def __init__(self, folder: Path, history: Sequence[Row]) -> None:
        from tensorboard.compat.proto import event_pb2, summary_pb2
        from tensorboard.summary.writer.record_writer import RecordWriter

        self._events, self._summaries = event_pb2, summary_pb2
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"events.out.tfevents.{time.time_ns() // 10**9:010d}.{time.time_ns() % 10**9:09d}"
        self._stream = open(path, "xb")  # noqa: SIM115  open for as long as the run
        self._records = RecordWriter(self._stream)
        self._write(file_version="brain.Event:2")
        start = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
        # Readers drop what an earlier, killed process logged from this epoch on. The last one is written again: that
        # process may have ended between its checkpoint and its figures.
        last = history[-1:]
        self._write(step=len(history) + 1 - len(last), session_log=start)
        for row in last:
            self.log(row)

    def log(self, row: Row) -> None:
        value = self._summaries.Summary.Value
        values = [value(tag=name, simple_value=figure) for name, figure in _figures(row).items()]
        self._write(step=int(row["epoch"]), summary=self._summaries.Summary(value=values))

    def close(self) -> None:
        self._stream.close()

    def _write(self, **content: Any) -> None:
        self._records.write(self._events.Event(wall_time=time.time(), **content).SerializeToString())
        self._stream.flush()


def _figures(row: Row) -> dict[str, float]:
    return {name: float(value) for name, value in row.items() if name != "epoch" and value is not None}
