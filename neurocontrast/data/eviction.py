"""Room in a shared cache: entries in use are leased, and those that were not used for longest make room."""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import re
import shutil
import socket
import stat
import threading
import time
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from neurocontrast.files import write_json

__all__ = ["Entry", "Room", "hold", "list_entries", "make_folder", "note_use", "room_of", "size_on_disk"]

IN_USE = "in-use"
"""Folder of the leases: a file for each process, whose modification time says that the process lives."""
_FOLDER = re.compile(r"[0-9a-f]{16}-float(16|32)")
_ENTRY = re.compile(r"(\.tmp-[0-9a-f]{12}-)?[0-9a-f]{32}\.safetensors")
_REFRESH_SECONDS = 60.0
_EXPIRY_SECONDS = 3600.0
_USE_SECONDS = 6 * 3600.0
"""The use of an entry is noted this often at most."""
_UNFINISHED_SECONDS = 86_400.0
"""A file that is being written is not deleted before this; a process that was killed may have left it."""
_PATIENCE_SECONDS = 600.0
"""Where there was no room, it is looked for again after this."""
_AHEAD = 64


class Entry(NamedTuple):
    """A file of the cache; the one that was not used for longest sorts first."""

    used: float
    n_bytes: int
    path: Path

    @property
    def name(self) -> str:
        """What a lease calls the entry."""
        folder, _, file = self.path.parts[-3:]
        return f"{folder}/{file.partition('.')[0]}"


def size_on_disk(n_bytes: int) -> int:
    """Return what a file of so many bytes takes, in whole blocks."""
    return -(-n_bytes // 4096) * 4096


def make_folder(path: Path, root: Path) -> int:
    """Make a folder of the cache with the permissions of its root, never writable by all; return those of files."""
    mode = stat.S_IMODE(root.stat().st_mode) & ~stat.S_IWOTH | stat.S_IRWXU
    if not path.is_dir():
        path.mkdir(exist_ok=True)
        with contextlib.suppress(OSError):  # another user has just made it, or the disk has no permissions
            path.chmod(mode)
    return mode & 0o666


def list_entries(root: Path) -> list[Entry]:
    """Return the entries of all transforms under the root of a cache; other files and links are left alone."""
    found = []
    with contextlib.suppress(OSError):
        for folder in root.iterdir():
            if not _FOLDER.fullmatch(folder.name) or folder.is_symlink():
                continue
            for place, _, names in os.walk(folder):
                for name in filter(_ENTRY.fullmatch, names):
                    path = Path(place, name)
                    with contextlib.suppress(OSError):
                        status = path.stat()
                        found.append(Entry(status.st_mtime, size_on_disk(status.st_size), path))
    return found


def note_use(path: Path, used: float) -> None:
    """Note that an entry is used now, unless that was noted in the last hours or another user owns it."""
    if abs(time.time() - used) > _USE_SECONDS:
        with contextlib.suppress(OSError):
            os.utime(path)


class _Lease:
    """The entries that this process uses, in a file that is refreshed while it lives."""

    def __init__(self, root: Path) -> None:
        self.root, self.names = root, set[str]()
        self.path = root / IN_USE / f"{_this_host()}-{os.getpid()}-{uuid.uuid4().hex[:8]}.json"

    def write(self) -> None:
        mode = make_folder(self.path.parent, self.root)
        write_json(self.path, {"host": _this_host(), "pid": os.getpid(), "entries": sorted(self.names)})
        with contextlib.suppress(OSError):
            self.path.chmod(mode)

    def refresh(self) -> float:
        """Refresh the lease, and return the time by the clock of the disk."""
        try:
            os.utime(self.path)
        except FileNotFoundError:  # a machine that slept
            self.write()
        return self.path.stat().st_mtime


_leases: dict[tuple[int, Path], _Lease] = {}
_leasing = threading.Lock()


def hold(root: Path, names: Iterable[str]) -> float | None:
    """Keep other processes from deleting entries while this one lives; return the disk's time, None if not writable."""
    key = (os.getpid(), root)
    try:
        with _leasing:
            lease = _leases.get(key) or _Lease(root)
            news, is_new = set(names) - lease.names, key not in _leases
            lease.names |= news
            if news or is_new:
                lease.write()
            if is_new:
                _in_use(root, lease.refresh())  # what killed processes left is removed without a limit too
            if not any(pid == os.getpid() for pid, _ in _leases):
                threading.Thread(target=_keep_refreshing, name="leases of caches", daemon=True).start()
                atexit.register(_release, os.getpid())
            _leases[key] = lease
            return lease.refresh()
    except OSError:
        return None


def _keep_refreshing() -> None:
    while True:
        time.sleep(_REFRESH_SECONDS)
        with _leasing:
            for key, lease in list(_leases.items()):
                if not lease.root.is_dir():
                    del _leases[key]
                elif key[0] == os.getpid():
                    with contextlib.suppress(OSError):
                        lease.refresh()


def _release(pid: int) -> None:
    for (owner, _), lease in _leases.items():
        if owner == pid == os.getpid():
            with contextlib.suppress(OSError):
                lease.path.unlink()


@functools.cache
def _this_host() -> str:
    """Return the name of the host; containers on one host number their processes separately."""
    name = socket.gethostname()
    with contextlib.suppress(OSError):
        name += str(Path("/proc/self/ns/pid").readlink())
    return re.sub(r"\W+", "-", name).strip("-")


def _is_alive(host: str, pid: int) -> bool:
    """Return False for a process of this host that has ended."""
    if host != _this_host():
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _in_use(root: Path, now: float) -> set[str] | None:
    """Return the names that living processes use, and forget dead ones; None where one cannot be read."""
    names: set[str] = set()
    for path in (root / IN_USE).glob("[!.]*.json"):
        age = 0.0
        try:
            age = now - path.stat().st_mtime
            lease = json.loads(path.read_text(encoding="utf-8"))
            if age > _EXPIRY_SECONDS or not _is_alive(lease["host"], lease["pid"]):
                path.unlink(missing_ok=True)
            else:
                names.update(lease["entries"])
        except FileNotFoundError:
            continue
        except (OSError, ValueError, TypeError, LookupError):
            if age <= _EXPIRY_SECONDS:
                return None
    return names


def _unused(root: Path, entries: Iterable[Entry]) -> Iterator[Entry]:
    """Yield entries that no living process uses, those that were not used for longest first."""
    leases, seen, names = root / IN_USE, -1, set[str]()
    for entry in sorted(entries):
        now = hold(root, ())
        if now is None:
            return
        if (changed := leases.stat().st_mtime_ns) != seen:  # a run has begun, or ended
            seen, found = changed, _in_use(root, now)
            if found is None:
                return
            names = found
        unfinished = entry.name.endswith("/") and now - entry.used < _UNFINISHED_SECONDS
        if entry.name not in names and not unfinished:
            yield entry


class Room:
    """What may still be written to a cache, in entries.

    Parameters
    ----------
    root : path
        Folder of the cache.
    n_bytes : int or None
        Its limit; None for none, where nothing is ever deleted.
    """

    def __init__(self, root: Path, n_bytes: int | None) -> None:
        self.root, self.n_bytes = root, n_bytes
        self._n_granted, self._ask_again = 0, 0.0

    def grant(self, n: int, size: int) -> int:
        """Make room for n entries of `size` bytes, and return how many may be written before the next call.

        That is at most half of the room, so that two processes that fill a cache at once do not exceed its limit.
        """
        if self.n_bytes is None:
            return n
        disk = shutil.disk_usage(self.root)
        entries = list_entries(self.root)
        reserve = min(disk.total // 50, 2**30)
        free = min(self.n_bytes - sum(entry.n_bytes for entry in entries), disk.free - reserve)
        free += self._evict(entries, n * size - free)
        return max(0, min(n, max(free // 2 // size, int(free >= size))))

    def take(self, size: int) -> bool:
        """Return whether one more entry may be written."""
        if self.n_bytes is None:
            return True
        if not self._n_granted and time.monotonic() >= self._ask_again:
            self._n_granted = self.grant(_AHEAD, size)
            self._ask_again = 0.0 if self._n_granted else time.monotonic() + _PATIENCE_SECONDS
        if not self._n_granted:
            return False
        self._n_granted -= 1
        return True

    def free_disk(self, size: int) -> bool:
        """Delete entries for one of `size` bytes because a disk or a quota is full; return whether that was enough."""
        if self.n_bytes is None or time.monotonic() < self._ask_again:
            return False
        if self._evict(list_entries(self.root), size) >= size:
            return True
        self._n_granted, self._ask_again = 0, time.monotonic() + _PATIENCE_SECONDS
        return False

    def _evict(self, entries: Iterable[Entry], n_bytes: int) -> int:
        """Delete unused entries until so many bytes are free, and return how many were deleted."""
        freed = 0
        if n_bytes <= 0:
            return freed
        for entry in _unused(self.root, entries):
            with contextlib.suppress(OSError):
                entry.path.unlink(missing_ok=True)  # another process may have deleted it
                freed += entry.n_bytes
            if freed >= n_bytes:
                break
        return freed


room_of = functools.cache(Room)
"""Return the room of a cache, one for all who ask in this process."""
