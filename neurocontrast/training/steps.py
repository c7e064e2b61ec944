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
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from neurocontrast.exceptions import TrainingError
from neurocontrast.parallel.collectives import average_over_processes, of_all_processes
from neurocontrast.seeds import derive_seed
from neurocontrast.training.batchnorm import still_statistics
from neurocontrast.training.optimizers import learning_rate_of, set_learning_rate
from neurocontrast.training.session import BaseSession, Position, Session

Contrasted = tuple[Tensor, Tensor, Tensor, dict[str, Tensor] | None]
"""Loss, embeddings of both views (n, d), and metadata of a batch."""

_VIEWS = "views"
"""Key of the sum of a step's views, which is no figure of the step."""
_ADVICE = "lower training.learning_rate or raise objective.temperature"


def parts_of(
    batch: Sequence[int], micro_batch_size: int | None, *, n_fewest: int = 1
) -> list[list[int]]:
    """Divide a batch into micro-batches of nearly equal size, in order; none is smaller than `n_fewest`."""
    n_parts = 1 if micro_batch_size is None else -(-len(batch) // micro_batch_size)
    n_parts = max(1, min(n_parts, len(batch) // n_fewest))
    return [part.tolist() for part in np.array_split(np.asarray(batch), n_parts)]


def train_batches(
    session: Session, batches: Sequence[Sequence[int]], position: Position
) -> Generator[tuple[Sequence[int], dict[str, float]], None, None]:
    """Take one step a batch; yield the rows of the whole batch, and its figures, after it.

    The weights have changed when a batch is yielded, and change no further until the next is asked
    for. The caller counts each batch in `position` after it was yielded.
    """
    n_batches = position.batch + len(batches)
    micro = session.settings.micro_batch_size
    n_fewest = len(
        session.model.halves
    )  # each encoder of two sees a sample once, and statistics need two values
    parts = [
        parts_of(session.processes.share(batch), micro, n_fewest=n_fewest) for batch in batches
    ]
    # All processes must go the same way: where any one's part of the batch is more than a
    # micro-batch.
    cached = [
        micro is not None and -(-len(batch) // session.processes.size) > micro for batch in batches
    ]
    passes = [
        part
        for each, twice in zip(parts, cached, strict=True)
        for part in each * (2 if twice else 1)
    ]
    with session.read(passes) as reading:
        for batch, each, twice in zip(batches, parts, cached, strict=True):
            rate = learning_rate_of(
                position.epoch, session.settings, batch=position.batch, n_batches=n_batches
            )
            set_learning_rate(session.optimizer, rate)
            session.optimizer.zero_grad(set_to_none=True)
            session.views_total = None
            if twice:
                contrasted = _backward_in_parts(
                    session, islice(reading, 2 * len(each)), len(each), position
                )
            else:
                rows, images = next(reading)
                with drawing(session, position) as occasion:
                    features = session.encode_views(images, rows, epoch=occasion)
                    contrasted = _backward_of_loss(session, features, rows)
                del images, features
            share = torch.tensor([row for part in each for row in part])
            loss, z1, z2, metadata = contrasted
            outputs = torch.cat([z1, z2], dim=1).detach()
            with torch.no_grad():
                figures = session.objective.figures(z1.detach(), z2.detach(), metadata)
            yield batch, take_step(session, share, position, loss, outputs, figures, advice=_ADVICE)


def _backward_of_loss(session: Session, features: Tensor, rows: Tensor) -> Contrasted:
    z1, z2 = session.project(features)
    metadata = session.metadata_of(rows, features)
    loss = session.objective(z1, z2, metadata)
    session.fabric.backward(loss)
    average_over_processes([each.grad for each in session.objective.parameters()])
    return loss, z1, z2, metadata


def _backward_in_parts(
    session: Session, reading: Iterator[tuple[Tensor, Tensor]], n_parts: int, position: Position
) -> Contrasted:
    """Add the gradient of a whole batch to the weights'; `reading` has its micro-batches, and then the same again."""
    rows = []
    kept = []
    with torch.no_grad(), still_statistics(session.model.encoder):
        for part in range(n_parts):
            here, images = next(reading)
            rows.append(here)
            with drawing(session, position, part) as occasion:
                kept.append(session.encode_views(images, here, epoch=occasion))
            del images
    features = torch.cat(kept, dim=1).requires_grad_()
    contrasted = _backward_of_loss(session, features, torch.cat(rows))
    assert features.grad is not None
    scaler = getattr(session.fabric.strategy.precision, "scaler", None)
    if scaler is not None:  # the loss was scaled, and the second pass is scaled again
        features.grad /= scaler.scale(features.new_ones(()))  # a tensor: nothing is waited for
    for part, gradient in enumerate(features.grad.split(list(map(len, rows)), dim=1)):
        here, images = next(reading)
        with session.fabric.no_backward_sync(session.encoder, enabled=part < n_parts - 1):
            with drawing(session, position, part) as occasion:
                again = session.encode_views(images, here, epoch=occasion)
            del images
            session.fabric.backward(again, gradient)
    return contrasted


@contextlib.contextmanager
def drawing(session: BaseSession, position: Position, part: int = 0) -> Iterator[int]:
    """Draw what is random in the network, such as dropout, from the step's own seed; leave the global state.

    Gives the key, besides the sample, of the step's views.
    """
    device = session.fabric.device
    keys = session.seed, position.epoch, position.batch, part, session.fabric.global_rank
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(derive_seed("network", *keys))
        yield session.sampler.occasion(position.epoch, position.batch)


def take_step(
    session: BaseSession,
    rows: Tensor,
    position: Position,
    loss: Tensor,
    outputs: Tensor,
    terms: Mapping[str, Tensor],
    *,
    advice: str,
) -> dict[str, float]:
    """Change the weights, unless loss or gradient is not finite; return the figures of the batch.

    `outputs` are those of the samples `rows`: a refusal names the samples whose outputs are not
    finite. `advice` says what to change then.
    """
    limit = session.settings.clip_norm or math.inf
    norm = session.fabric.clip_gradients(
        session.model, session.optimizer, max_norm=limit, error_if_nonfinite=False
    )
    assert norm is not None  # before clipping, and without the factor of a loss scaler
    tensors = {"loss": loss, "gradient_norm": norm, **terms}
    if session.views_total is not None:
        tensors[_VIEWS] = session.views_total
    # One transfer from the device for all figures of the step.
    values = torch.stack([value.detach().float() for value in tensors.values()]).tolist()
    figures = dict(zip(tensors, values, strict=True))
    if not math.isfinite(figures.pop(_VIEWS, 0.0)):
        session.refuse_views(rows, epoch=session.sampler.occasion(position.epoch, position.batch))
    # A loss scaler skips steps with infinite gradients itself.
    needed = ("loss",) if session.settings.precision == "16-mixed" else ("loss", "gradient_norm")
    wrong = next((name for name in needed if not math.isfinite(figures[name])), None)
    if wrong is not None:
        rows = of_all_processes(rows.to(outputs.device))
        outputs = of_all_processes(outputs)
        names = session.names_of(rows)
        broken = [
            name
            for name, fine in zip(names, outputs.isfinite().all(dim=1).tolist(), strict=True)
            if not fine
        ]
        who = f"Samples of the batch: {', '.join(names)}."
        if broken and len(broken) < len(names):
            who = f"Outputs that are not finite: {', '.join(broken)}. {who}"
        raise TrainingError(
            f"the {wrong.replace('_', ' ')} is {figures[wrong]} in epoch {position.epoch + 1}, batch "
            f"{position.batch + 1} (learning rate {session.optimizer.param_groups[0]['lr']:g}). {who} Nothing was "
            "overwritten: the last checkpoint, if there is one, is kept. Look at these with `neurocontrast check`; if "
            f"they are sound, {advice}."
        )
    session.optimizer.step()
    return figures
