"""Checkpoints on disk, each written whole or not at all, and the newest that can be read."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import shutil
import time
import zipfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from neurocontrast.encoders.weights import save_encoder
from neurocontrast.exceptions import CheckpointError, TrainingError
from neurocontrast.files import atomic_path
from neurocontrast.progress import Progress
from neurocontrast.training.session import BaseSession, Position

__all__ = ["Checkpoints", "DamagedCheckpoint", "epochs_of", "load_checkpoint", "newest_checkpoint", "save_checkpoint"]

_FORMAT = 1
# Errors of reading that damaged content leads to; others, such as of permissions, say that a file is out of reach.
_OF_DAMAGE = (None, errno.EINVAL, errno.EIO)
_NAME = re.compile(r"epoch-(\d+)(?:-batch-(\d+))?\.pt")


class DamagedCheckpoint(CheckpointError):
    """A checkpoint whose bytes are not those that were written."""


def save_checkpoint(folder: Path, position: Position, tensors: dict[str, Any], *, keep: int) -> Path:
    """Write a checkpoint atomically, then remove all but the last `keep`; return its path.

    `tensors` is the state of model, optimiser, objective …: tensors, numbers and text only.
    """
    name = f"epoch-{position.epoch:04d}" + (f"-batch-{position.batch:06d}" if position.batch else "") + ".pt"
    content = io.BytesIO()  # PyTorch, writing to a file, hides why it could not
    torch.save({"format": _FORMAT, "position": asdict(position), **tensors}, content)
    with atomic_path(folder / name) as temporary:
        try:
            temporary.write_bytes(content.getbuffer())
        except OSError as error:
            there = _checkpoints_of(folder)
            kept = f"{there[-1].name} is whole" if there else "There is none before it"
            advice = f"{error.strerror}. {kept}. Make room and continue with --resume"
            raise OSError(error.errno, advice, str(temporary)) from error
    for old in _checkpoints_of(folder)[:-keep]:
        old.unlink(missing_ok=True)
    return folder / name


def newest_checkpoint(folder: str | os.PathLike[str]) -> Path | None:
    """Return the checkpoint that has come furthest, or None."""
    found = _checkpoints_of(Path(folder))
    return found[-1] if found else None


def epochs_of(checkpoint: Path) -> int:
    """Return how many epochs a checkpoint has behind it, as its name says."""
    return int(checkpoint.stem.split("-")[1])


def load_checkpoint(path: Path) -> tuple[Position, dict[str, Any]]:
    """Read a checkpoint, running no code from it: how far training had come, and what `save_checkpoint` was given.

    Raises `DamagedCheckpoint` where the content is not what was written, and another `CheckpointError` where it is of
    another format or out of reach.
    """
    try:
        _verify(path)
        content = torch.load(path, map_location="cpu", weights_only=True)
        if content["format"] != _FORMAT:
            raise CheckpointError(f"{path}: checkpoint format {content['format']!r} is not known to this version.")
        position = Position(**content.pop("position"))
    except (CheckpointError, MemoryError):
        raise
    except Exception as error:  # what was not written as a checkpoint may fail to be read in any way
        if isinstance(error, OSError) and error.errno not in _OF_DAMAGE:
            raise CheckpointError(
                f"{path}: the checkpoint cannot be read now ({error}). Nothing was changed: continue with --resume "
                "when it can be."
            ) from error
        if "allocate memory" in str(error):
            raise
        raise DamagedCheckpoint(
            f"{path}: the checkpoint is damaged ({type(error).__name__} while reading). Remove this file to continue "
            "from the checkpoint before it, if there is one, else from the start."
        ) from error
    return position, content


def _verify(path: Path) -> None:
    """Compare every checksum, which torch.load does not; each part by its place, since names may be damaged too."""
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        # No part has attributes; PyTorch leaves memory as it was for what is marked as a folder.
        if len(set(names)) < len(names) or any(part.external_attr for part in archive.infolist()):
            raise zipfile.BadZipFile("its table of contents is damaged")
        for part in archive.infolist():
            with archive.open(part) as stream:
                while stream.read(2**20):
                    pass


def _checkpoints_of(folder: Path) -> list[Path]:
    """Return a folder's checkpoints, the one that has come furthest last."""
    names = [(match, path) for path in folder.glob("epoch-*.pt") if (match := _NAME.fullmatch(path.name))]
    return [path for _, path in sorted(names, key=lambda item: (int(item[0][1]), int(item[0][2] or 0)))]


class Checkpoints:
    """The checkpoints of one run; its first process writes them, all of them read.

    With a `contract`, which must travel with an encoder, the weights of the last epochs lie beside the checkpoints.
    """

    def __init__(
        self, session: BaseSession, run: Path, *, contract: Mapping[str, Any] | None, progress: Progress
    ) -> None:
        self.folder = run / "checkpoints"
        self._session, self._run, self._contract, self._progress = session, run, contract, progress
        if session.processes.is_first:
            run.mkdir(parents=True, exist_ok=True)
            self._first_seen = run.stat()
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
        processes = self._session.processes
        name = processes.from_first(self._newest_readable() if processes.is_first else None)
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
        now = self._session.software()
        changes = [f"{key} was {software.get(key)}, is {now[key]}" for key in now if software.get(key) != now[key]]
        if changes:
            self._progress.warning(f"resuming elsewhere: {'; '.join(changes)}. Weights may differ in their last bits.")
        within = f" and {position.batch} batches" if position.batch else ""
        self._progress.message(f"continuing from {name} ({position.epoch} epochs{within} done)")
        return position

    def _newest_readable(self) -> str | None:
        damaged: list[str] = []
        while (path := newest_checkpoint(self.folder)) is not None:
            try:
                load_checkpoint(path)
            except DamagedCheckpoint as error:
                if len(_checkpoints_of(self.folder)) == 1:
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

    def _save_encoder(self, position: Position, contract: Mapping[str, Any]) -> None:
        facts = {**contract, "epochs": position.epoch, "batchnorm": {"statistics": "running averages of training"}}
        model = self._session.model
        save_encoder(self.folder / f"epoch-{position.epoch:04d}", model.encoder, facts, head=model.head)
        there = sorted(filter(Path.is_dir, self.folder.glob("epoch-*")), key=epochs_of)
        for old in there[: -self._session.settings.keep_checkpoints]:
            shutil.rmtree(old, ignore_errors=True)

    def _check_still_there(self) -> None:
        found = None
        with contextlib.suppress(OSError):
            found = self._run.stat()
        if found is None or not os.path.samestat(found, self._first_seen):
            what = "is not there any more" if found is None else "is another folder now"
            raise TrainingError(
                f"{self._run}: the run directory {what}: it was removed or moved, or its disk is no longer mounted. "
                "Nothing is written in its place. Bring it back and continue with --resume."
            )
