"""A fitted probe as two files that say what they are: ``probe.json`` and ``probe.npz``; no pickle."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from neurocontrast.evaluation.distribution import LEVELS, TrainingDistribution
from neurocontrast.evaluation.fitted import FittedProbe, Platt
from neurocontrast.evaluation.transformers.recentring import (
    ARRAYS,
    SiteRecentring,
    describe_recentring,
    restore_recentring,
)
from neurocontrast.exceptions import CheckpointError
from neurocontrast.files import atomic_path, digest_of_file, write_json
from neurocontrast.provenance import version

__all__ = ["FOLDER", "load_probe", "save_probe"]

FOLDER = "probe"
"""Where in an evaluation a probe is."""

_DESCRIPTION, _ARRAYS = "probe.json", "probe.npz"
_FORMAT, _FORMAT_RECENTRED = 1, 2
"""The second, so that an earlier version does not apply a recentred probe to features as they are."""
_GEOMETRY = ("centres", "scale", "axes", "variances", "remainder", "usual")
_TEXTS = ("name", "target")
_NEEDED = (*_TEXTS, "kind", "classes", "strength", "threshold", "encoder", "trained_on", "n_scans", "arrays")


def save_probe(folder: str | os.PathLike[str], probe: FittedProbe) -> None:
    """Write ``probe.npz``, then ``probe.json`` with its digest; the folder is made.

    Neither holds features of a person, but means of sites and what people have in common. ``trained_on`` holds
    digests of subjects, so that `load_probe` can say who was trained on: whoever has the list of identifiers can
    recompute them.
    """
    folder = Path(folder)
    arrays = {name: getattr(probe, name) for name in ("mean", "scale", "coefficients", "intercept", "shares")}
    if probe.platt is not None:
        arrays |= {"platt_slope": np.array(probe.platt.slope), "platt_biases": probe.platt.biases}
    described_parts: dict[str, Any] = {}
    if probe.distribution is not None:
        arrays |= {f"inside_{name}": np.asarray(getattr(probe.distribution, name)) for name in _GEOMETRY}
        described_parts["distribution"] = {
            "sites": list(probe.distribution.sites),
            "k_axes": len(probe.distribution.variances),
        }
    if probe.recentring is not None:
        recentring = probe.recentring
        arrays |= {f"recentring_{name}": getattr(recentring, attribute) for name, attribute in ARRAYS.items()}
        columns = describe_recentring(recentring)
        described_parts["recentring"] = {"sites": recentring.sites_.tolist(), "columns": columns}
    with atomic_path(folder / _ARRAYS) as temporary:
        np.savez(temporary, **arrays)
    described = {
        "format": _FORMAT if probe.recentring is None else _FORMAT_RECENTRED,
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
        "limits": None if probe.limits is None else list(probe.limits),
        **described_parts,
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
        limits=None if described.get("limits") is None else tuple(described["limits"]),
        recentring=_read_recentring(described, arrays, folder),
        distribution=_read_distribution(described, arrays, folder),
    )


def _read_recentring(described: dict[str, Any], arrays: dict[str, np.ndarray], folder: Path) -> SiteRecentring | None:
    if described["format"] != _FORMAT_RECENTRED:
        return None
    part: Any = described.get("recentring")
    try:
        sites, columns = tuple(map(str, part["sites"])), [_column(column) for column in part["columns"]]
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(folder, "recentring") from error
    p, q = arrays["mean"].size, len(columns)
    shapes = {"shifts": (len(sites), p), "centre": (p,), "scale": (p,), "coefficients": (q, p), "means": (q,)}
    return restore_recentring(sites, _part(arrays, "recentring", shapes, folder), columns)


def _column(column: dict[str, Any]) -> dict[str, Any]:
    if "level" in column:
        return {"name": str(column["name"]), "level": str(column["level"])}
    return {"name": str(column["name"]), "mean": float(column["mean"])}


def _read_distribution(
    described: dict[str, Any], arrays: dict[str, np.ndarray], folder: Path
) -> TrainingDistribution | None:
    if described.get("distribution") is None:
        return None
    try:
        sites = tuple(map(str, described["distribution"]["sites"]))
        k = int(described["distribution"]["k_axes"])
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(folder, "distribution") from error
    n, p = len(sites), arrays["mean"].size
    shapes = {"centres": (n, p), "scale": (p,), "axes": (p, k), "variances": (k,), "usual": (n, len(LEVELS))}
    found = _part(arrays, "inside", shapes | {"remainder": ()}, folder)
    remainder = float(found.pop("remainder"))
    return TrainingDistribution(sites, remainder=remainder, **found)


def _part(
    arrays: dict[str, np.ndarray], prefix: str, shapes: Mapping[str, tuple[int, ...]], folder: Path
) -> dict[str, np.ndarray]:
    found = {name: arrays[f"{prefix}_{name}"] for name in shapes if f"{prefix}_{name}" in arrays}
    if any(name not in found or found[name].shape != shape for name, shape in shapes.items()):
        raise _damaged(folder, {"inside": "distribution"}.get(prefix, prefix))
    return found


def _damaged(folder: Path, what: str) -> CheckpointError:
    return CheckpointError(f"{folder}: '{what}' missing or damaged. Copy the evaluation again.")


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
    if not isinstance(described, dict) or described.get("format") not in (_FORMAT, _FORMAT_RECENTRED):
        found = described.get("format") if isinstance(described, dict) else None
        raise CheckpointError(
            f"{path}: format {found!r} is not known (this version reads {_FORMAT} and {_FORMAT_RECENTRED})."
        )
    wrong = [f"'{key}'" for key in _NEEDED if key not in described]
    wrong += [f"'{key}'" for key in ("classes", "trained_on") if not _is_texts(described.get(key, []))]
    wrong += [f"'{key}'" for key in _TEXTS if not isinstance(described.get(key, ""), str)]
    wrong += [f"'{key}'" for key in ("strength", "n_scans") if not isinstance(described.get(key, 0), int | float)]
    wrong += ["'kind'"] if described.get("kind") not in ("binary", "multiclass", "continuous") else []
    wrong += [] if _is_limits(described.get("limits")) else ["'limits'"]
    wrong += ["'arrays'"] if not isinstance(described.get("arrays", {}), dict) else []
    if not wrong and not _fits_kind(described):
        wrong = ["'threshold'"]
    if wrong:
        raise CheckpointError(f"{path}: {', '.join(wrong)} missing or damaged. Copy the evaluation again.")
    return described


def _fits_kind(described: dict[str, Any]) -> bool:
    threshold = described["threshold"]
    return isinstance(threshold, float) if described["kind"] == "binary" else threshold in ("half", "prevalence")


def _is_limits(found: object) -> bool:
    return found is None or (
        isinstance(found, list) and len(found) == 2 and all(isinstance(each, int | float) for each in found)
    )


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
