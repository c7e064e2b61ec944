"""Fine-tune an encoder with a linear head: cross-entropy for classes, squared error for numbers."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from neurocontrast.encoders.encoder import ContrastiveModel, Encoder, ProjectionHead
from neurocontrast.training.checkpoints import newest_checkpoint
from neurocontrast.training.loop import TrainingOutput, open_training
from neurocontrast.training.position import MetricsRow, Position
from neurocontrast.training.settings import FinetuneSettings
from neurocontrast.training.signals import CheckStop
from neurocontrast.training.steps import Batch, Outcome, begin_step, change_weights, drawing
from neurocontrast.training.supervised_state import ADVICE, LabelledData, SupervisedState, View
from neurocontrast.training.validation import reestimate


@dataclass(frozen=True)
class SupervisedResult:
    """Predictions of a fine-tuned network for test samples, and metrics of the training."""

    predictions: npt.NDArray[np.float64]
    """Predicted probabilities (n_samples, n_classes), or numbers (n_samples,)."""
    metrics: list[MetricsRow]
    """Row of metrics for each epoch."""
    best_epoch: int
    """Epoch whose weights were used to predict; 0 if no epoch was better than the initial
    weights."""
    best_loss: float | None = None
    """Loss of the best epoch on the validation samples; None without validation samples."""


def fit_supervised(
    encoder: Encoder,
    samples: LabelledData,
    *,
    settings: FinetuneSettings,
    pretrained: bool,
    seed: int,
    output: TrainingOutput,
    view: View | None = None,
) -> SupervisedResult:
    """Train an encoder with a linear head, in place, and predict the labels of test samples.

    The result has predicted probabilities or numbers for the test rows, in order, and the metrics
    of each epoch. Predictions use the weights of the epoch with the lowest loss on the validation
    rows; without validation rows, the weights of the last epoch.

    Parameters
    ----------
    encoder : Encoder
        Network, pretrained or with random weights.
    samples : LabelledData
        Images with true labels, and rows of training, validation and test.
    settings : FinetuneSettings
        Number of epochs, learning rates and patience.
    pretrained : bool
        Whether the encoder is pretrained: lower learning rates in earlier blocks and frozen batch
        normalisation then keep weights close to the pretrained weights.
    seed : int
        Seed of the order of samples.
    output : TrainingOutput
        Folder of ``metrics.csv`` and ``checkpoints/``, and whether to continue from there.
    view : callable, optional
        Function that makes the random view of a sample on which to train; by default training uses
        samples as they are.
    """
    labels = samples.labels
    head = ProjectionHead(encoder.n_features, [labels.n_classes or 1], norm="batch")
    state = SupervisedState(
        ContrastiveModel(encoder, head),
        labels,
        samples.data,
        view=view,
        settings=settings,
        pretrained=pretrained,
        seed=seed,
    )
    has_checkpoint = newest_checkpoint(output.folder / "checkpoints") is not None
    if not (output.resume and has_checkpoint):
        state.begin()
    with open_training(state, output, label=f"{output.title}, ", again="The same call") as training:
        for epoch in training.epochs(state.is_over):
            for batch in training.batches(epoch):
                figures = supervised_step(state, batch, training.position)
                training.count(batch, figures)
            training.close_epoch(_measure(state, epoch, training.check_stop))
        best = state.take_best()
        predictions = state.predict(samples.test_rows, training.check_stop)
    metrics = training.position.metrics
    if best is None:
        return SupervisedResult(predictions, metrics, len(metrics))
    return SupervisedResult(predictions, metrics, best.epoch, best.loss)


def supervised_step(state: SupervisedState, batch: Batch, position: Position) -> dict[str, float]:
    """Change the weights by the supervised loss of a batch; return the batch's metrics by name.

    `position` is the progress of the training before the batch. It is not changed here: the caller
    adds the batch to it.
    """
    begin_step(state, batch, position)
    rows, images = next(batch.images)
    with drawing(state, position) as occasion:
        outputs = state.outputs_of(images, rows, epoch=occasion)
    loss = state.loss(outputs, rows)
    state.fabric.backward(loss)
    outcome = Outcome(loss, outputs.detach(), {})
    return change_weights(state, batch, position, outcome, advice=ADVICE)


def _measure(state: SupervisedState, epoch: int, after_batch: CheckStop) -> MetricsRow:
    """Return the validation loss after an epoch as a dictionary with the key ``val_loss``.

    The value is None without validation rows. If the encoder was not pretrained, BatchNorm
    statistics are re-estimated before the loss is computed. If the loss is the lowest so far,
    `state` keeps a copy of the weights. The function `after_batch` is called after each batch; it
    raises an error to stop.
    """
    if not state.pretrained:
        reestimate(state, state.model, after_batch=after_batch)
    loss = state.validation_loss(after_batch)
    state.keep_if_best(epoch, loss)
    return {"val_loss": loss}
