"""Write checkpoints of a training atomically, and continue a training from the newest one."""

from __future__ import annotations

import errno
import io
import os
import re
import time
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from neurocontrast.exceptions import CheckpointError
from neurocontrast.files import atomic_path
from neurocontrast.progress import Progress
from neurocontrast.training.position import Position

if TYPE_CHECKING:  # Lightning takes a second to import, and commands that read a run do without
    from neurocontrast.training.state import StateDict, TrainerState

_FORMAT = 1
_OF_DAMAGE = (None, errno.EINVAL, errno.EIO)
"""Error numbers of an OSError that mean a damaged checkpoint; with any other number, such as that
of a missing permission, the file cannot be reached and may be sound."""
_NAME = re.compile(r"epoch-(\d+)(?:-batch-(\d+))?\.pt")


@dataclass(frozen=True)
class Checkpoint:
    """Content of a checkpoint file: progress of the training, and state of model and optimiser."""

    position: Position
    """Number of finished epochs and batches, with their metrics."""
    state: StateDict
    """State of model, optimiser, loss and software, as returned by `TrainerState.state_dict`."""


def save_checkpoint(
    folder: Path, position: Position, state: Mapping[str, object], *, keep: int
) -> Path:
    """Write a checkpoint atomically, and remove all but the `keep` newest from the folder.

    Parameters
    ----------
    folder : Path
        Folder of checkpoints.
    position : Position
        Progress of the training, which gives the file its name.
    state : mapping
        State of model, optimiser, loss and software: tensors, numbers and text only.
    keep : int
        Number of checkpoints to keep.

    Returns
    -------
    Path
        Path of the written checkpoint.
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
    """Return the path of the checkpoint in `folder` with the most epochs and batches.

    The result is None if the folder has no checkpoint.
    """
    checkpoints = _checkpoints_of(Path(folder))
    if not checkpoints:
        return None
    return checkpoints[-1]


def epochs_of(checkpoint: Path) -> int:
    """Return the number of finished epochs, which the file name of a `checkpoint` tells."""
    return int(checkpoint.stem.split("-")[1])


def load_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint file, without running any code in the file.

    Raises
    ------
    CheckpointError
        If the file is damaged, of another format, or cannot be read at present.
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
        # A damaged file may fail to be read in any way.
        raise _unreadable(path, error) from error
    return Checkpoint(position, content)


def _unreadable(path: Path, error: Exception) -> Exception:
    """Return the exception to raise for a checkpoint file whose reading failed with `error`.

    The exception is a CheckpointError, which says whether the file is damaged or cannot be reached
    now; an `error` for lack of memory is returned itself.
    """
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
    """Read a checkpoint's zip archive to the end, which verifies the checksums of all its members.

    PyTorch's ``torch.load`` does not verify checksums. A damaged archive raises an exception of
    `zipfile`.
    """
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        # No member has attributes; PyTorch would not fill the memory of one marked as a folder.
        attributes = list(map(attrgetter("external_attr"), archive.infolist()))
        if len(set(names)) < len(names) or any(attributes):
            raise zipfile.BadZipFile("its table of contents is damaged")
        for member in archive.infolist():  # not by name: names may be damaged too
            with archive.open(member) as stream:
                while stream.read(2**20):
                    pass


def _checkpoints_of(folder: Path) -> list[Path]:
    """Return the paths of all checkpoints in `folder`, sorted by number of epochs, then batches."""
    numbers = {}
    for path in folder.glob("epoch-*.pt"):
        match = _NAME.fullmatch(path.name)
        if match is not None:
            numbers[path] = (int(match[1]), int(match[2] or 0))
    return sorted(numbers, key=numbers.__getitem__)


class Checkpoints:
    """Checkpoints in the folder of one run: the first process writes them, all processes read them.

    The training loop makes an instance for each run.
    """

    def __init__(self, state: TrainerState, run: Path, *, progress: Progress) -> None:
        self.folder = run / "checkpoints"
        self._state = state
        self._progress = progress
        self._last = time.monotonic()

    def save(self, position: Position) -> Path:
        """Write a checkpoint of the training at `position`, if this process is the first.

        The first process returns the path of the checkpoint file, other processes the run's folder
        of checkpoints.
        """
        path = self.folder
        if self._state.processes.is_first:
            keep = self._state.settings.keep_checkpoints
            path = save_checkpoint(path, position, self._state.state_dict(), keep=keep)
        self._last = time.monotonic()
        return path

    def save_if_due(self, position: Position) -> None:
        """Write a checkpoint if the last is older than the run's setting `checkpoint_minutes`.

        With 0 minutes, no checkpoint is written within an epoch.
        """
        minutes = self._state.settings.checkpoint_minutes
        if minutes and time.monotonic() - self._last >= 60 * minutes:
            self.save(position)

    def restore(self) -> Position:
        """Load the run's newest checkpoint into the training, and return the saved progress.

        Model, optimiser and loss take the saved state. Without any checkpoint, nothing is loaded,
        and the result is a `Position` at epoch 0.
        """
        newest = newest_checkpoint(self.folder)
        name = None
        if newest is not None:
            name = newest.name
        name = self._state.processes.from_first(name)
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
                f"{path}: the checkpoint does not fit this run ({type(error).__name__}: {error}). "
                "Is it of another run? Remove this file to continue from the checkpoint before it, "
                "if there is one, else from the start."
            ) from error
        changes = self._state.software().changes_since(software)
        if changes:
            self._progress.warning(
                f"resuming elsewhere: {'; '.join(changes)}. Weights may differ in their last bits."
            )
        done = f"{position.epoch} epochs{batches_within(position)}"
        self._progress.message(f"continuing from {name} ({done} done)")
        return position


def batches_within(position: Position) -> str:
    """Return " and N batches", for a message on how far a training is; "" if N is 0.

    N is the number of finished batches of the epoch that is not finished yet.
    """
    if not position.batch:
        return ""
    return f" and {position.batch} batches"


def _software_of(state: StateDict) -> StateDict:
    software = state["software"]
    if not isinstance(software, dict):
        raise TypeError("software is no section")
    return software
