"""The run of a bundle of regional measures: tables are read and joined, and each of their rows is predicted."""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Hashable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import torch

from neurocontrast.bundling.inference import Inference
from neurocontrast.data.measures.contract import MeasuresContract
from neurocontrast.data.measures.names import region_of
from neurocontrast.exceptions import DataError

__all__ = ["MeasuresInference", "StandardiseMeasuresd", "list_rows"]

_TABLES = (".tsv", ".csv", ".txt", ".table", ".dat")
_MISSING = ("", "n/a", "na", "nan", "null", "#n/a")
_MOST_CLIPPED = 0.5


def _read_contract(path: str | os.PathLike[str]) -> MeasuresContract:
    content = json.loads(Path(path).read_text(encoding="utf-8"))
    return MeasuresContract(**{field.name: content[field.name] for field in fields(MeasuresContract)})


def list_rows(place: str | os.PathLike[str], contract: str | os.PathLike[str]) -> list[dict[Hashable, Any]]:
    """Return the rows of a table of measures, or of a folder of tables joined by their identifiers.

    Identifiers are in ``participant_id`` (and ``session``), or in the first column as FreeSurfer writes them.
    """
    folder, known = Path(place), _read_contract(contract)
    tables = sorted(path for path in folder.iterdir() if path.suffix in _TABLES) if folder.is_dir() else [folder]
    if not tables or not tables[0].is_file():
        raise DataError(f"{folder}: there is no such table, or no table in this folder.")
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for table in tables:
        _add(table, known, rows)
    known.check_columns({name for cells in rows.values() for name in cells}, source=str(folder))
    return [{"image": cells, "participant_id": person, "session": session} for (person, session), cells in rows.items()]


def _add(table: Path, known: MeasuresContract, rows: dict[tuple[str, str], dict[str, str]]) -> None:
    with table.open(newline="", encoding="utf-8-sig") as stream:
        header = stream.readline()
        stream.seek(0)
        reader = csv.DictReader(stream, delimiter="\t" if "\t" in header else ",")
        listed = list(reader)
    columns = list(reader.fieldnames or ())
    chosen: dict[str, str] = {}
    for column in columns:
        region = region_of(column)
        name = column if column in known.columns or region is None else region.name
        if name in chosen and name in known.columns:
            raise DataError(f"{table}: columns '{chosen[name]}' and '{column}' are both of the region '{name}'.")
        chosen |= {name: column} if name in known.columns else {}
    identifier = "participant_id" if "participant_id" in columns else columns[0]
    for row in listed if chosen else ():
        key = (str(row[identifier]).strip().rstrip("/"), row.get("session") or "")
        cells = rows.setdefault(key, {})
        cells |= {name: row[column] or "" for name, column in chosen.items() if name not in cells}


class StandardiseMeasuresd:
    """Turn the cells of a row into measures (n_measures, 1), standardised by the contract in a file."""

    def __init__(self, contract: str | os.PathLike[str]) -> None:
        self.contract = _read_contract(contract)

    def __call__(self, item: Mapping[Hashable, Any]) -> dict[Hashable, Any]:
        """Return the item with its ``"image"`` standardised."""
        known, name = self.contract, str(item["participant_id"])
        raw = np.array([[_number(item["image"].get(column, ""), column, name) for column in known.columns]])
        made = known.standardised(raw, [name], source="measures")[0]
        if np.mean(np.abs(made) >= known.clip) > _MOST_CLIPPED:
            raise DataError(
                f"{name}: most measures are more than {known.clip:g} standard deviations from those learned from. Are "
                "they in mm, mm² and mm³?"
            )
        return {**item, "image": torch.from_numpy(made)[:, None]}


def _number(cell: str, column: str, name: str) -> float:
    if cell.strip().lower() in _MISSING:
        return float("nan")
    try:
        value = float(cell)
    except ValueError:
        value = math.inf
    if not math.isfinite(value):
        raise DataError(f"{name}, column '{column}': found '{cell}'; a number with a decimal point, or n/a.")
    return value


class MeasuresInference(Inference):
    """Encode and predict the rows of tables of measures, one after the other; a bad one stops no other."""

    def about(self, item: Mapping[Hashable, Any]) -> dict[str, Any]:
        """Return who a row is of."""
        return {"participant_id": item["participant_id"], "session": item["session"]}

    def warnings_of(self, item: Mapping[Hashable, Any]) -> list[str]:
        """Return nothing: a row has no header."""
        del item
        return []
