"""Training loop over epochs and batches, with checkpoints and a table of metrics."""

import contextlib
import signal
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pandas as pd

from neurocontrast.documents.document import Json
from neurocontrast.encoders.encoder import ContrastiveModel
from neurocontrast.exceptions import TrainingInterrupted, TrainingSuspended
from neurocontrast.files import write_text
from neurocontrast.parallel.devices import keeping_freed_memory
from neurocontrast.parallel.launch import Engine
from neurocontrast.progress import SILENT, Progress, Task
from neurocontrast.training.checkpoints import Checkpoints, batches_within
from neurocontrast.training.data import PretextTask, TrainingData, fit_objective
from neurocontrast.training.optimizers import learning_rate_of
from neurocontrast.training.position import MetricsRow, Position
from neurocontrast.training.settings import TrainingSettings
from neurocontrast.training.signals import CheckStop, Stopped, stop_requests
from neurocontrast.training.state import ContrastiveState, TrainerState, deterministic
from neurocontrast.training.steps import Batch, contrastive_step, open_batches
from neurocontrast.training.validation import (
    collapse_warning,
    measure_contrast,
    measure_probe,
    reestimate_model,
)


@dataclass(frozen=True)
class FitResult:
    """Result of pretraining: metrics of each epoch, and a record of BatchNorm statistics."""

    metrics: list[MetricsRow]
    batchnorm: Json


@dataclass(frozen=True)
class TrainingOutput:
    """Run directory of a training, and the display of progress."""

    folder: Path
    """Run directory, for ``metrics.csv`` and ``checkpoints/``."""
    resume: bool = False
    """Whether to continue from the newest checkpoint in the folder, if there is one."""
    title: str = "Training"
    """Title of the progress bar, and prefix of messages during fine-tuning."""
    progress: Progress = SILENT
    """Receiver of progress messages."""


def fit(
    model: ContrastiveModel,
    task: PretextTask,
    data: TrainingData,
    *,
    settings: TrainingSettings,
    seed: int,
    output: TrainingOutput,
    engine: Engine | None = None,
) -> FitResult:
    """Pretrain a model by a contrastive loss, in place, with checkpoints and metrics.

    Parameters
    ----------
    model : ContrastiveModel
        Network and projection head; after training, BatchNorm statistics are re-estimated on
        samples without augmentation.
    task : PretextTask
        Views of each sample, and the loss that compares them.
    data : TrainingData
        Images, metadata, and row numbers of training and validation samples.
    settings : TrainingSettings
        Epochs, batches, optimiser and hardware.
    seed : int
        Seed of the order of samples.
    output : TrainingOutput
        Run directory, and whether to continue from a checkpoint there. On a CPU, the weights of a
        run that was stopped and continued equal, bit for bit, the weights of an uninterrupted run
        with the same number of threads and version of PyTorch.
    engine : Engine, optional
        Processes started by `neurocontrast.parallel.launch.joined`; by default processes are
        started as the settings ask.

    Returns
    -------
    FitResult
        Metrics of each epoch, and a record of the BatchNorm statistics.

    Raises
    ------
    ConfigError, DataError
        If settings, metadata or split do not fit the loss.
    TrainingError
        If a loss or gradient is not finite, or a signal has stopped training.
    """
    fit_objective(
        task.objective,
        data.metadata,
        names=data.names,
        training_rows=data.training_rows,
        validation_rows=data.validation_rows,
    )
    sampler = data.sampler(settings, seed, n_encoders=len(model.halves))
    state = ContrastiveState(
        model,
        task.objective,
        task.views,
        data,
        settings=settings,
        sampler=sampler,
        engine=engine,
    )
    return train(state, output)


def train(state: ContrastiveState, output: TrainingOutput) -> FitResult:
    """Train a model in place by a contrastive loss whose kernels are fitted already; see `fit`."""
    with open_training(state, output) as training:
        for epoch in training.epochs():
            for batch in training.batches(epoch):
                figures = contrastive_step(state, batch, training.position)
                training.count(batch, figures)
            figures_of_epoch = _measure(state, epoch, training.check_stop)
            training.close_epoch(figures_of_epoch, warn=collapse_warning)
        batchnorm = reestimate_model(state, after_batch=training.check_stop)
    return FitResult(training.position.metrics, batchnorm)


def _measure(state: ContrastiveState, epoch: int, after_batch: CheckStop) -> MetricsRow:
    """Return metrics of the validation samples after an epoch, by column of ``metrics.csv``.

    Scores of linear probes are among the metrics every `probe_every` epochs of the settings. The
    function `after_batch` is called after each batch; it raises an error to stop.
    """
    row = measure_contrast(state, after_batch=after_batch)
    every = state.settings.probe_every
    if every and (epoch + 1) % every == 0 and len(state.data.validation_rows):
        row |= measure_probe(state, after_batch=after_batch)
    return row


class Warner(Protocol):
    """Function that returns a warning about the metrics of an epoch, or None, and shows nothing."""

    def __call__(self, row: MetricsRow, previous: MetricsRow | None) -> str | None:
        """Return a warning about `row`, the metrics of an epoch, or None if they show no problem.

        `previous` are the metrics of the epoch before; None for the first epoch.
        """


@dataclass
class Training:
    """Training in progress: the epochs and batches left, checkpoints, and rows of ``metrics.csv``.

    `open_training` makes an instance; the functions that pretrain or fine-tune take steps with it.
    """

    state: TrainerState
    folder: Path
    position: Position
    checkpoints: Checkpoints
    check_stop: CheckStop
    """Function that raises `Stopped` if a signal asked to stop; called only when the state can be
    saved."""
    task: Task
    progress: Progress
    label: str = ""
    """Prefix of each message about an epoch."""
    _reading: Generator[Batch, None, None] | None = None
    _started: float = 0.0
    _n_batches: int = 0

    def epochs(
        self, is_over: Callable[[Sequence[MetricsRow]], bool] | None = None
    ) -> Iterator[int]:
        """Yield the number of each epoch not yet trained, from 0, up to ``epochs`` of the settings.

        Before each epoch `is_over`, given the metrics of all finished epochs, may end the training.
        """
        while self.position.epoch < self.state.settings.epochs:
            if is_over is not None and is_over(self.position.metrics):
                return
            yield self.position.epoch
            self.check_stop()

    def batches(self, epoch: int) -> Iterator[Batch]:
        """Put the model in training mode; return an iterator over the batches left of an epoch."""
        batches = self.state.sampler.batches(epoch)
        self._n_batches = len(batches)
        self.state.train()
        self._started = time.perf_counter()
        self._reading = open_batches(self.state, batches, n_done=self.position.batch)
        return self._reading

    def count(self, batch: Batch, figures: Mapping[str, float]) -> None:
        """Count a batch as finished, and save a checkpoint if due.

        If a signal such as Ctrl-C has arrived, save a checkpoint and stop the training.
        """
        self.position.count_batch(figures, n_scans=len(batch.rows))
        now = time.perf_counter()
        self.position.seconds += now - self._started
        self._started = now
        shown = dict(figures)
        shown.pop("gradient_norm", None)
        epoch = f"{self.position.epoch + 1}/{self.state.settings.epochs}"
        self.task.advance(len(batch.rows), epoch=epoch, **shown)
        self.checkpoints.save_if_due(self.position)
        self.check_stop()

    def close_epoch(self, figures: MetricsRow, *, warn: Warner | None = None) -> None:
        """Finish an epoch: write a row of metrics and a checkpoint, and report progress.

        Parameters
        ----------
        figures : dict
            Further metrics of the epoch, such as the validation loss.
        warn : callable, optional
            Function that checks the epoch's metrics against the previous epoch's, and returns a
            text or None; a text is shown to the user as a warning.
        """
        position = self.position
        n_scans = len(self.state.data.training_rows)
        rate = learning_rate_of(
            position.epoch,
            self.state.settings,
            batch=self._n_batches - 1,
            n_batches=self._n_batches,
        )
        row: MetricsRow = {"epoch": position.epoch + 1, "learning_rate": rate}
        row |= position.means(n_scans)
        row |= figures
        row["seconds"] = round(position.seconds + time.perf_counter() - self._started, 3)
        row["samples_per_second"] = round(n_scans / max(position.seconds, 1e-9), 3)
        position.close_epoch(row)
        self.checkpoints.save(position)
        _write_metrics(self.state, self.folder, position.metrics)
        self._report(row)
        if warn is not None:
            previous = None
            if len(position.metrics) > 1:
                previous = position.metrics[-2]
            warning = warn(row, previous)
            if warning is not None:
                self.progress.warning(warning)

    def close(self) -> None:
        """End the threads that read batches in advance."""
        if self._reading is not None:
            self._reading.close()

    def _report(self, row: MetricsRow) -> None:
        """Report `row`, the metrics of a finished epoch, to the user as a message of one line."""
        shown = []
        for name, value in row.items():
            if value is None or name.startswith(("epoch", "seconds", "train_term_")):
                continue
            digits = ".4g"
            if name.startswith("probe_"):
                digits = ".3f"
            shown.append(f"{name.replace('_', ' ')} {value:{digits}}")
        epochs = f"epoch {row['epoch']}/{self.state.settings.epochs}"
        self.progress.message(f"{self.label}{epochs}: {', '.join(shown)}")


@contextlib.contextmanager
def open_training(
    state: TrainerState,
    output: TrainingOutput,
    *,
    label: str = "",
    again: str = "The same command with --resume",
) -> Iterator[Training]:
    """Begin or continue a training: yield a `Training` with the epochs and batches left to train.

    The caller trains within the context. On Ctrl-C (SIGINT), SIGTERM or SIGUSR1, a checkpoint is
    saved, and the error `TrainingInterrupted` ends the training, or `TrainingSuspended` for
    SIGUSR1.

    Parameters
    ----------
    state : TrainerState
        Model, optimiser and data on their device.
    output : TrainingOutput
        Run directory, whether to continue from a checkpoint there, and display of progress.
    label : str
        Prefix of each message about an epoch.
    again : str
        Name of the command or call that continues a stopped training, for a message.
    """
    processes = state.processes
    folder = output.folder
    progress = output.progress
    if not processes.is_first:
        progress = SILENT
    checkpoints = Checkpoints(state, folder, progress=progress)
    position = Position()
    if output.resume:
        position = checkpoints.restore()
    # Rows that were written after the checkpoint are removed.
    _write_metrics(state, folder, position.metrics)
    with (
        stop_requests(processes.largest) as check_stop,
        deterministic(),
        keeping_freed_memory(),
        progress.task(output.title, _n_samples_left(state, position), "samples") as task,
    ):
        training = Training(state, folder, position, checkpoints, check_stop, task, progress, label)
        try:
            with contextlib.closing(training):
                yield training
        except Stopped as stopped:
            # Still within `stop_requests`: a scheduler signals every process, and a second signal
            # may come.
            path = checkpoints.save(position)
            # A launcher may end the other processes when the first has ended.
            processes.wait_for_all()
            error: type[TrainingInterrupted] = TrainingInterrupted
            if stopped.signal == signal.SIGUSR1:
                error = TrainingSuspended
            raise error(
                f"stopped by {stopped} after {position.epoch} of {state.settings.epochs} epochs"
                f"{batches_within(position)}; saved as {path}. {again} continues as if nothing had "
                "happened."
            ) from None


def _n_samples_left(state: TrainerState, position: Position) -> int:
    """Return the number of training samples in all batches still to train, for a progress bar."""
    n_epochs = state.settings.epochs - position.epoch
    done = state.sampler.batches(position.epoch)[: position.batch]
    return n_epochs * len(state.data.training_rows) - sum(map(len, done))


def _write_metrics(state: TrainerState, folder: Path, metrics: Sequence[MetricsRow]) -> None:
    """Write `metrics`, one row an epoch, as ``metrics.csv`` into the run's folder.

    Floats are written with all digits, so that equal runs give equal files. Only the first process
    writes.
    """
    if not state.processes.is_first:
        return
    rows = pd.DataFrame(metrics, dtype=object)
    if not metrics:
        rows = pd.DataFrame(columns=["epoch"], dtype=object)
    write_text(folder / "metrics.csv", rows.to_csv(index=False, lineterminator="\n"))
