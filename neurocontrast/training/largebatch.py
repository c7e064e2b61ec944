"""The gradient of a batch that does not fit the device, from micro-batches that do.

A contrastive loss compares every pair of a batch with every other, so gradients of smaller
batches do not add up to that of a large one. Gradient caching (Gao, Zhang, Han & Callan 2021) does:

1. encode micro-batch after micro-batch without graph; only the features are kept;
2. on the features of the whole batch, compute head and loss, and ∂L/∂features with them;
3. encode each micro-batch again, with graph, and back-propagate its part of ∂L/∂features.

Of several processes, the head's gradients are averaged in 2, the encoder's with the last micro-batch of 3.

Exact for whatever treats samples one by one. Head and loss see the whole batch, so the head's batch normalisation
and its running statistics are those of one large step. An encoder's BatchNorm sees a micro-batch (both its views) at a
time: its statistics, and the gradient through them, are a micro-batch's. Both passes use the same statistics; the
running ones move in the second pass alone, once a micro-batch.

Memory: one micro-batch's graph. Images are read, and views made, again in the second pass; randomness is keyed, so
they are the same, and so is dropout. Only the features, their gradient, the embeddings and the metadata grow with
the batch: about 20 KiB a pair for 1,024 features, where one volume of 121×145×121 has 8 MiB.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from itertools import pairwise

import torch
from torch import Tensor

from neurocontrast.seeds import derive_seed
from neurocontrast.training.batchnorm import layers_of, still_statistics
from neurocontrast.training.session import Session
from neurocontrast.training.state import Position

__all__ = ["backward_in_parts", "drawing", "inexactness_of", "parts_of"]

Read = Iterator[tuple[Tensor, Tensor]]
"""Rows (n,) and images (n, …), micro-batch by micro-batch."""


def parts_of(batch: Sequence[int], micro_batch_size: int | None) -> list[list[int]]:
    """Divide a batch into micro-batches of nearly equal size, in order.

    Examples
    --------
    >>> parts_of([4, 0, 2, 1, 3], 2)
    [[4, 0], [2, 1], [3]]
    """
    rows = list(batch)
    n_parts = 1 if micro_batch_size is None else -(-len(rows) // micro_batch_size)
    short, n_longer = divmod(len(rows), n_parts)
    ends = [short * part + min(part, n_longer) for part in range(n_parts + 1)]
    return [rows[start:end] for start, end in pairwise(ends)]


def inexactness_of(session: Session) -> str | None:
    """Say what of a run in micro-batches is not as with whole batches; None where nothing differs."""
    micro, whole = session.settings.micro_batch_size, session.settings.batch_size
    if micro is None or micro >= whole or not layers_of(session.model.encoder):
        return None
    return (
        f"training.micro_batch_size: the loss is that of whole batches of {whole}, but the encoder's BatchNorm sees "
        f"{micro} sample{'s' if micro > 1 else ''} at a time, so the gradient is not a whole batch's. "
        "With encoder.norm: group it is."
    )


def backward_in_parts(
    session: Session, reading: Read, n_parts: int, position: Position
) -> tuple[Tensor, Tensor, Tensor, dict[str, Tensor] | None]:
    """Add the gradient of a whole batch to the weights', with the memory of a micro-batch.

    Parameters
    ----------
    session : Session
        Model, views and objective.
    reading : iterator of (rows, images)
        The batch's micro-batches, and then the same ones once more.
    n_parts : int
        How many micro-batches the batch has.
    position : Position
        Names the randomness of the step.

    Returns
    -------
    loss : Tensor
        Of the whole batch.
    z1, z2 : Tensor (n, d)
        Embeddings of the whole batch.
    metadata : dict of Tensor or None
        Of the whole batch.
    """
    rows, kept = [], []
    with torch.no_grad(), still_statistics(session.model.encoder):
        for part in range(n_parts):
            here, images = next(reading)
            rows.append(here)
            with drawing(session, position, part):
                kept.append(session.encode_views(images, here, epoch=session.occasion(position)))
            del images
    features = torch.cat(kept, dim=1).requires_grad_()
    z1, z2 = session.project(features)
    metadata = session.metadata_of(torch.cat(rows))
    loss = session.objective(z1, z2, metadata)
    session.fabric.backward(loss)
    assert features.grad is not None
    scaler = getattr(session.fabric.strategy.precision, "scaler", None)
    if scaler is not None:  # the loss was scaled, and the second pass is scaled again
        features.grad /= scaler.get_scale()
    for part, gradient in enumerate(features.grad.split([len(here) for here in rows], dim=1)):
        here, images = next(reading)
        with session.fabric.no_backward_sync(session.encoder, enabled=part < n_parts - 1):
            with drawing(session, position, part):
                again = session.encode_views(images, here, epoch=session.occasion(position))
            del images
            session.fabric.backward(again, gradient)
    return loss, z1, z2, metadata


@contextlib.contextmanager
def drawing(session: Session, position: Position, part: int = 0) -> Iterator[None]:
    """Draw what is random in the network, such as dropout, from the step's own seed; leave the global state."""
    device = session.fabric.device
    keys = session.seed, position.epoch, position.batch, part, session.fabric.global_rank
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(derive_seed("network", *keys))
        yield
