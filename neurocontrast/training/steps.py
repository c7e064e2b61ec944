"""One step of training: from the images of a batch to changed weights and its figures.

A batch that does not fit the device passes in micro-batches. A contrastive loss compares every pair
of a batch, so gradients of smaller batches do not add up to that of a large one. Gradient caching
(Gao, Zhang, Han & Callan 2021):

1. encode micro-batch after micro-batch without graph; only the features are kept;
2. on the features of the whole batch, compute head and loss, and ∂L/∂features with them;
3. encode each micro-batch again, with graph, and back-propagate its part of ∂L/∂features.

Of several processes, the head's gradients are averaged in 2, the encoder's with the last
micro-batch of 3. The result is exact for whatever treats samples one by one. Head and loss see the
whole batch; an encoder's BatchNorm sees a micro-batch (both its views) at a time. Both passes use
the same statistics; the running ones move in the second pass alone. Randomness is keyed, so views
and dropout are the same in both passes. Memory: one micro-batch's graph.
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
"""Key of the sum of a step's views, which is no figure of the step."""
_ADVICE = "lower training.learning_rate or raise objective.temperature"


@dataclass(frozen=True)
class Batch:
    """A batch of an epoch, whose micro-batches are read one after the other."""

    rows: Sequence[int]
    """Rows of the whole batch, of all processes."""
    parts: list[list[int]]
    """Micro-batches of this process."""
    is_cached: bool
    """Whether gradients are cached, for which all micro-batches are read twice."""
    n_batches: int
    """Batches of the epoch."""
    images: Iterator[tuple[Tensor, Tensor]]
    """Reads rows and images of the micro-batches in their order, twice where gradients are cached."""

    @property
    def share(self) -> Tensor:
        """Rows of this process."""
        return torch.tensor(list(chain.from_iterable(self.parts)))


@dataclass(frozen=True)
class Contrasted:
    """Loss of a batch, and the embeddings and metadata that the loss is of."""

    loss: Tensor
    z1: Tensor
    z2: Tensor
    metadata: dict[str, Tensor] | None


def parts_of(
    batch: Sequence[int], micro_batch_size: int | None, *, n_fewest: int = 1
) -> list[list[int]]:
    """Divide a batch into micro-batches of nearly equal size, in order; none is smaller than `n_fewest`."""
    n_parts = 1 if micro_batch_size is None else -(-len(batch) // micro_batch_size)
    n_parts = max(1, min(n_parts, len(batch) // n_fewest))
    return [part.tolist() for part in np.array_split(np.asarray(batch), n_parts)]


def open_batches(
    state: TrainerState, batches: Sequence[Sequence[int]], *, n_done: int = 0
) -> Generator[Batch, None, None]:
    """Yield the batches of an epoch after the first `n_done`; images are read ahead until this is closed."""
    micro = state.settings.micro_batch_size
    # Each encoder of two sees a sample once, and statistics need two values.
    n_fewest = len(state.model.halves)
    parts_of_all = []
    is_cached = []
    passes = []
    for rows in batches[n_done:]:
        parts = parts_of(state.processes.share(rows), micro, n_fewest=n_fewest)
        # All processes must go the same way: where the share of any is more than a micro-batch.
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
    """Set the learning rate of a step, and forget the gradients of the step before."""
    rate = learning_rate_of(
        position.epoch, state.settings, batch=position.batch, n_batches=batch.n_batches
    )
    set_learning_rate(state.optimizer, rate)
    state.optimizer.zero_grad(set_to_none=True)
    state.views_total = None


def contrastive_step(state: ContrastiveState, batch: Batch, position: Position) -> dict[str, float]:
    """Change the weights by the loss of a batch, and return its figures.

    `position` is that of the batch; the caller counts the batch afterwards.
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
    """Add the gradient of a batch that passes the encoder at once to the weights'."""
    rows, images = next(batch.images)
    with drawing(state, position) as occasion:
        features = state.encode_views(images, rows, epoch=occasion)
    del images
    return _backward_of_loss(state, features, rows)


def _backward_of_loss(state: ContrastiveState, features: Tensor, rows: Tensor) -> Contrasted:
    z1, z2 = state.project(features)
    metadata = state.metadata_of(rows, features)
    loss = state.objective(z1, z2, metadata)
    state.fabric.backward(loss)
    average_over_processes([parameter.grad for parameter in state.objective.parameters()])
    return Contrasted(loss, z1, z2, metadata)


def _backward_in_parts(state: ContrastiveState, batch: Batch, position: Position) -> Contrasted:
    """Add the gradient of a batch to the weights', micro-batch by micro-batch."""
    rows = []
    kept = []
    with torch.no_grad(), still_statistics(state.model.encoder):
        for part in range(len(batch.parts)):
            numbers, images = next(batch.images)
            rows.append(numbers)
            with drawing(state, position, part) as occasion:
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
    for part, gradient in enumerate(gradients):
        numbers, images = next(batch.images)
        with state.fabric.no_backward_sync(state.encoder, enabled=part < last):
            with drawing(state, position, part) as occasion:
                again = state.encode_views(images, numbers, epoch=occasion)
            del images
            state.fabric.backward(again, gradient)
    return contrasted


@contextlib.contextmanager
def drawing(state: TrainerState, position: Position, part: int = 0) -> Iterator[int]:
    """Draw what is random in the network, such as dropout, from the step's own seed; leave the global state.

    Gives the key, besides the sample, of the step's views.
    """
    device = state.fabric.device
    keys = state.seed, position.epoch, position.batch, part, state.fabric.global_rank
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(derive_seed("network", *keys))
        yield state.sampler.occasion(position.epoch, position.batch)


@dataclass(frozen=True)
class Outcome:
    """Loss of a batch whose gradients the weights have, and the outputs that the loss is of."""

    loss: Tensor
    outputs: Tensor
    """Outputs of the samples of this process, (n, d)."""
    terms: Mapping[str, Tensor]
    """Other figures of the batch."""


def change_weights(
    state: TrainerState, batch: Batch, position: Position, outcome: Outcome, *, advice: str
) -> dict[str, float]:
    """Change the weights, unless loss or gradient is not finite; return the figures of the batch.

    A refusal names the samples whose outputs are not finite, and ends with `advice`.
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
    """Refuse a loss or gradient that is not finite, and name the samples."""
    # A loss scaler skips steps with infinite gradients itself.
    needed = ("loss",) if state.settings.precision == "16-mixed" else ("loss", "gradient_norm")
    wrong = next((name for name in needed if not math.isfinite(figures[name])), None)
    if wrong is None:
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
