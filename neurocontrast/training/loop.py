"""The training loop, from the first batch to an encoder that can be saved, and signals that ask to stop."""

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

import pandas as pd
from lightning_fabric import Fabric

from neurocontrast.encoders.encoder import ContrastiveModel
from neurocontrast.exceptions import TrainingInterrupted, TrainingSuspended
from neurocontrast.files import write_text
from neurocontrast.parallel.collectives import Processes
from neurocontrast.parallel.devices import keeping_freed_memory
from neurocontrast.progress import SILENT, Progress, Task
from neurocontrast.training.checkpoints import Checkpoints
from neurocontrast.training.optimizers import learning_rate_of
from neurocontrast.training.session import (
    AnyObjective,
    BaseSession,
    Position,
    Session,
    TrainingData,
    Views,
    deterministic,
)
from neurocontrast.training.settings import TrainingSettings
from neurocontrast.training.steps import train_batches
from neurocontrast.training.validation import (
    collapse_warning,
    measure_contrast,
    measure_probe,
    reestimate_model,
)

Row = Mapping[str, Any]
Found = TypeVar("Found")


@dataclass(frozen=True)
class FitResult:
    """Rows of ``metrics.csv``, and how BatchNorm's running statistics were re-estimated."""

    metrics: list[dict[str, Any]]
    batchnorm: dict[str, Any]


@dataclass(frozen=True)
class Course:
    """What one kind of training does in each epoch, and when it is over."""

    title: str
    """What the bar of progress is called."""
    steps: Callable[..., Generator[tuple[Sequence[int], dict[str, float]], None, None]]
    """``steps(session, batches, position)`` takes a step a batch, as `train_batches`."""
    measure: Callable[..., dict[str, float | None]]
    """``measure(session, epoch, after_batch=...)`` returns the figures that end an epoch's row of ``metrics.csv``."""
    warn: Callable[[Row, Row | None], str | None] = lambda row, before: None  # noqa: ARG005
    """Returns the warning of a row, given the row of the epoch before it; None for no warning."""
    is_over: Callable[[Sequence[Row]], bool] = lambda rows: False  # noqa: ARG005
    """Returns whether training ends with the rows so far; at the latest it does after ``epochs``."""
    label: str = ""
    """What each line about an epoch begins with."""
    again: str = "The same command with --resume"
    """What continues a training that was stopped."""


def fit(
    model: ContrastiveModel,
    objective: AnyObjective,
    views: Views,
    data: TrainingData,
    *,
    settings: TrainingSettings,
    seed: int,
    folder: Path,
    resume: bool = False,
    progress: Progress = SILENT,
    engine: tuple[Fabric, Processes] | None = None,
) -> FitResult:
    """Train a model in place, with a checkpoint after every epoch, and within one every `checkpoint_minutes`.

    Parameters
    ----------
    model : ContrastiveModel
        Ends with BatchNorm re-estimated on un-augmented samples.
    objective : Objective or SumOfObjectives
        Loss of `neurocontrast.losses`, whose kernel is fitted on the training rows here.
    views : callable
        Makes two views of a batch; see `Views`.
    data : TrainingData
        What is trained on.
    settings, seed : TrainingSettings, int
        How to train; seed of the order of scans.
    folder : Path
        Run directory, for ``metrics.csv`` and ``checkpoints/``.
    resume : bool
        Whether to continue from the newest checkpoint; on a CPU the weights are then bit for bit
        those of a run that was never stopped, given the same number of threads and version of
        PyTorch.
    progress : Progress
        Receives progress messages.
    engine : optional
        What `launch` returned.
    """
    session = Session(model, objective, views, data, settings=settings, seed=seed, engine=engine)
    course = Course("Pretraining", train_batches, _measure, collapse_warning)
    return run_epochs(
        session,
        folder,
        course,
        lambda rows, after_batch: FitResult(
            rows, reestimate_model(session, after_batch=after_batch)
        ),
        resume=resume,
        progress=progress,
    )


def run_epochs(
    session: BaseSession,
    folder: Path,
    course: Course,
    finish: Callable[[list[dict[str, Any]], Callable[[], None]], Found],
    *,
    resume: bool,
    progress: Progress,
) -> Found:
    """Train for as many epochs as a course takes, with checkpoints; return what `finish` makes of the end.

    `finish` is called with the rows of ``metrics.csv``, and with what it must call between batches;
    see `fit`.
    """
    settings = session.settings
    processes = session.processes
    progress = progress if processes.is_first else SILENT
    checkpoints = Checkpoints(session, folder, progress=progress)
    position = checkpoints.restore() if resume else Position()
    done = sum(map(len, session.sampler.batches(position.epoch)[: position.batch]))
    n_left = (settings.epochs - position.epoch) * len(session.data.training_rows) - done

    def write() -> None:
        # Floats have all their digits, so that equal runs give equal files; what was not measured
        # is an empty cell.
        if processes.is_first:
            rows = pd.DataFrame(
                position.metrics, columns=None if position.metrics else ["epoch"], dtype=object
            )
            write_text(folder / "metrics.csv", rows.to_csv(index=False, lineterminator="\n"))

    write()  # takes back what was written after the checkpoint
    with (
        stop_requests(processes.largest) as check_stop,
        deterministic(),
        keeping_freed_memory(),
        progress.task(course.title, n_left, "samples") as task,
    ):
        try:
            while position.epoch < settings.epochs and not course.is_over(position.metrics):
                position.close_epoch(
                    _run_epoch(session, course, position, checkpoints, check_stop, task)
                )
                checkpoints.save(position)
                write()
                _report(position.metrics, course, progress, settings)
                check_stop()
            return finish(position.metrics, check_stop)
        except Stopped as stopped:
            # Still within `stop_requests`: a scheduler signals every process, and a second signal
            # may come.
            path = checkpoints.save(position)
            processes.wait_for_all()  # a launcher may end the others when the first process has ended
            kind = TrainingSuspended if stopped.signal == signal.SIGUSR1 else TrainingInterrupted
            raise kind(
                f"stopped by {stopped} after {position.epoch} of {settings.epochs} epochs"
                + (f" and {position.batch} batches" if position.batch else "")
                + f"; saved as {path}. {course.again} continues as if nothing had happened."
            ) from None


def _run_epoch(
    session: BaseSession,
    course: Course,
    position: Position,
    checkpoints: Checkpoints,
    check_stop: Callable[[], None],
    task: Task,
) -> dict[str, Any]:
    """Train what is left of an epoch, then measure; `position` is whole whenever `check_stop` may raise."""
    settings = session.settings
    epoch = position.epoch
    batches = session.sampler.batches(epoch)
    session.train()
    started = time.perf_counter()
    with contextlib.closing(course.steps(session, batches[position.batch :], position)) as steps:
        for rows, figures in steps:
            position.count_batch(figures, n_scans=len(rows))
            now = time.perf_counter()
            position.seconds = position.seconds + now - started
            started = now
            shown = {name: value for name, value in figures.items() if name != "gradient_norm"}
            task.advance(len(rows), epoch=f"{epoch + 1}/{settings.epochs}", **shown)
            checkpoints.save_if_due(position)
            check_stop()
    n_scans = len(session.data.training_rows)
    row: dict[str, Any] = {
        "epoch": epoch + 1,
        "learning_rate": learning_rate_of(
            epoch, settings, batch=len(batches) - 1, n_batches=len(batches)
        ),
        **{f"train_{name}": value / n_scans for name, value in position.sums.items()},
        "gradient_norm": position.sum_of_norms / position.n_norms if position.n_norms else None,
        **course.measure(session, epoch, after_batch=check_stop),
    }
    row["seconds"] = round(position.seconds + time.perf_counter() - started, 3)
    row["samples_per_second"] = round(n_scans / max(position.seconds, 1e-9), 3)
    return row


def _measure(
    session: Session, epoch: int, *, after_batch: Callable[[], None]
) -> dict[str, float | None]:
    """Return what contrastive training measures after an epoch."""
    row = measure_contrast(session, after_batch=after_batch)
    every = session.settings.probe_every
    if every and (epoch + 1) % every == 0 and len(session.data.validation_rows):
        row |= measure_probe(session, after_batch=after_batch)
    return row


def _report(
    metrics: Sequence[dict[str, Any]],
    course: Course,
    progress: Progress,
    settings: TrainingSettings,
) -> None:
    row = metrics[-1]
    previous = metrics[-2] if len(metrics) > 1 else None
    shown = [
        f"{name.replace('_', ' ')} {value:{'.3f' if name.startswith('probe_') else '.4g'}}"
        for name, value in row.items()
        if value is not None and not name.startswith(("epoch", "seconds", "train_term_"))
    ]
    progress.message(f"{course.label}epoch {row['epoch']}/{settings.epochs}: {', '.join(shown)}")
    warning = course.warn(row, previous)
    if warning is not None:
        progress.warning(warning)


class Stopped(Exception):
    """Training was asked to stop by `signal`; raised only where its state is whole."""

    def __init__(self, number: int) -> None:
        self.signal = signal.Signals(number)
        super().__init__(self.signal.name)


@contextlib.contextmanager
def stop_requests(
    agree: Callable[[int], int] = lambda number: number,
) -> Iterator[Callable[[], None]]:
    """Note the first SIGINT, SIGTERM or SIGUSR1, and give a function that raises `Stopped` for it.

    A second signal acts at once. Given this process's signal, or 0, `agree` returns the one that
    all processes act on. Outside the main thread signals stay as they are.
    """
    noted = 0
    previous = dict[signal.Signals, Any]()

    def put_back() -> None:
        while previous:
            signal.signal(*previous.popitem())

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal noted
        del frame
        noted = number
        put_back()

    def check() -> None:
        if number := agree(noted):
            raise Stopped(number)

    if threading.current_thread() is threading.main_thread():
        for which in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
            previous[which] = signal.signal(which, note)
    try:
        yield check
    finally:
        put_back()


@contextlib.contextmanager
def suspending() -> Iterator[None]:
    """Let SIGUSR1, which would kill, end the process as one to be started again, where there is nothing to save."""

    def suspend(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise TrainingSuspended(
            "stopped by SIGUSR1 with nothing to save; the same command with --resume goes on."
        )

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGUSR1, suspend)
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)
