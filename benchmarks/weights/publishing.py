"""Shared by the scripts that make weights for others: what of a run is published, and figures as text."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import safetensors.torch
import torch

from neurocontrast.files import digest_of_file, write_json

__all__ = [
    "PUBLIC",
    "check_no_identifiers",
    "halve",
    "install_weights",
    "people_text",
    "publish_provenance",
    "with_interval",
]

PUBLIC = (
    "format",
    "seed",
    "joined",
    "cohort",
    "cohorts",
    "simulated",
    "n_training_scans",
    "n_members",
    "preprocessing",
    "pretraining_subjects",
    "pretraining_contents",
    "pretraining_contents_complete",
)
"""Keys of ``provenance.json`` that name neither a machine nor a path."""
_VERSIONS = ("neurocontrast", "python", "packages")


def publish_provenance(run: Path, folder: Path, *, contents: bool = True) -> str:
    """Write the public keys of a run's ``provenance.json``, and return the digest of the file.

    Digests of contents are most of a file: of members, those of the whole run can stand for all.
    """
    provenance = json.loads((run / "provenance.json").read_text())
    environment = {name: provenance["environment"][name] for name in _VERSIONS}
    public = {key: provenance[key] for key in PUBLIC if key in provenance}
    if not contents:
        public |= {"pretraining_contents": [], "pretraining_contents_complete": False}
    write_json(folder / "provenance.json", {"environment": environment, **public})
    return digest_of_file(folder / "provenance.json")


def halve(tensors: Mapping[str, torch.Tensor], file: Path) -> dict[str, str]:
    """Write tensors in half precision, and return how ``encoder.json`` names the file."""
    halves = {}
    for name, tensor in tensors.items():
        if tensor.is_floating_point():
            tensor = tensor.half()
        halves[name] = tensor.contiguous()
    file.write_bytes(safetensors.torch.save(halves))
    return {"file": file.name, "sha256": digest_of_file(file)}


def check_no_identifiers(folder: Path, people: pd.DataFrame) -> None:
    """Refuse weights in whose files the identifier of a person stands."""
    identifiers = set(people["participant_id"]) | set(people["subject_id"])
    named = set[str]()
    for path in folder.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            named |= {name for name in identifiers if name.encode() in content}
    if named:
        raise SystemExit(f"{folder}: names {sorted(named)[:5]}.")


def install_weights(made: Path, package: Path, *, most_bytes: float) -> None:
    """Put what was made in the places of a package's files, and check the size of the whole."""
    package.mkdir(parents=True, exist_ok=True)
    for path in made.iterdir():
        target = package / path.name
        if path.is_dir():
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(path, target)
        else:
            shutil.copyfile(path, target)
    size = sum(path.stat().st_size for path in package.rglob("*") if path.is_file())
    print(f"{package}: {size / 1e6:.1f} MB")
    assert size < most_bytes


def with_interval(values: npt.ArrayLike, digits: int) -> str:
    """Return the first value with the interval of 95 % of the others, its bootstrap."""
    value, *draws = np.asarray(values, dtype=float)
    low, high = np.quantile(draws, [0.025, 0.975])
    return f"{value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def people_text(people: pd.DataFrame) -> dict[str, Any]:
    """Return number, women and ages of people, as the cards write them."""
    ages = people["age"].dropna()
    return {
        "n": len(people),
        "women": int((people["sex"] == "F").sum()),
        "ages": f"{ages.min():.0f}–{ages.max():.0f}",
        "mean": f"{ages.mean():.0f}",
    }
