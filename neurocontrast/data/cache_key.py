"""The key that signs the entries of a cache: the user's own, made once."""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
import uuid
from pathlib import Path

from neurocontrast.exceptions import ConfigError

__all__ = ["VARIABLE", "cache_key", "key_file"]

VARIABLE = "NEUROCONTRAST_CACHE_KEY"
_N_BYTES = 32


def key_file() -> Path:
    """Return where the key is: the file that `VARIABLE` names, or one in the user's configuration folder."""
    if named := os.environ.get(VARIABLE, ""):
        return Path(named).expanduser().absolute()
    base = os.environ.get("XDG_CONFIG_HOME", "")
    root = Path(base) if Path(base).is_absolute() else Path.home() / ".config"
    return root / "neurocontrast" / "cache.key"


def cache_key() -> tuple[bytes, str]:
    """Return the key, which is made where there is none, and a warning where it cannot be kept, or ""."""
    return _key_of(key_file())


@functools.cache
def _key_of(path: Path) -> tuple[bytes, str]:
    try:
        if not path.is_file():
            _make(path)
        mode, key = path.stat().st_mode, path.read_bytes()
    except OSError as error:
        return secrets.token_bytes(_N_BYTES), (
            f"{path}: the key of the cache cannot be kept ({error.strerror}), so the next command preprocesses all "
            f"scans again. Set {VARIABLE} to a file that you may write."
        )
    if mode & 0o077:
        raise ConfigError(f"{path}: the key of the cache can be read by others. Make it your own: chmod 600 '{path}'.")
    if len(key) != _N_BYTES:
        raise ConfigError(
            f"{path}: the key of the cache must have {_N_BYTES} bytes, found {len(key)}. Delete it: another is made."
        )
    return key, ""


def _make(path: Path) -> None:
    """Write a key; where another process has just written one, that one stays."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = path.with_name(f".tmp-{uuid.uuid4().hex[:12]}-{path.name}")
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
            stream.write(secrets.token_bytes(_N_BYTES))
            stream.flush()
            os.fsync(stream.fileno())
        with contextlib.suppress(FileExistsError):
            path.hardlink_to(temporary)
    finally:
        temporary.unlink(missing_ok=True)
