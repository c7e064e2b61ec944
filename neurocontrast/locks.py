"""Lock a folder, so that only one process at a time writes to the folder."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from neurocontrast.exceptions import ConfigError

if TYPE_CHECKING:
    from neurocontrast.progress import Progress

LOCK = ".lock"
"""Name of the file that `hold` locks."""
_PATIENCE = 5.0
"""Seconds to wait for a lock: the processes of a killed call may take a moment to end."""
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL)
"""Error numbers that locking raises on file systems without locks."""


@contextlib.contextmanager
def hold(folder: Path, progress: Progress, *, doing: str = "training") -> Iterator[None]:
    """Hold a lock on a folder until the context ends, so that no other process writes there.

    If another process keeps the lock for more than five seconds, a ConfigError is raised. The
    folder is made if absent, and removed again if nothing was written.

    Parameters
    ----------
    folder : Path
        Folder to write.
    progress : Progress
        Receives a warning if the file system has no locks.
    doing : str
        Work of another process that has the lock, for the message, such as ``training``.
    """
    lock = FileLock(folder / LOCK)
    try:
        while not lock.is_locked:
            folder.mkdir(parents=True, exist_ok=True)
            # A process that releases the lock may just have removed the empty folder.
            with contextlib.suppress(FileNotFoundError):
                lock.acquire(timeout=_PATIENCE)
    except Timeout:
        raise ConfigError(
            f"out: another process is {doing} in '{folder}'. Wait for it, stop it, or give "
            "another folder."
        ) from None
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        progress.warning(
            f"{folder}: its file system has no locks ({error.strerror}); see to it yourself that "
            f"no other process is {doing} in this folder."
        )
    try:
        yield
    finally:
        # Removed while locked: a waiting process begins a new lock.
        (folder / LOCK).unlink(missing_ok=True)
        lock.release()
        with contextlib.suppress(OSError):
            folder.rmdir()  # where nothing was written
