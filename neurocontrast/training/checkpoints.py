"""Save a run's checkpoints, and continue from the newest that can be read."""

from __future__ import annotations

import contextlib
import re
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from neurocontrast.encoders.weights import save_encoder
from neurocontrast.exceptions import CheckpointError, TrainingError
from neurocontrast.progress import Progress
from neurocontrast.training.averaging import averaged_weights
from neurocontrast.training.session import Session
from neurocontrast.training.state import (
    DamagedCheckpoint,
    Position,
    checkpoints_of,
    load_checkpoint,
    newest_checkpoint,
    save_checkpoint,
)

__all__ = ["Checkpoints"]

_WEIGHTS_NAME = re.compile(r"epoch-(\d+)")


class Checkpoints:
    """The checkpoints of one run; its first process writes them, all of them read.

    With a `contract`, which must travel with an encoder, the weights of the last epochs lie beside the checkpoints.
    """

    def __init__(self, session: Session, run: Path, *, contract: Mapping[str, Any] | None, progress: Progress) -> None:
        self.folder = run / "checkpoints"
        self._session, self._run, self._contract, self._progress = session, run, contract, progress
        if session.processes.is_first:
            run.mkdir(parents=True, exist_ok=True)
            self._identity = _identity_of(run)
        self._last = time.monotonic()

    def save(self, position: Position) -> Path:
        """Write a checkpoint, and after an epoch the encoder's weights beside it."""
        path = self.folder
        if self._session.processes.is_first:
            self._check_still_there()
            keep = self._session.settings.keep_checkpoints
            path = save_checkpoint(self.folder, position, self._session.tensors(), keep=keep)
            if position.batch == 0 and position.epoch and self._contract is not None:
                self._save_encoder(position, self._contract)
        self._last = time.monotonic()
        return path

    def save_if_due(self, position: Position) -> None:
        """Save within an epoch, where the last checkpoint is `checkpoint_minutes` old."""
        minutes = self._session.settings.checkpoint_minutes
        if minutes and time.monotonic() - self._last >= 60 * minutes:
            self.save(position)

    def restore(self) -> Position:
        """Continue from the newest checkpoint that can be read, or from the start where there is none."""
        name = self._session.processes.from_first(self._newest_readable() if self._session.processes.is_first else None)
        if name is None:
            return Position()
        path = self.folder / name
        position, tensors = load_checkpoint(path)
        try:
            self._session.restore(tensors)
            software = dict(tensors["software"])
        except (KeyError, RuntimeError, ValueError, TypeError) as error:
            raise CheckpointError(
                f"{path}: the checkpoint does not fit this run ({type(error).__name__}: {error}). Is it of another "
                "run? Remove this file to continue from the checkpoint before it, if there is one, else from the start."
            ) from error
        self._report(path, position, software)
        return position

    def _newest_readable(self) -> str | None:
        damaged: list[str] = []
        while (path := newest_checkpoint(self.folder)) is not None:
            try:
                load_checkpoint(path)
            except DamagedCheckpoint as error:
                if len(checkpoints_of(self.folder)) == 1:
                    others = f" (nor can {', '.join(damaged)})" if damaged else ""
                    raise CheckpointError(f"{error} No checkpoint of this run can be read{others}.") from error
                path.rename(path.with_name(f"{path.name}.damaged"))
                damaged.append(path.name)
                self._progress.warning(
                    f"{path}: damaged, and kept as {path.name}.damaged; continuing from the checkpoint before it, "
                    "to the same weights."
                )
            else:
                return path.name
        return None

    def _report(self, path: Path, position: Position, software: Mapping[str, Any]) -> None:
        differences = [
            f"{name} was {software.get(name)}, is {now}"
            for name, now in self._session.software().items()
            if software.get(name) != now
        ]
        if differences:
            self._progress.warning(
                f"resuming elsewhere: {'; '.join(differences)}. Weights may differ in their last bits."
            )
        within = f" and {position.batch} batches" if position.batch else ""
        self._progress.message(f"continuing from {path.name} ({position.epoch} epochs{within} done)")

    def _save_encoder(self, position: Position, contract: Mapping[str, Any]) -> None:
        facts = {**contract, "epochs": position.epoch, "batchnorm": {"statistics": "running averages of training"}}
        with averaged_weights(self._session.model, self._session.average):
            model = self._session.model
            save_encoder(self.folder / f"epoch-{position.epoch:04d}", model.encoder, facts, head=model.head)
        there = {int(m[1]): path for path in self.folder.glob("epoch-*") if (m := _WEIGHTS_NAME.fullmatch(path.name))}
        for epoch in sorted(there)[: -self._session.settings.keep_checkpoints]:
            shutil.rmtree(there[epoch], ignore_errors=True)

    def _check_still_there(self) -> None:
        found = None
        with contextlib.suppress(OSError):
            found = _identity_of(self._run)
        if found != self._identity:
            what = "is not there any more" if found is None else "is another folder now"
            raise TrainingError(
                f"{self._run}: the run directory {what}: it was removed or moved, or its disk is no longer mounted. "
                "Nothing is written in its place. Bring it back and continue with --resume."
            )


def _identity_of(folder: Path) -> tuple[int, int]:
    found = folder.stat()
    return found.st_dev, found.st_ino
