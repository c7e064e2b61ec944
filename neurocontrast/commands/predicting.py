"""Arguments of `predict`, and the tables and summaries that it returns."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from neurocontrast.commands.written import Written
from neurocontrast.config import AnyConfig
from neurocontrast.data.listing import AnyTable
from neurocontrast.provenance import Description
from neurocontrast.reporting.wording import number_text


@dataclass(frozen=True)
class Request:
    """Keep the arguments of `neurocontrast.predict`."""

    people: AnyTable
    """Scans, measures or embeddings."""
    out: Path | None
    run: Path | None
    images_root: str | os.PathLike[str] | None
    config: AnyConfig | None
    calibrate: AnyTable | None
    features: bool
    overwrite: bool


class PeoplePredictions(Written):
    """Hold predictions of people, the record of their making, and their file, if one was written.

    Parameters
    ----------
    table : DataFrame
        One row a person.
    about : dict
        Content of the JSON file beside the table.
    lines : sequence of str
        Summary for people.
    location : path, optional
        File of the table.
    """

    def __init__(
        self,
        table: pd.DataFrame,
        about: Description,
        lines: list[str],
        location: Path | None = None,
    ) -> None:
        if location is not None:
            super().__init__(location)
        self.table = table
        self.about = about
        self._lines = lines

    def __repr__(self) -> str:
        path = self.__dict__.get("location", "no file: give out")
        return f"{type(self).__name__}('{path}')\n{self.summary()}"

    def summary(self) -> str:
        """Describe how many people were predicted, lie outside, and failed; and calibrations."""
        return "\n".join(self._lines)


def describe_calibration(about: Description) -> list[str]:
    """List by how much `calibrate` moved each site, and from how many people.

    `about` is the content of the JSON file beside the predictions.
    """
    lines = []
    for site, shift in (about.get("calibration") or {}).get("by_site", {}).items():
        people = f"{shift['n_subjects']} labelled people"
        if shift["shift"] is None:
            lines.append(f"not calibrated: site {site}, {people} are not enough")
            continue
        size = number_text(shift["shift"], signed=True)
        if about["kind"] != "continuous":
            size += " in log-odds"
        lines.append(f"calibrated: site {site} moved by {size}, learned from {people}")
    return lines


def tell_rows(table: pd.DataFrame, on_scan: Callable[[Description], None] | None) -> None:
    """Call a function with each row of a table as a JSON object."""
    if on_scan is None:
        return
    for row in json.loads(table.to_json(orient="records", double_precision=15)):
        on_scan(row)
