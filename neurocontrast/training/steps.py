"""Take a training step: from the images of a batch to changed weights and metrics.

A batch that does not fit in the device's memory is encoded in micro-batches. A contrastive loss
compares every pair of a batch, so gradients of smaller batches do not add up to the gradient of a
large batch. Gradient caching (Gao, Zhang, Han & Callan 2021):

1. encode micro-batch after micro-batch without graph, and keep only the features;
2. compute head and loss on the features of the whole batch, and the gradient ∂L/∂features;
3. encode each micro-batch again, with graph, and back-propagate its rows of ∂L/∂features.

With several processes, gradients of the head are averaged in step 2, gradients of the encoder with
the last micro-batch of step 3. The result is exact for layers that treat samples one by one. Head
and loss see the whole batch; an encoder's BatchNorm sees one micro-batch, both views of its
samples, at a time. Both passes use the same statistics; running statistics move in the second pass
alone. Randomness is keyed, so that views and dropout are equal in both passes. Memory holds the
graph of one micro-batch.
"""

import contextlib
import math
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from neurocontrast.exceptions import TrainingError
from neurocontrast.parallel.collectives import average_over_processes, of_all_processes
from neurocontrast.seeds import derive_seed
from neurocontrast.training.batchnorm import still_statistics
from neurocontrast.training.optimizers import learning_rate_of, set_learning_rate
from neurocontrast.training.position import Position
from neurocontrast.training.state import ContrastiveState, TrainerState

_VIEWS = "views"
"""Key of the sum of a step's views, which is read together with the metrics but is not a metric."""
_ADVICE = "lower training.learning_rate or raise objective.temperature"


@dataclass(frozen=True)
class Batch:
    """Batch of an epoch, with an iterator that reads the images micro-batch by micro-batch."""

    rows: Sequence[int]
    """Row numbers of the whole batch, over all processes."""
    parts: list[list[int]]
    """Row numbers of each micro-batch of this process."""
    is_cached: bool
    """Whether gradients are cached, for which every micro-batch is read twice."""
    n_batches: int
    """Number of batches in the epoch."""
    images: Iterator[tuple[Tensor, Tensor]]
    """Iterator over row numbers and images of the micro-batches, in order, twice if gradients are
    cached."""

    @property
    def share(self) -> Tensor:
        """Row numbers of the samples of the batch that this process encodes."""
        return torch.tensor(list(chain.from_iterable(self.parts)))


@dataclass(frozen=True)
class Contrasted:
    """Contrastive loss of a batch, with the embeddings and metadata that the loss compares.

    `z1` and `z2` are the embeddings of the two views, (n, d); the metadata are columns, or None.
    """

    loss: Tensor
    z1: Tensor
    z2: Tensor
    metadata: dict[str, Tensor] | None


def parts_of(
    batch: Sequence[int], micro_batch_size: int | None, *, n_fewest: int = 1
) -> list[list[int]]:
    """Divide a batch, in order, into micro-batches of nearly equal size.

    Parameters
    ----------
    batch : sequence of int
        Row numbers of the batch.
    micro_batch_size : int or None
        Largest number of rows in a micro-batch; None for one micro-batch.
    n_fewest : int
        Smallest number of rows in a micro-batch, which takes precedence over the largest number.
    """
    n_parts = 1
    if micro_batch_size is not None:
        n_parts = -(-len(batch) // micro_batch_size)
    n_parts = max(1, min(n_parts, len(batch) // n_fewest))
    return list(map(np.ndarray.tolist, np.array_split(np.asarray(batch), n_parts)))


def open_batches(
    state: TrainerState, batches: Sequence[Sequence[int]], *, n_done: int = 0
) -> Generator[Batch, None, None]:
    """Yield the batches of an epoch after the first `n_done`, reading images in advance.

    Threads that read in advance end when the generator is closed.
    """
    micro = state.settings.micro_batch_size
    # Each of two encoders sees a sample once, and statistics need two values.
    n_fewest = len(state.model.halves)
    parts_of_all = []
    is_cached = []
    passes = []
    for rows in batches[n_done:]:
        parts = parts_of(state.processes.share(rows), micro, n_fewest=n_fewest)
        # All processes must cache gradients if the share of any exceeds a micro-batch.
        is_larger = micro is not None and -(-len(rows) // state.processes.size) > micro
        parts_of_all.append(parts)
        is_cached.append(is_larger)
        passes.extend(parts)
        if is_larger:
            passes.extend(parts)
    with state.read(passes) as images:
        for rows, parts, is_larger in zip(batches[n_done:], parts_of_all, is_cached, strict=True):
            yield Batch(rows, parts, is_larger, len(batches), images)


def begin_step(state: TrainerState, batch: Batch, position: Position) -> None:
    """Prepare a training step: set the learning rate, and clear gradients and `views_total`.

    `views_total` of `state` is the sum of all values of the step's random views, by which views
    that are not finite are noticed.
    """
    rate = learning_rate_of(
        position.epoch, state.settings, batch=position.batch, n_batches=batch.n_batches
    )
    set_learning_rate(state.optimizer, rate)
    state.optimizer.zero_grad(set_to_none=True)
    state.views_total = None


def contrastive_step(state: ContrastiveState, batch: Batch, position: Position) -> dict[str, float]:
    """Change the weights by the contrastive loss of a batch, and return the batch's metrics.

    `position` is the progress of the training before the batch. It is not changed here: the caller
    adds the batch to it.
    """
    begin_step(state, batch, position)
    if batch.is_cached:
        contrasted = _backward_in_parts(state, batch, position)
    else:
        contrasted = _backward_at_once(state, batch, position)
    outputs = torch.cat([contrasted.z1, contrasted.z2], dim=1).detach()
    with torch.no_grad():
        terms = state.objective.figures(
            contrasted.z1.detach(), contrasted.z2.detach(), contrasted.metadata
        )
    outcome = Outcome(contrasted.loss, outputs, terms)
    return change_weights(state, batch, position, outcome, advice=_ADVICE)


def _backward_at_once(state: ContrastiveState, batch: Batch, position: Position) -> Contrasted:
    """Compute a batch's contrastive loss and its gradients, encoding the whole batch in one pass.

    Gradients are added to ``grad`` of each weight, and no weight changes. Returned are the loss,
    the embeddings of the batch's two views, and its metadata.
    """
    rows, images = next(batch.images)
    with drawing(state, position) as occasion:
        features = state.encode_views(images, rows, epoch=occasion)
    del images
    return _backward_of_loss(state, features, rows)


def _backward_of_loss(state: ContrastiveState, features: Tensor, rows: Tensor) -> Contrasted:
    """Compute the contrastive loss of `features` (2, n, n_features), and back-propagate the loss.

    Gradients are added to ``grad`` of the projection head's weights and of a learned temperature.
    If `features` come from the encoder with its graph of operations, gradients are added to the
    encoder's weights too; if `features` are cached numbers, to ``features.grad``. `rows` are the
    row numbers of the n samples. Returned are the loss, the embeddings of both views, and the
    metadata that the loss compares.
    """
    z1, z2 = state.project(features)
    metadata = state.metadata_of(rows, features)
    loss = state.objective(z1, z2, metadata)
    state.fabric.backward(loss)
    average_over_processes([parameter.grad for parameter in state.objective.parameters()])
    return Contrasted(loss, z1, z2, metadata)


def _backward_in_parts(state: ContrastiveState, batch: Batch, position: Position) -> Contrasted:
    """Compute a batch's contrastive loss and its gradients, encoding one micro-batch at a time.

    Gradients of features are cached, as the module's description says. Gradients are added to
    ``grad`` of each weight, and no weight changes. Returned are the loss of the whole batch, the
    embeddings of its two views, and its metadata.
    """
    rows = []
    kept = []
    with torch.no_grad(), still_statistics(state.model.encoder):
        for number in range(len(batch.parts)):
            numbers, images = next(batch.images)
            rows.append(numbers)
            with drawing(state, position, number) as occasion:
                kept.append(state.encode_views(images, numbers, epoch=occasion))
            del images
    features = torch.cat(kept, dim=1).requires_grad_()
    contrasted = _backward_of_loss(state, features, torch.cat(rows))
    assert features.grad is not None
    scaler = getattr(state.fabric.strategy.precision, "scaler", None)
    if scaler is not None:  # the loss was scaled, and the second pass is scaled again
        features.grad /= scaler.scale(features.new_ones(()))  # a tensor: nothing is waited for
    gradients = features.grad.split(list(map(len, rows)), dim=1)
    last = len(gradients) - 1
    for number, gradient in enumerate(gradients):
        numbers, images = next(batch.images)
        with state.fabric.no_backward_sync(state.encoder, enabled=number < last):
            with drawing(state, position, number) as occasion:
                again = state.encode_views(images, numbers, epoch=occasion)
            del images
            state.fabric.backward(again, gradient)
    return contrasted


@contextlib.contextmanager
def drawing(state: TrainerState, position: Position, part: int = 0) -> Iterator[int]:
    """Seed the network's random choices, such as dropout, by the step, until the context ends.

    PyTorch's global random state is restored afterwards.

    Parameters
    ----------
    state : TrainerState
        State of the training, with the seed.
    position : Position
        Epoch and batch of the step.
    part : int
        Number of the micro-batch.

    Yields
    ------
    int
        Number that, with the sample's name, determines the random views of the step.
    """
    keys = state.seed, position.epoch, position.batch, part, state.fabric.global_rank
    devices = []
    if state.fabric.device.type == "cuda":
        devices.append(state.fabric.device)
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(derive_seed("network", *keys))
        yield state.sampler.occasion(position.epoch, position.batch)


@dataclass(frozen=True)
class Outcome:
    """Loss of a batch after back-propagation, with the network's outputs, for `change_weights`."""

    loss: Tensor
    outputs: Tensor
    """Outputs of the network for this process's samples, (n, d)."""
    terms: Mapping[str, Tensor]
    """Metrics of the batch besides the loss, by name, such as the parts of the loss."""


def change_weights(
    state: TrainerState, batch: Batch, position: Position, outcome: Outcome, *, advice: str
) -> dict[str, float]:
    """Change the weights by their gradients, and return the metrics of the batch.

    Parameters
    ----------
    state : TrainerState
        State of the training, with model and optimiser.
    batch : Batch
        Batch whose gradients were computed.
    position : Position
        Epoch and batch, for messages.
    outcome : Outcome
        Loss, outputs and further metrics of the batch.
    advice : str
        Advice at the end of the message if the loss is not finite.

    Raises
    ------
    TrainingError
        If loss or gradient is not finite, naming the samples whose outputs are not finite.
    """
    norm = state.fabric.clip_gradients(
        state.model,
        state.optimizer,
        max_norm=state.settings.clip_norm or math.inf,
        error_if_nonfinite=False,
    )
    assert norm is not None  # before clipping, and without the factor of a loss scaler
    tensors = {"loss": outcome.loss, "gradient_norm": norm, **outcome.terms}
    if state.views_total is not None:
        tensors[_VIEWS] = state.views_total
    # One transfer from the device for all figures of the step.
    values = torch.stack([value.detach().float() for value in tensors.values()]).tolist()
    figures = dict(zip(tensors, values, strict=True))
    if not math.isfinite(figures.pop(_VIEWS, 0.0)):
        occasion = state.sampler.occasion(position.epoch, position.batch)
        state.refuse_views(batch.share, epoch=occasion)
    _refuse_infinite(state, batch, position, outcome.outputs, figures, advice=advice)
    state.optimizer.step()
    return figures


def _refuse_infinite(
    state: TrainerState,
    batch: Batch,
    position: Position,
    outputs: Tensor,
    figures: Mapping[str, float],
    *,
    advice: str,
) -> None:
    """Raise a TrainingError if the loss or gradient norm of a step, in `figures`, is not finite.

    The message names the samples whose `outputs` are not finite, and ends with `advice`. A gradient
    norm that is not finite passes with a loss scaler (``16-mixed``), which skips such steps.
    """
    # A loss scaler skips steps with infinite gradients.
    checks_gradient = state.settings.precision != "16-mixed"
    if not math.isfinite(figures["loss"]):
        wrong = "loss"
    elif checks_gradient and not math.isfinite(figures["gradient_norm"]):
        wrong = "gradient_norm"
    else:
        return
    rows = of_all_processes(batch.share.to(outputs.device))
    is_finite = of_all_processes(outputs).isfinite().all(dim=1).tolist()
    names = state.names_of(rows)
    broken = [name for name, fine in zip(names, is_finite, strict=True) if not fine]
    who = f"Samples of the batch: {', '.join(names)}."
    if broken and len(broken) < len(names):
        who = f"Outputs that are not finite: {', '.join(broken)}. {who}"
    rate = state.optimizer.param_groups[0]["lr"]
    raise TrainingError(
        f"the {wrong.replace('_', ' ')} is {figures[wrong]} in epoch {position.epoch + 1}, batch "
        f"{position.batch + 1} (learning rate {rate:g}). {who} Nothing was overwritten: the last "
        "checkpoint, if there is one, is kept. Look at these with `neurocontrast check`; if they "
        f"are sound, {advice}."
    )
