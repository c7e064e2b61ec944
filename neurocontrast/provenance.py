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

_PACKAGES = ("torch", "monai", "lightning-fabric", "numpy", "scipy", "scikit-learn", "pandas", "nibabel", "nilearn",
             "pyarrow")  # fmt: skip


def version() -> str:
    """Return the installed version of neurocontrast."""
    return metadata.version("neurocontrast")


def describe_environment() -> dict[str, Any]:
    """Return versions, code revision, host kind and time, JSON-ready; neither user nor host name: reports travel."""
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
    """Return the digest of a participant of pretraining: pseudonymous, since whoever has identifiers can compute it."""
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
    command = ["git", "-C", str(root), "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
    return {"commit": found.removesuffix("-dirty"), "modified": found.endswith("-dirty")}
