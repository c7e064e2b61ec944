"""Shared by the scripts that make weights for others: what of a run is published, and figures as text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import safetensors.torch
import torch

from neurocontrast.files import digest_of_file, write_json

__all__ = ["PUBLIC", "halve", "people_text", "publish_provenance", "with_interval"]

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
