"""Versions, code revision and host, recorded with every result."""

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


def versions_of(*packages: str) -> dict[str, str | None]:
    """Return the installed version of each package, None for one that is absent."""
    found = {name: next(iter(metadata.distributions(name=name)), None) for name in packages}
    return {name: None if package is None else package.version for name, package in found.items()}


def describe_environment() -> dict[str, Any]:
    """Return versions, code revision, host kind and time, JSON-ready; neither user nor host name: reports travel."""
    return {
        "neurocontrast": version(),
        "git": _git_revision(),
        "python": platform.python_version(),
        "packages": versions_of(*_PACKAGES),
        "platform": platform.platform(),
        "n_cpus": os.cpu_count(),
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]] if sys.argv and sys.argv[0] else [],
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def subject_digest(subject_id: str) -> str:
    """Return the digest of a participant of pretraining: pseudonymous, since whoever has identifiers can compute it."""
    return digest_of("neurocontrast-subject", subject_id)


def _git_revision() -> dict[str, Any] | None:
    root = Path(__file__).resolve().parent.parent
    if not (root / ".git").exists():
        return None
    command = [
        "git",
        "-C",
        str(root),
        "describe",
        "--always",
        "--abbrev=40",
        "--dirty",
        "--exclude=*",
    ]
    try:
        found = subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=10
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
    return {"commit": found.removesuffix("-dirty"), "modified": found.endswith("-dirty")}
