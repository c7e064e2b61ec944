"""A fitted probe as two files that say what they are: ``probe.json`` and ``probe.npz``; no pickle."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from neurocontrast.evaluation.fitted import FittedProbe
from neurocontrast.evaluation.platt import Platt
from neurocontrast.exceptions import CheckpointError
from neurocontrast.files import atomic_path, digest_of_file, write_json
from neurocontrast.provenance import version

__all__ = ["FOLDER", "load_probe", "save_probe"]

FOLDER = "probe"
"""Where in an evaluation a probe is."""

_DESCRIPTION, _ARRAYS = "probe.json", "probe.npz"
_FORMAT = 1
_TEXTS = ("name", "target")
_NEEDED = (*_TEXTS, "kind", "classes", "strength", "threshold", "encoder", "trained_on", "n_scans", "arrays")


def save_probe(folder: str | os.PathLike[str], probe: FittedProbe) -> None:
    """Write ``probe.npz``, then ``probe.json`` with its digest; the folder is made.

    Neither holds features of a person. ``trained_on`` holds digests of subjects, so that `load_probe`
    can say who was trained on: whoever has the list of identifiers can recompute them.
    """
    folder = Path(folder)
    arrays = {name: getattr(probe, name) for name in ("mean", "scale", "coefficients", "intercept", "shares")}
    if probe.platt is not None:
        arrays |= {"platt_slope": np.array(probe.platt.slope), "platt_biases": probe.platt.biases}
    with atomic_path(folder / _ARRAYS) as temporary:
        np.savez(temporary, **arrays)
    described = {
        "format": _FORMAT,
        "neurocontrast": version(),
        "name": probe.name,
        "target": probe.target,
        "kind": probe.kind,
        "classes": list(probe.classes),
        "positive": probe.classes[1] if probe.kind == "binary" else None,
        "strength": probe.strength,
        "threshold": probe.threshold,
        "n_features": probe.n_features,
        "n_scans": probe.n_scans,
        "n_subjects": len(probe.trained_on),
        "encoder": probe.encoder,
        "trained_on": sorted(probe.trained_on),
        "arrays": {"file": _ARRAYS, "sha256": digest_of_file(folder / _ARRAYS)},
    }
    write_json(folder / _DESCRIPTION, described)


def load_probe(path: str | os.PathLike[str]) -> FittedProbe:
    """Read a probe from its folder, or from the evaluation that holds it.

    Raises
    ------
    CheckpointError
        Where there is none, or it is damaged or has been changed since it was written.
    """
    folder = _find(Path(path))
    described = _read_description(folder / _DESCRIPTION)
    arrays = _read_arrays(folder / _ARRAYS, described)
    platt = Platt(float(arrays["platt_slope"]), arrays["platt_biases"]) if "platt_slope" in arrays else None
    return FittedProbe(
        name=described["name"],
        target=described["target"],
        kind=described["kind"],
        classes=tuple(described["classes"]),
        strength=float(described["strength"]),
        threshold=described["threshold"],
        mean=arrays["mean"],
        scale=arrays["scale"],
        coefficients=arrays["coefficients"],
        intercept=arrays["intercept"],
        shares=arrays["shares"],
        platt=platt,
        encoder=described["encoder"],
        trained_on=frozenset(described["trained_on"]),
        n_scans=int(described["n_scans"]),
    )


def _find(path: Path) -> Path:
    for folder in (path, path / FOLDER):
        if (folder / _DESCRIPTION).is_file():
            return folder
    if not (path / "evaluation.json").is_file():
        raise CheckpointError(f"{path}: there is no probe. Give an evaluation directory, or its folder '{FOLDER}'.")
    raise CheckpointError(
        f"{path}: this evaluation holds no probe: {_reason(path)}. Evaluate again with --probe logistic, ridge or svm, "
        "on features that are not adjusted; nearest neighbours can be tested on another table with --test."
    )


def _reason(evaluation: Path) -> str:
    try:
        why = json.loads((evaluation / "evaluation.json").read_text(encoding="utf-8"))["probe"]["why_not_stored"]
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, KeyError, TypeError):
        why = None
    return str(why or "it was made by an earlier version, or its folder has been removed")


def _read_description(path: Path) -> dict[str, Any]:
    try:
        described = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise CheckpointError(f"{path}: cannot be read ({error}). Copy the evaluation again.") from error
    if not isinstance(described, dict) or described.get("format") != _FORMAT:
        found = described.get("format") if isinstance(described, dict) else None
        raise CheckpointError(f"{path}: format {found!r} is not known (this version reads {_FORMAT}).")
    wrong = [f"'{key}'" for key in _NEEDED if key not in described]
    wrong += [f"'{key}'" for key in ("classes", "trained_on") if not _is_texts(described.get(key, []))]
    wrong += [f"'{key}'" for key in _TEXTS if not isinstance(described.get(key, ""), str)]
    wrong += [f"'{key}'" for key in ("strength", "n_scans") if not isinstance(described.get(key, 0), int | float)]
    wrong += ["'kind'"] if described.get("kind") not in ("binary", "multiclass", "continuous") else []
    wrong += ["'arrays'"] if not isinstance(described.get("arrays", {}), dict) else []
    if not wrong and not _fits_kind(described):
        wrong = ["'threshold'"]
    if wrong:
        raise CheckpointError(f"{path}: {', '.join(wrong)} missing or damaged. Copy the evaluation again.")
    return described


def _fits_kind(described: dict[str, Any]) -> bool:
    threshold = described["threshold"]
    return isinstance(threshold, float) if described["kind"] == "binary" else threshold in ("half", "prevalence")


def _is_texts(found: object) -> bool:
    return isinstance(found, list) and all(isinstance(each, str) for each in found)


def _read_arrays(path: Path, described: dict[str, Any]) -> dict[str, np.ndarray]:
    if not path.is_file():
        raise CheckpointError(f"{path}: missing beside {_DESCRIPTION}. Copy the evaluation again.")
    if digest_of_file(path) != described["arrays"].get("sha256"):
        raise CheckpointError(f"{path}: is not the file that {_DESCRIPTION} describes. Copy the evaluation again.")
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: np.asarray(stored[name], dtype=np.float64) for name in stored.files}
    except (OSError, ValueError, BadZipFile) as error:
        raise CheckpointError(f"{path}: cannot be read ({error}). Copy the evaluation again.") from error
    p, n_classes = arrays.get("mean", np.zeros(0)).size, len(described["classes"])
    k = n_classes if described["kind"] == "multiclass" else 1
    shapes = {"mean": (p,), "scale": (p,), "coefficients": (p, k), "intercept": (k,), "shares": (n_classes,)}
    wrong = [name for name, shape in shapes.items() if name not in arrays or arrays[name].shape != shape or not p]
    if wrong:
        raise CheckpointError(f"{path}: {', '.join(wrong)} missing or of a wrong shape. Copy the evaluation again.")
    return arrays
