"""Versions, code revision and host, recorded with every result."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from neurocontrast.files import digest_of

__all__ = ["describe_environment", "subject_digest", "version"]

_PACKAGES = (
    "torch",
    "monai",
    "lightning-fabric",
    "numpy",
    "scipy",
    "scikit-learn",
    "pandas",
    "nibabel",
    "nilearn",
    "pyarrow",
)


def version() -> str:
    """Return the installed version of neurocontrast."""
    return metadata.version("neurocontrast")


def describe_environment() -> dict[str, Any]:
    """Return versions, code revision, host kind and time, as JSON-ready values.

    Versions are read from package metadata, so nothing heavy is imported. Neither user name
    nor host name is recorded: reports travel.
    """
    return {
        "neurocontrast": version(),
        "git": _git_revision(),
        "python": platform.python_version(),
        "packages": {name: _version_of(name) for name in _PACKAGES},
        "platform": platform.platform(),
        "n_cpus": os.cpu_count(),
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]] if sys.argv and sys.argv[0] else [],
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def subject_digest(subject_id: str) -> str:
    """Return the digest by which `evaluate` recognises a participant of the pretraining cohort.

    It is pseudonymous, not anonymous: whoever has the list of identifiers can recompute it.
    """
    return digest_of("neurocontrast-subject", subject_id)


def _version_of(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _git_revision() -> dict[str, Any] | None:
    root = Path(__file__).resolve().parent.parent
    if not (root / ".git").exists():
        return None
    try:
        revision = _git(root, "rev-parse", "HEAD")
        return {"commit": revision, "modified": bool(_git(root, "status", "--porcelain", "--untracked-files=no"))}
    except (OSError, subprocess.SubprocessError):
        return None


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True, timeout=10)
    return done.stdout.strip()
