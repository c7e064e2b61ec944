"""The run of a bundle: every scan is read, encoded and predicted, and its result is one line of JSON."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from monai.transforms import Compose
from torch import nn

from neurocontrast.exceptions import DataError
from neurocontrast.files import atomic_path, files_of
from neurocontrast.transforms.images import apply
from neurocontrast.transforms.loading import read_scan_header, scans_below

__all__ = ["Inference", "list_scans"]


def list_scans(place: str | os.PathLike[str], columns: Sequence[str]) -> list[dict[Hashable, Any]]:
    """Return items of a dataset: of one scan, of the scans in a folder, or of the rows of a table.

    Parameters
    ----------
    place : path
        Scan, folder of scans (at any depth), or table (``.tsv``, ``.csv``).
    columns : sequence of str
        Columns of the table with the files of a scan, one a channel; relative paths start from the table's folder.
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
    """Encode and predict scans, one after the other; a bad one stops no other.

    Parameters
    ----------
    scans : sequence of dict
        Items with an ``"image"``: its path, or a tuple of those of its channels.
    preprocessing : Compose
        Transforms from path to image.
    network : torch.nn.Module
        Encoder.
    device : torch.device
        Where it runs.
    output : path
        File of JSON lines to write.
    probe : Probe, optional
        What predicts from features.
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
