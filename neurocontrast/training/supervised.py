"""Train an encoder with a linear head: classes by cross-entropy, numbers by squared error."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from neurocontrast.encoders.encoder import ContrastiveModel, Encoder, ProjectionHead
from neurocontrast.progress import SILENT, Progress
from neurocontrast.training.checkpoints import newest_checkpoint
from neurocontrast.training.data import TrainingData
from neurocontrast.training.loop import open_training
from neurocontrast.training.position import MetricsRow, Position
from neurocontrast.training.settings import FinetuneSettings
from neurocontrast.training.signals import CheckStop
from neurocontrast.training.steps import Batch, Outcome, begin_step, change_weights, drawing
from neurocontrast.training.supervised_state import ADVICE, Labels, SupervisedState, View
from neurocontrast.training.validation import reestimate


@dataclass(frozen=True)
class SupervisedResult:
    """Predictions of a trained network for tested samples, and figures of its training."""

    predictions: npt.NDArray[np.float64]
    """Probabilities (n_samples, n_classes), or numbers (n_samples,)."""
    metrics: list[MetricsRow]
    """One row an epoch."""
    best_epoch: int
    """Epoch whose weights predict; 0 if no epoch was better than the first weights."""
    best_loss: float | None = None
    """Loss of the best epoch on the validation samples; None without validation samples."""


def fit_supervised(
    encoder: Encoder,
    labels: Labels,
    data: TrainingData,
    test_rows: Sequence[int],
    *,
    settings: FinetuneSettings,
    pretrained: bool,
    seed: int,
    folder: Path,
    view: View | None = None,
    title: str = "Fine-tuning",
    progress: Progress = SILENT,
) -> SupervisedResult:
    """Train an encoder in place with a linear head, and predict other samples.

    The weights of the best epoch predict, by the loss on the validation rows; without validation
    rows, the weights of the last epoch. Training continues from the newest checkpoint in `folder`.

    Parameters
    ----------
    encoder : Encoder
        Network, pretrained or with random weights.
    labels : Labels
        True labels of all samples.
    data : TrainingData
        Images, and rows of training and validation.
    test_rows : sequence of int
        Rows to predict.
    settings : FinetuneSettings
        Epochs, learning rates and patience.
    pretrained : bool
        Whether weights are kept near the pretrained ones, by a rate for each block and by the
        statistics of pretraining.
    seed : int
        Seed of the order of samples.
    folder : Path
        Folder of ``metrics.csv`` and ``checkpoints/``.
    view : callable, optional
        Makes the random view that is shown in place of a sample.
    title : str
        Title of the bar of progress.
    progress : Progress
        Receives progress messages.
    """
    head = ProjectionHead(encoder.n_features, [labels.n_classes or 1], norm="batch")
    state = SupervisedState(
        ContrastiveModel(encoder, head),
        labels,
        data,
        view=view,
        settings=settings,
        pretrained=pretrained,
        seed=seed,
    )
    resume = newest_checkpoint(folder / "checkpoints") is not None
    if not resume:
        state.begin()
    with open_training(
        state,
        folder,
        title=title,
        resume=resume,
        progress=progress,
        label=f"{title}, ",
        again="The same call",
    ) as training:
        for epoch in training.epochs(state.is_over):
            for batch in training.batches(epoch):
                figures = supervised_step(state, batch, training.position)
                training.count(batch, figures)
            training.close_epoch(_measure(state, epoch, training.check_stop))
        best = state.take_best()
        predictions = state.predict(test_rows, training.check_stop)
    metrics = training.position.metrics
    if best is None:
        return SupervisedResult(predictions, metrics, len(metrics))
    return SupervisedResult(predictions, metrics, best.epoch, best.loss)


def supervised_step(state: SupervisedState, batch: Batch, position: Position) -> dict[str, float]:
    """Change the weights by the supervised loss of a batch, and return the batch's figures."""
    begin_step(state, batch, position)
    rows, images = next(batch.images)
    with drawing(state, position) as occasion:
        outputs = state.outputs_of(images, rows, epoch=occasion)
    loss = state.loss(outputs, rows)
    state.fabric.backward(loss)
    outcome = Outcome(loss, outputs.detach(), {})
    return change_weights(state, batch, position, outcome, advice=ADVICE)


def _measure(state: SupervisedState, epoch: int, after_batch: CheckStop) -> MetricsRow:
    """Measure the loss on the validation rows, from scratch after re-estimating statistics."""
    if not state.pretrained:
        reestimate(state, state.model, after_batch=after_batch)
    loss = state.validation_loss(after_batch)
    state.keep_if_best(epoch, loss)
    return {"val_loss": loss}
