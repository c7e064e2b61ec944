"""A lock that lets one process at a time train in a run directory."""

from __future__ import annotations

import contextlib
import datetime
import errno
import fcntl
import json
import os
import platform
import time
from collections.abc import Iterator
from pathlib import Path

from neurocontrast.exceptions import CheckpointError
from neurocontrast.progress import Progress

__all__ = ["LOCK", "hold"]

LOCK = ".lock"
_PATIENCE = 5.0
"""Seconds: the processes of a run that was killed may take a moment to end."""
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)


@contextlib.contextmanager
def hold(folder: Path, progress: Progress) -> Iterator[None]:
    """Keep every other process from training in a run directory; make it where it is missing.

    The system gives the lock back when its process ends, however it ends. The file names its holder, and is removed
    with the lock, so that no host's name stays in a result.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / LOCK
    handle = _acquire(path, progress)
    try:
        os.ftruncate(handle, 0)
        since = datetime.datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
        os.write(handle, json.dumps({"pid": os.getpid(), "host": platform.node(), "since": since}).encode())
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(handle)
        with contextlib.suppress(OSError):
            folder.rmdir()  # where nothing was written


def _acquire(path: Path, progress: Progress) -> int:
    deadline = time.monotonic() + _PATIENCE
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _holder(handle)
            os.close(handle)
            if time.monotonic() < deadline:
                time.sleep(0.1)
                continue
            raise CheckpointError(
                f"{path.parent}: another process is training in this run directory ({holder}). Wait for it, stop it, "
                "or give another directory."
            ) from None
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                os.close(handle)
                raise
            progress.warning(
                f"{path.parent}: its file system has no locks ({error.strerror}); see to it yourself that no other "
                "process trains in this directory."
            )
            return handle
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_ino == os.fstat(handle).st_ino:
                return handle
        os.close(handle)  # whoever held it has removed it meanwhile


def _holder(handle: int) -> str:
    try:
        holder = json.loads(os.pread(handle, 4096, 0))
        return f"process {holder['pid']} on {holder['host']}, since {holder['since']}"
    except (ValueError, KeyError, TypeError):
        return "it has not said which"
