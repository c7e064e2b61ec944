"""Checkpoints on disk, each written whole or not at all, and the newest that can be read."""

import errno
import io
import os
import re
import time
import zipfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from neurocontrast.exceptions import CheckpointError
from neurocontrast.files import atomic_path
from neurocontrast.progress import Progress
from neurocontrast.training.session import BaseSession, Position

_FORMAT = 1
# Numbers of errors that damaged content causes; others, such as a missing permission, mean it is
# out of reach.
_OF_DAMAGE = (None, errno.EINVAL, errno.EIO)
_NAME = re.compile(r"epoch-(\d+)(?:-batch-(\d+))?\.pt")


def save_checkpoint(
    folder: Path, position: Position, tensors: dict[str, Any], *, keep: int
) -> Path:
    """Write a checkpoint atomically, then remove all but the last `keep`; return its path.

    `tensors` is the state of model, optimiser, objective …: tensors, numbers and text only.
    """
    name = (
        f"epoch-{position.epoch:04d}"
        + (f"-batch-{position.batch:06d}" if position.batch else "")
        + ".pt"
    )
    content = io.BytesIO()  # PyTorch, writing to a file, hides why it could not
    torch.save({"format": _FORMAT, "position": asdict(position), **tensors}, content)
    with atomic_path(folder / name) as temporary:
        temporary.write_bytes(content.getbuffer())
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
    except (
        Exception
    ) as error:  # what was not written as a checkpoint may fail to be read in any way
        if isinstance(error, OSError) and error.errno not in _OF_DAMAGE:
            raise CheckpointError(
                f"{path}: the checkpoint cannot be read now ({error}). Nothing was changed: continue with --resume "
                "when it can be."
            ) from error
        if "allocate memory" in str(error):
            raise
        raise CheckpointError(
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
    names = [
        (match, path) for path in folder.glob("epoch-*.pt") if (match := _NAME.fullmatch(path.name))
    ]
    return [
        path for _, path in sorted(names, key=lambda item: (int(item[0][1]), int(item[0][2] or 0)))
    ]


class Checkpoints:
    """The checkpoints of one run; its first process writes them, all of them read."""

    def __init__(self, session: BaseSession, run: Path, *, progress: Progress) -> None:
        self.folder = run / "checkpoints"
        self._session = session
        self._progress = progress
        self._last = time.monotonic()

    def save(self, position: Position) -> Path:
        """Write a checkpoint."""
        session = self._session
        path = self.folder
        if session.processes.is_first:
            path = save_checkpoint(
                path, position, session.tensors(), keep=session.settings.keep_checkpoints
            )
        self._last = time.monotonic()
        return path

    def save_if_due(self, position: Position) -> None:
        """Save within an epoch, where the last checkpoint is `checkpoint_minutes` old."""
        minutes = self._session.settings.checkpoint_minutes
        if minutes and time.monotonic() - self._last >= 60 * minutes:
            self.save(position)

    def restore(self) -> Position:
        """Continue from the newest checkpoint, or begin if there is none."""
        session = self._session
        newest = newest_checkpoint(self.folder)
        name = session.processes.from_first(None if newest is None else newest.name)
        if name is None:
            return Position()
        path = self.folder / name
        position, tensors = load_checkpoint(path)
        try:
            session.restore(tensors)
            software = dict(tensors["software"])
        except (KeyError, RuntimeError, ValueError, TypeError) as error:
            raise CheckpointError(
                f"{path}: the checkpoint does not fit this run ({type(error).__name__}: {error}). Is it of another "
                "run? Remove this file to continue from the checkpoint before it, if there is one, else from the start."
            ) from error
        now = session.software()
        changes = [
            f"{key} was {software.get(key)}, is {now[key]}"
            for key in now
            if software.get(key) != now[key]
        ]
        if changes:
            self._progress.warning(
                f"resuming elsewhere: {'; '.join(changes)}. Weights may differ in their last bits."
            )
        within = f" and {position.batch} batches" if position.batch else ""
        self._progress.message(f"continuing from {name} ({position.epoch} epochs{within} done)")
        return position
