"""Checkpoints on disk, each written whole or not at all."""

from __future__ import annotations

import errno
import math
import os
import re
import shutil
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from neurocontrast.exceptions import CheckpointError
from neurocontrast.files import atomic_path

__all__ = [
    "DamagedCheckpoint",
    "Position",
    "checkpoints_of",
    "epochs_of",
    "load_checkpoint",
    "newest_checkpoint",
    "save_checkpoint",
]

_FORMAT = 1
_OUT_OF_REACH = (
    *(errno.EACCES, errno.EPERM, errno.ENOENT, errno.ENOTDIR, errno.ENODEV, errno.ENXIO, errno.EMFILE, errno.ENFILE),
    *(errno.ESTALE, errno.ENOTCONN, errno.ETIMEDOUT, errno.EHOSTDOWN, errno.EHOSTUNREACH),
)
_NAME = re.compile(r"epoch-(\d+)(?:-batch-(\d+))?\.pt")


class DamagedCheckpoint(CheckpointError):
    """A checkpoint whose bytes are not those that were written."""


@dataclass
class Position:
    """How far training has come, and what it has measured on the way.

    All randomness is keyed by epoch and sample, so these few numbers are the whole of it.
    """

    epoch: int = 0  # epochs finished
    batch: int = 0  # batches finished of the epoch under way
    sums: dict[str, float] = field(default_factory=dict)  # that epoch's figures, summed over its scans
    sum_of_norms: float = 0.0
    n_norms: int = 0
    seconds: float = 0.0
    metrics: list[dict[str, Any]] = field(default_factory=list)  # one row for each finished epoch

    @property
    def mean_gradient_norm(self) -> float | None:
        """Mean of the finite norms of the epoch's batches so far, or None."""
        return self.sum_of_norms / self.n_norms if self.n_norms else None

    def count_batch(self, figures: Mapping[str, float], *, n_scans: int) -> None:
        """Count a batch as finished, with its figures."""
        self.batch += 1
        for name, value in figures.items():
            if name != "gradient_norm":
                self.sums[name] = self.sums.get(name, 0.0) + value * n_scans
            elif math.isfinite(value):  # float16's loss scaler skips a step whose gradient overflows
                self.sum_of_norms, self.n_norms = self.sum_of_norms + value, self.n_norms + 1

    def close_epoch(self, row: dict[str, Any]) -> None:
        """Count the epoch as finished, with its row of metrics."""
        self.metrics.append(row)
        self.epoch, self.batch, self.sums, self.seconds = self.epoch + 1, 0, {}, 0.0
        self.sum_of_norms, self.n_norms = 0.0, 0


def save_checkpoint(folder: Path, position: Position, tensors: dict[str, Any], *, keep: int) -> Path:
    """Write a checkpoint atomically, then remove all but the last `keep`; return its path.

    `tensors` is the state of model, optimiser, objective …: tensors, numbers and text only.
    """
    name = f"epoch-{position.epoch:04d}" + (f"-batch-{position.batch:06d}" if position.batch else "") + ".pt"
    with atomic_path(folder / name) as temporary:
        try:
            torch.save({"format": _FORMAT, "position": asdict(position), **tensors}, temporary)
        except RuntimeError as error:  # how PyTorch tells of a full disk
            raise _cannot_write(folder, temporary, error) from error
    for old in checkpoints_of(folder)[:-keep]:
        old.unlink(missing_ok=True)
    return folder / name


def newest_checkpoint(folder: str | os.PathLike[str]) -> Path | None:
    """Return the checkpoint that has come furthest, or None."""
    found = checkpoints_of(Path(folder))
    return found[-1] if found else None


def epochs_of(checkpoint: Path) -> int:
    """Return how many epochs a checkpoint has behind it, as its name says."""
    match = _NAME.fullmatch(checkpoint.name)
    assert match is not None
    return int(match[1])


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
        for row in position.metrics:  # of a run that an earlier version began
            if "volumes_per_second" in row:
                row["samples_per_second"] = row.pop("volumes_per_second")
    except (CheckpointError, MemoryError):
        raise
    except Exception as error:  # what was not written as a checkpoint may fail to be read in any way
        if isinstance(error, OSError) and error.errno in _OUT_OF_REACH:  # permissions, a lost mount
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
        if len(set(names)) < len(names):
            raise zipfile.BadZipFile("two parts have one name")
        for part in archive.infolist():
            if part.external_attr:  # none is written; PyTorch leaves memory as it was for what is marked as a folder
                raise zipfile.BadZipFile("a part has attributes")
            with archive.open(part) as stream:
                while stream.read(2**20):
                    pass


def checkpoints_of(folder: Path) -> list[Path]:
    """Return a folder's checkpoints, the one that has come furthest last."""
    names = [(match, path) for path in folder.glob("epoch-*.pt") if (match := _NAME.fullmatch(path.name))]
    return [path for _, path in sorted(names, key=lambda item: (int(item[0][1]), int(item[0][2] or 0)))]


def _cannot_write(folder: Path, temporary: Path, error: RuntimeError) -> OSError:
    """Return an error that says what PyTorch, which hides the system's error, could not do."""
    there = checkpoints_of(folder)
    kept = f"{there[-1].name} is whole" if there else "There is none before it"
    advice = f"{kept}. Make room and continue with --resume"
    cause = error.__context__
    if isinstance(cause, OSError) and cause.errno:
        return OSError(cause.errno, f"{cause.strerror}. {advice}", str(temporary))
    free = shutil.disk_usage(folder).free / 2**20
    text = f"the checkpoint cannot be written; is the disk full ({free:.0f} MiB free)? {advice}"
    return OSError(errno.EIO, text, str(temporary))
