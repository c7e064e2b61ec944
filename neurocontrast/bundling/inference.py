"""The run of a bundle: every scan is read, encoded and predicted, and its result is one line of JSON.

Encoder and probe are built from the plain settings that the bundle's configuration holds.
"""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import torch
from monai.transforms import Compose
from torch import nn

from neurocontrast.encoders.encoder import Encoder
from neurocontrast.encoders.networks import build_network
from neurocontrast.evaluation.distances import TrainingDistribution
from neurocontrast.exceptions import DataError
from neurocontrast.files import atomic_path, files_of
from neurocontrast.transforms.images import apply
from neurocontrast.transforms.loading import read_scan_header, scans_below

__all__ = ["Inference", "Probe", "build_encoder", "list_scans", "load_probe"]


def list_scans(place: str | os.PathLike[str], columns: Sequence[str]) -> list[dict[Hashable, Any]]:
    """Return items of a dataset: of one scan, of the scans at any depth of a folder, or of the rows of a table.

    `columns` of the table (``.tsv``, ``.csv``) have the files of a scan, one a channel, from the table's folder on.
    """
    path = Path(place)
    if path.suffix.lower() in (".tsv", ".csv"):
        return _rows(path, columns)
    if not path.exists():
        raise DataError(f"{path}: there is no such scan, folder or table.")
    if len(columns) > 1:
        raise DataError(f"{path}: a scan has {len(columns)} files. Give a table with the columns {', '.join(columns)}.")
    return [{"image": str(scan)} for scan in (scans_below(path) if path.is_dir() else [path])]


def _rows(path: Path, columns: Sequence[str]) -> list[dict[Hashable, Any]]:
    with path.open(newline="", encoding="utf-8-sig") as stream:
        reader = csv.DictReader(stream, delimiter="," if path.suffix.lower() == ".csv" else "\t")
        rows = list(reader)
    missing = [name for name in columns if name not in (reader.fieldnames or ())]
    if missing or not rows:
        raise DataError(
            f"{path}: needs the columns {', '.join(columns)}, and a row a scan; it lacks {missing or 'rows'}."
        )
    items: list[dict[Hashable, Any]] = []
    for row in rows:
        scan = tuple(str(path.parent / row[name]) for name in columns)
        items.append({"image": scan if len(scan) > 1 else scan[0], "participant_id": row.get("participant_id")})
    return items


class Inference:
    """Encode and predict scans, one after the other, into a file of JSON lines; a bad one stops no other.

    Items of `scans` have an ``"image"``: its path, or a tuple of those of its channels.
    """

    def __init__(
        self,
        scans: Sequence[Mapping[Hashable, Any]],
        preprocessing: Compose,
        network: nn.Module,
        device: torch.device,
        output: str | os.PathLike[str],
        probe: Any = None,
    ) -> None:
        self.scans, self.preprocessing, self.network = scans, preprocessing, network
        self.device, self.output, self.probe = device, Path(output), probe

    def run(self) -> None:
        """Write one line a scan; end with exit code 1 where scans failed."""
        self.network.to(self.device).eval()
        n_failed = 0
        with atomic_path(self.output) as temporary, temporary.open("w", encoding="utf-8") as stream:
            for item in self.scans:
                record = self.record(item)
                n_failed += record["error"] is not None
                stream.write(json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n")
        if n_failed:
            raise SystemExit(1)

    def record(self, item: Mapping[Hashable, Any]) -> dict[str, Any]:
        """Return features and prediction of a scan, with its warnings, or its error."""
        about = self.about(item)
        try:
            image = apply(self.preprocessing, item)["image"]
            with torch.inference_mode():
                features = self.network(torch.as_tensor(image)[None].to(self.device)).float().cpu()
            if not features.isfinite().all():
                raise DataError(f"{', '.join(map(str, about.values()))}: its features are not finite.")
            warnings = self.warnings_of(item)
        except DataError as error:
            return {**about, "features": None, "warnings": [], "error": str(error)}
        predicted = {} if self.probe is None else self.probe.describe(features)
        if predicted.get("outside"):
            warnings.append("lies outside the distribution that the probe was fitted on")
        return {**about, "features": features[0].tolist(), **predicted, "warnings": warnings, "error": None}

    def about(self, item: Mapping[Hashable, Any]) -> dict[str, Any]:
        """Return the files of a scan, and whose it is."""
        return {"image": list(files_of(item["image"])), "participant_id": item.get("participant_id")}

    def warnings_of(self, item: Mapping[Hashable, Any]) -> list[str]:
        """Return what the header of a scan warns of."""
        first = files_of(item["image"])[0]
        return [] if first.lower().endswith(".npy") else list(read_scan_header(first).warnings)


def build_encoder(
    settings: Mapping[str, Any], weights: str | os.PathLike[str], *, n_channels: int = 1, n_voxels: int = 0
) -> Encoder:
    """Build the encoder from its settings, load its weights without running code from them; in evaluation mode.

    A linear encoder looks at `n_voxels` voxels of a volume.
    """
    read_out = _ReadOut(settings["read_out"]["blocks"], tuple(settings["read_out"]["grid"]))
    is_linear = settings["name"] in ("pca", "lda")
    known = cast(Any, SimpleNamespace(**{**settings, "read_out": read_out, "is_linear": is_linear, "n_dims": 3}))
    encoder = Encoder(build_network(known, n_channels, n_voxels), known, n_channels=n_channels)
    encoder.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
    return encoder.eval()


class _ReadOut:
    """Blocks and grid that features are read out at, which were checked when the encoder was trained."""

    def __init__(self, blocks: Any, grid: tuple[int, ...]) -> None:
        self.blocks, self.grid = None if blocks is None else tuple(blocks), grid
        self.n_cells = math.prod(grid)

    def check(self, name: str) -> None:
        """Find nothing to refuse."""
        del name


class Probe(nn.Module):
    """Predict from features: standardisation and coefficients as one linear layer in float64, and its link.

    `kind` is ``binary``, ``multiclass`` or ``continuous``; of two classes the last is positive, from a probability of
    `threshold` on, which of several classes is ``half`` or ``prevalence``.
    Scans beyond `outside_percentile` of the training scans' distances are outside.
    """

    def __init__(
        self,
        n_features: int,
        *,
        kind: str,
        classes: Sequence[str] = (),
        threshold: float | str = 0.5,
        outside_percentile: float = 97.5,
    ) -> None:
        super().__init__()
        self.kind, self.classes, self.threshold = kind, list(classes), threshold
        self.outside_percentile = outside_percentile
        self.linear = nn.Linear(n_features, len(classes) if kind == "multiclass" else 1, dtype=torch.float64)
        self.register_buffer("shares", torch.ones(len(classes), dtype=torch.float64))
        self.distribution: TrainingDistribution | None = None

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Map features (n, n_features) to probabilities of the positive class, or numbers (n,), or (n, n_classes)."""
        margins = self.linear(features.double())
        if self.kind == "multiclass":
            return torch.softmax(margins, dim=1)
        if self.kind == "binary":
            return torch.sigmoid(margins[:, 0])
        return margins[:, 0]

    @torch.no_grad()
    def describe(self, features: torch.Tensor) -> dict[str, Any]:
        """Return what is predicted for one scan (1, n_features), as JSON has it."""
        scores = self(features)[0]
        if self.kind == "continuous":
            found: dict[str, Any] = {"y_score": float(scores), "y_pred": float(scores)}
        elif self.kind == "binary":
            found = {"y_score": float(scores), "y_pred": self.classes[int(float(scores) >= float(self.threshold))]}
        else:
            found = {f"score_{name}": float(score) for name, score in zip(self.classes, scores, strict=True)}
            relative = scores / self.shares if self.threshold == "prevalence" else scores
            found["y_pred"] = self.classes[int(relative.argmax())]
        if self.distribution is None:
            return found
        distances, percentiles = self.distribution.percentiles(features.double().numpy())
        outside = bool(percentiles[0] > self.outside_percentile)
        place = {"mahalanobis": float(distances[0]), "mahalanobis_percentile": float(percentiles[0])}
        return found | place | {"outside": outside}


def load_probe(weights: str | os.PathLike[str], **settings: Any) -> Probe:
    """Build a probe and load its numbers; the file is read without running what a pickle may hold."""
    arrays = torch.load(weights, map_location="cpu", weights_only=True)
    probe = Probe(arrays["linear.weight"].shape[1], **settings)
    geometry = {name.removeprefix("inside_"): arrays.pop(name) for name in list(arrays) if name.startswith("inside_")}
    probe.load_state_dict(arrays)
    if geometry:
        found = {name: values.numpy() for name, values in geometry.items()}
        found["remainder"] = float(found["remainder"])
        probe.distribution = TrainingDistribution(tuple(map(str, range(len(found["centres"])))), **found)
    return probe.eval()
