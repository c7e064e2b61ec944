"""Arguments of `predict`, and the predictions of people that it returns."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from neurocontrast.commands.written import Written
from neurocontrast.config import Config
from neurocontrast.data.listing import AnyTable
from neurocontrast.provenance import Description


@dataclass(frozen=True)
class Request:
    """Keep the arguments of `neurocontrast.predict`."""

    people: AnyTable
    """Scans, measures or embeddings."""
    out: Path | None
    run: Path | None
    images_root: str | os.PathLike[str] | None
    config: Config | Mapping[str, Any] | str | os.PathLike[str] | None
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
