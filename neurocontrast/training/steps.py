"""One step of training: from the images of a batch to changed weights and its figures."""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping, Sequence
from itertools import islice

import torch
from torch import Tensor
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from neurocontrast.collectives import of_all_processes
from neurocontrast.exceptions import TrainingError
from neurocontrast.training.largebatch import backward_in_parts, drawing, parts_of
from neurocontrast.training.optimizers import learning_rate_of
from neurocontrast.training.session import Session
from neurocontrast.training.state import Position

__all__ = ["train_batches"]


def train_batches(
    session: Session, batches: Sequence[Sequence[int]], position: Position
) -> Generator[tuple[Sequence[int], dict[str, float]], None, None]:
    """Take one step a batch; yield the rows of the whole batch, and its figures, after it.

    The weights have changed when a batch is yielded, and change no further until the next is asked for.

    Parameters
    ----------
    session : Session
        What is trained.
    batches : sequence of sequences of int
        Rows of the batches that are left of the epoch.
    position : Position
        Where the run stands; the caller counts each batch after it was yielded.
    """
    n_batches = position.batch + len(batches)
    shares = [session.processes.share(batch) for batch in batches]
    parts = [parts_of(share, session.settings.micro_batch_size) for share in shares]
    cached = [session.caches_gradients(batch) for batch in batches]
    passes = [part for each, twice in zip(parts, cached, strict=True) for part in each * (2 if twice else 1)]
    with session.read(passes) as reading:
        for batch, share, each, twice in zip(batches, shares, parts, cached, strict=True):
            rate = learning_rate_of(position.epoch, session.settings, batch=position.batch, n_batches=n_batches)
            for group in session.optimizer.param_groups:
                group["lr"] = rate
            session.optimizer.zero_grad(set_to_none=True)
            rows = torch.tensor(share)
            if twice:
                contrasted = backward_in_parts(session, islice(reading, 2 * len(each)), len(each), position)
            else:
                contrasted = _backward(session, *next(reading), position)
            yield batch, _finish(session, rows, position, *contrasted)


def _backward(
    session: Session, rows: Tensor, images: Tensor, position: Position
) -> tuple[Tensor, Tensor, Tensor, dict[str, Tensor] | None]:
    with drawing(session, position):
        z1, z2, metadata = session.embed_views(images, rows, epoch=session.occasion(position))
    loss = session.objective(z1, z2, metadata)
    session.fabric.backward(loss)
    return loss, z1, z2, metadata


def _finish(
    session: Session,
    rows: Tensor,
    position: Position,
    loss: Tensor,
    z1: Tensor,
    z2: Tensor,
    metadata: Mapping[str, Tensor] | None,
) -> dict[str, float]:
    """Change the weights, unless loss or gradient is not finite; return the figures of the batch."""
    with torch.no_grad():
        views = z1.detach(), z2.detach()
        terms, bounds = session.objective.terms(*views, metadata), session.objective.bounds(*views, metadata)
    tensors = {"loss": loss, "gradient_norm": _clip(session)}
    tensors |= {f"term_{name}": value for name, value in terms.items()}
    tensors |= {f"bound_{name}": value for name, value in bounds.items()}
    # One transfer from the device for all figures of the step.
    values = torch.stack([value.detach().float() for value in tensors.values()]).tolist()
    figures = dict(zip(tensors, values, strict=True))
    scaled = session.settings.precision == "16-mixed"  # its loss scaler skips steps with infinite gradients itself
    if not math.isfinite(figures["loss"]) or not (scaled or math.isfinite(figures["gradient_norm"])):
        _refuse(session, rows, torch.cat(views, dim=1), position, figures)
    session.optimizer.step()
    if session.average is not None:
        session.average.update_parameters(session.model)
    return figures


def _clip(session: Session) -> Tensor:
    """Clip the gradients where that is asked for; return their norm before."""
    limit = session.settings.clip_norm
    if session.settings.precision == "16-mixed":  # this undoes the loss scaler's factor first
        norm = session.fabric.clip_gradients(
            session.model,
            session.optimizer,
            max_norm=math.inf if limit is None else limit,
            error_if_nonfinite=False,
        )
        assert norm is not None
        return norm
    gradients = [parameter.grad for parameter in session.model.parameters() if parameter.grad is not None]
    norm = get_total_norm(gradients)
    if limit is not None:
        clip_grads_with_norm_(session.model.parameters(), limit, norm)
    return norm


def _refuse(session: Session, rows: Tensor, z: Tensor, position: Position, figures: dict[str, float]) -> None:
    rows, z = of_all_processes(rows.to(z.device)), of_all_processes(z)
    names = session.names_of(rows)
    broken = [name for name, fine in zip(names, z.isfinite().all(dim=1).tolist(), strict=True) if not fine]
    what = "loss" if not math.isfinite(figures["loss"]) else "gradient norm"
    value = figures["loss" if what == "loss" else "gradient_norm"]
    who = f"Samples of the batch: {', '.join(names)}."
    if broken and len(broken) < len(names):
        who = f"Embeddings that are not finite: {', '.join(broken)}. {who}"
    raise TrainingError(
        f"the {what} is {value} in epoch {position.epoch + 1}, batch {position.batch + 1} "
        f"(learning rate {session.optimizer.param_groups[0]['lr']:g}). {who} "
        "Nothing was overwritten: the last checkpoint, if there is one, stands. Look at these with "
        "`neurocontrast check`; if they are sound, lower training.learning_rate or raise objective.temperature."
    )
