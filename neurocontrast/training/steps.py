"""One step of training: from the volumes of a batch to changed weights and its figures."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence

import torch
from torch.nn.utils import get_total_norm

from neurocontrast.exceptions import TrainingError
from neurocontrast.training.optimizers import learning_rate_of
from neurocontrast.training.session import Session
from neurocontrast.training.state import Position

__all__ = ["train_batch", "train_batches"]


def train_batches(
    session: Session, batches: Sequence[Sequence[int]], position: Position
) -> Generator[tuple[Sequence[int], dict[str, float]], None, None]:
    """Take one step a batch; yield the batch's rows and figures after it.

    The weights have changed when a batch is yielded, and change no further until the next is asked for.
    """
    with session.read(batches) as reading:
        for batch, (rows, volumes) in zip(batches, reading, strict=True):
            yield batch, train_batch(session, rows, volumes, position)


def train_batch(session: Session, rows: torch.Tensor, volumes: torch.Tensor, position: Position) -> dict[str, float]:
    """Take one step, unless loss or gradient is not finite; return the figures of the batch."""
    session.optimizer.zero_grad(set_to_none=True)
    z1, z2, metadata = session.embed_views(volumes, rows, epoch=position.epoch)
    loss = session.objective(z1, z2, metadata)
    with torch.no_grad():
        views = z1.detach(), z2.detach()
        terms, bounds = session.objective.terms(*views, metadata), session.objective.bounds(*views, metadata)
    session.fabric.backward(loss)
    norm = _gradient_norm(session)
    tensors = {"loss": loss, "gradient_norm": norm}
    tensors |= {f"term_{name}": value for name, value in terms.items()}
    tensors |= {f"bound_{name}": value for name, value in bounds.items()}
    # One transfer from the device for all figures of the step.
    values = torch.stack([value.detach().float() for value in tensors.values()]).tolist()
    figures = dict(zip(tensors, values, strict=True))
    scaled = session.settings.precision == "16-mixed"  # its loss scaler skips steps with infinite gradients itself
    if not math.isfinite(figures["loss"]) or not (scaled or math.isfinite(figures["gradient_norm"])):
        _refuse(session, rows, torch.cat([z1, z2], dim=1).detach(), position, figures)
    session.optimizer.step()
    return figures


def _gradient_norm(session: Session) -> torch.Tensor:
    if session.settings.precision == "16-mixed":  # clipping undoes the loss scaler's factor first
        norm = session.fabric.clip_gradients(
            session.forward, session.optimizer, max_norm=math.inf, error_if_nonfinite=False
        )
        assert norm is not None
        return norm
    return get_total_norm(parameter.grad for parameter in session.model.parameters() if parameter.grad is not None)


def _refuse(
    session: Session, rows: torch.Tensor, z: torch.Tensor, position: Position, figures: dict[str, float]
) -> None:
    names = [session.data.names[row] for row in rows.tolist()]
    broken = [name for name, fine in zip(names, z.isfinite().all(dim=1).tolist(), strict=True) if not fine]
    what = "loss" if not math.isfinite(figures["loss"]) else "gradient norm"
    value = figures["loss" if what == "loss" else "gradient_norm"]
    who = f"Scans of the batch: {', '.join(names)}."
    if broken and len(broken) < len(names):
        who = f"Embeddings that are not finite: {', '.join(broken)}. {who}"
    raise TrainingError(
        f"the {what} is {value} in epoch {position.epoch + 1}, batch {position.batch + 1} "
        f"(learning rate {learning_rate_of(position.epoch, session.settings):g}). {who} "
        "Nothing was overwritten: the last checkpoint, if there is one, stands. Look at these scans with "
        "`neurocontrast check`; if they are sound, lower training.learning_rate or raise objective.temperature."
    )
