"""Checkpoints on disk, each written whole or not at all, and the newest that can be read."""

from __future__ import annotations

import errno
import io
import os
import re
import time
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from neurocontrast.exceptions import CheckpointError
from neurocontrast.files import atomic_path
from neurocontrast.progress import Progress
from neurocontrast.training.position import Position

if TYPE_CHECKING:  # with Lightning, whose import takes a second of every command that reads a run
    from neurocontrast.training.state import StateDict, TrainerState

_FORMAT = 1
# Numbers of errors that damaged content causes; others, such as a missing permission, mean it is
# out of reach.
_OF_DAMAGE = (None, errno.EINVAL, errno.EIO)
_NAME = re.compile(r"epoch-(\d+)(?:-batch-(\d+))?\.pt")


@dataclass(frozen=True)
class Checkpoint:
    """Content of a checkpoint."""

    position: Position
    """How far training had come."""
    state: StateDict
    """State of model, optimiser, loss and software, as `TrainerState.state_dict` returns it."""


def save_checkpoint(
    folder: Path, position: Position, state: Mapping[str, object], *, keep: int
) -> Path:
    """Write a checkpoint atomically, then remove all but the last `keep`; return its path.

    `state` is that of model, optimiser, objective …: tensors, numbers and text only.
    """
    stem = f"epoch-{position.epoch:04d}"
    if position.batch:
        stem += f"-batch-{position.batch:06d}"
    path = folder / f"{stem}.pt"
    content = io.BytesIO()  # PyTorch, writing to a file, hides why it could not
    torch.save({"format": _FORMAT, "position": asdict(position), **state}, content)
    with atomic_path(path) as temporary:
        temporary.write_bytes(content.getbuffer())
    for old in _checkpoints_of(folder)[:-keep]:
        old.unlink(missing_ok=True)
    return path


def newest_checkpoint(folder: str | os.PathLike[str]) -> Path | None:
    """Return the checkpoint that has come furthest, or None."""
    checkpoints = _checkpoints_of(Path(folder))
    return checkpoints[-1] if checkpoints else None


def epochs_of(checkpoint: Path) -> int:
    """Return how many epochs a checkpoint has behind it, as its name says."""
    return int(checkpoint.stem.split("-")[1])


def load_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint, running no code from it.

    Raises `CheckpointError` where the content is not what was written, is of another format, or is
    out of reach.
    """
    try:
        _verify(path)
        content = torch.load(path, map_location="cpu", weights_only=True)
        if content["format"] != _FORMAT:
            raise CheckpointError(
                f"{path}: checkpoint format {content['format']!r} is not known to this version."
            )
        position = Position(**content.pop("position"))
    except (CheckpointError, MemoryError):
        raise
    except Exception as error:
        # What was not written as a checkpoint may fail to be read in any way.
        raise _unreadable(path, error) from error
    return Checkpoint(position, content)


def _unreadable(path: Path, error: Exception) -> Exception:
    """Return the error of a checkpoint that is damaged, or cannot be reached now."""
    if isinstance(error, OSError) and error.errno not in _OF_DAMAGE:
        return CheckpointError(
            f"{path}: the checkpoint cannot be read now ({error}). Nothing was changed: continue "
            "with --resume when it can be."
        )
    if "allocate memory" in str(error):
        return error
    return CheckpointError(
        f"{path}: the checkpoint is damaged ({type(error).__name__} while reading). Remove this "
        "file to continue from the checkpoint before it, if there is one, else from the start."
    )


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
    numbered = []
    for path in folder.glob("epoch-*.pt"):
        match = _NAME.fullmatch(path.name)
        if match is not None:
            numbered.append((int(match[1]), int(match[2] or 0), path))
    return [path for _, _, path in sorted(numbered)]


class Checkpoints:
    """The checkpoints of one run; its first process writes them, all of them read."""

    def __init__(self, state: TrainerState, run: Path, *, progress: Progress) -> None:
        self.folder = run / "checkpoints"
        self._state = state
        self._progress = progress
        self._last = time.monotonic()

    def save(self, position: Position) -> Path:
        """Write a checkpoint."""
        path = self.folder
        if self._state.processes.is_first:
            keep = self._state.settings.keep_checkpoints
            path = save_checkpoint(path, position, self._state.state_dict(), keep=keep)
        self._last = time.monotonic()
        return path

    def save_if_due(self, position: Position) -> None:
        """Save within an epoch, where the last checkpoint is `checkpoint_minutes` old."""
        minutes = self._state.settings.checkpoint_minutes
        if minutes and time.monotonic() - self._last >= 60 * minutes:
            self.save(position)

    def restore(self) -> Position:
        """Continue from the newest checkpoint, or begin if there is none."""
        newest = newest_checkpoint(self.folder)
        name = self._state.processes.from_first(None if newest is None else newest.name)
        if name is None:
            return Position()
        path = self.folder / name
        checkpoint = load_checkpoint(path)
        position = checkpoint.position
        try:
            self._state.load_state_dict(checkpoint.state)
            software = _software_of(checkpoint.state)
        except (KeyError, RuntimeError, ValueError, TypeError) as error:
            raise CheckpointError(
                f"{path}: the checkpoint does not fit this run ({type(error).__name__}: {error}). Is "
                "it of another run? Remove this file to continue from the checkpoint before it, if "
                "there is one, else from the start."
            ) from error
        changes = self._state.software().changes_since(software)
        if changes:
            self._progress.warning(
                f"resuming elsewhere: {'; '.join(changes)}. Weights may differ in their last bits."
            )
        within = f" and {position.batch} batches" if position.batch else ""
        self._progress.message(f"continuing from {name} ({position.epoch} epochs{within} done)")
        return position


def _software_of(state: StateDict) -> StateDict:
    software = state["software"]
    if not isinstance(software, dict):
        raise TypeError("software is no section")
    return software
