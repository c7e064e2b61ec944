"""Arguments of `predict`, and the tables and summaries that `predict` returns."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from neurocontrast.commands.written import Written
from neurocontrast.config import AnyConfig
from neurocontrast.data.listing import AnyTable, read_table
from neurocontrast.documents.document import Json
from neurocontrast.documents.predicted import PeoplePredictionsRecord, ProbePredictionsRecord
from neurocontrast.reading import read_json
from neurocontrast.reporting.wording import count_text, number_text


@dataclass(frozen=True)
class Request:
    """Arguments of `neurocontrast.predict`, together for the functions that predict."""

    people: AnyTable
    """Table, folder or file of the scans, measures or embeddings to predict."""
    out: Path | None
    run: Path | None
    images_root: str | os.PathLike[str] | None
    config: AnyConfig | None
    calibrate: AnyTable | None
    features: bool
    overwrite: bool


class Predictions(Written):
    """Path of a table of predictions by an evaluation's probe; property `table` reads the file."""

    @property
    def table(self) -> pd.DataFrame:
        """The predictions as a table, read from the file: one row a scan.

        Identifiers, sites and predicted classes are text: ``001`` stays ``001``.
        """
        texts = ["participant_id", "subject_id", "session", "site"]
        if self.record.kind != "continuous":
            texts.append("y_pred")
        return read_table(self.location, na_values=["", "n/a"], dtype=dict.fromkeys(texts, str))

    @property
    def record(self) -> ProbePredictionsRecord:
        """Record of how the predictions were made, read from the JSON file beside their table."""
        path = self.location.with_suffix(".json")
        return ProbePredictionsRecord.of(read_json(path), path)

    def summary(self) -> str:
        """Return lines of text: counts of predicted, outlying and failed scans; calibrated sites.

        For a calibrated site, the line tells the constant by which predictions there were shifted.
        """
        record = self.record
        n_predicted = record.n.scans - record.n_failed
        title = f"{record.target} predicted for {count_text(n_predicted, 'scan')}"
        if record.outlyingness is not None:
            n_outside = record.outlyingness.n_outside
            title += f", {n_outside:,} of them outside the training distribution"
        lines = [title, *describe_calibration(record)]
        if record.n_failed:
            lines.append(f"failed: {count_text(record.n_failed, 'scan')}")
        return "\n".join(lines)


class PeoplePredictions(Written):
    """Predictions of people by weights, the record of how they were made, and their file, if any.

    Parameters
    ----------
    table : DataFrame
        One row a person.
    record : PeoplePredictionsRecord
        Content of the JSON file beside the table.
    lines : sequence of str
        Lines of text that `summary` shows.
    location : path, optional
        File of the table.
    """

    def __init__(
        self,
        table: pd.DataFrame,
        record: PeoplePredictionsRecord,
        lines: list[str],
        location: Path | None = None,
    ) -> None:
        if location is not None:
            super().__init__(location)
        self.table = table
        self.record = record
        self._lines = lines

    def __repr__(self) -> str:
        path = self.__dict__.get("location", "no file: give out")
        return f"{type(self).__name__}('{path}')\n{self.summary()}"

    def summary(self) -> str:
        """Return lines of text: numbers of predicted and outlying people, calibrated sites, errors.

        The text was given to the constructor as `lines`. For a calibrated site, a line tells the
        constant by which predictions there were shifted. Errors are those of predicted age,
        measured or to expect.
        """
        return "\n".join(self._lines)


def describe_calibration(record: ProbePredictionsRecord) -> list[str]:
    """Return a list with a sentence a site: shift of its predictions, number of labelled people.

    A calibration shifts the predictions at a site by a constant, learned from people there with a
    true label. The list is empty if predictions were not calibrated.
    """
    lines = list[str]()
    if record.calibration is None:
        return lines
    for site, shift in record.calibration.by_site.items():
        people = f"{shift.n_subjects} labelled people"
        if shift.shift is None:
            lines.append(f"not calibrated: site {site}, {people} are not enough")
            continue
        size = number_text(shift.shift, signed=True)
        if record.kind != "continuous":
            size += " in log-odds"
        lines.append(f"calibrated: site {site} moved by {size}, learned from {people}")
    return lines


def tell_rows(table: pd.DataFrame, on_scan: Callable[[Json], None] | None) -> None:
    """Call the function `on_scan` with each row of `table`, as a dict from column to JSON value.

    If `on_scan` is None, nothing is called.
    """
    if on_scan is None:
        return
    for row in json.loads(table.to_json(orient="records", double_precision=15)):
        on_scan(row)
