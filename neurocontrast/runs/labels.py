"""Labels of some people of a site, by which predictions are calibrated."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.cells import Refusal, is_missing
from neurocontrast.data.columns import as_age, levels_of, no_column, number_in
from neurocontrast.data.listing import AnyTable, place_of
from neurocontrast.data.people import read_people
from neurocontrast.data.problems import Problems, shown
from neurocontrast.data.sexes import as_sex
from neurocontrast.data.unmarked import unmarked_missing
from neurocontrast.evaluation import FittedProbe
from neurocontrast.evaluation.rows import Floats
from neurocontrast.exceptions import ConfigError, DataError, one_of, suggestion
from neurocontrast.provenance import CONTENT, Description, Recognised, subject_label


def people_of(fitted: FittedProbe, tidy: pd.DataFrame) -> Recognised:
    """Return the people in a table on whom a probe was fitted, found by identifier or scan content.

    `tidy` has a row for each scan. The result has the identifiers of the found subjects, and the
    number of subjects that could not be compared by content.
    """
    return fitted.people.find(tidy["subject_id"], tidy[CONTENT])


def trained_on(tidy: pd.DataFrame, people: Recognised) -> npt.NDArray[np.bool_]:
    """Return a mask of the rows of table `tidy` whose subjects were in a training.

    `people` are the subjects who were in the training of an encoder or a probe, found before by
    their identifier or the content of their scan.
    """
    return tidy["subject_id"].isin(people.subjects).to_numpy()


@dataclass(frozen=True)
class Labels:
    """Table of people's true labels as text, for calibration, with the name of the table's file."""

    cells: pd.DataFrame
    source: str
    gaps: bool = False
    """Whether a person may lack a label, as in a table of several targets."""


def read_labels(
    fitted: FittedProbe, tidy: pd.DataFrame, calibrate: AnyTable | None
) -> Labels | None:
    """Read the table `calibrate` of true labels, for calibration of a probe; None without a table.

    The labels are values of the target that the probe `fitted` predicts. `tidy` are the scans to
    predict. Refused are a probe of several classes, and scans of which none has a site.
    """
    if calibrate is None:
        return None
    if fitted.kind == "multiclass":
        raise ConfigError(
            "calibrate: is for numbers and for two classes; this probe predicts several classes."
        )
    if tidy["site"].isna().all():
        raise DataError(
            "calibrate: no scan has a site, and a bias is that of a site. Give a column 'site' to "
            "the table of the scans: predict from the table (participant_id, path, site) in place "
            "of a folder, or embed it again, for embeddings. Scans of one site have the same word "
            "there."
        )
    source = place_of(calibrate).name
    cells = read_cells(calibrate, [fitted.target])
    for column in ("participant_id", fitted.target):
        if column not in cells:
            raise DataError(no_column(source, column, cells))
    return Labels(cells, source)


def read_cells(table: AnyTable, targets: list[str]) -> pd.DataFrame:
    """Read a table of true labels as text, decoded by its JSON file; refuse unexplained codes.

    Codes are refused in the columns `targets` alone.
    """
    people = read_people(table, ("participant_id", "session"))
    problems = Problems(place_of(table).name)
    for target in targets:
        for row, refusal in people.refused.get(target, {}).items():
            label = people.cells[target].iloc[row]
            is_clear = number_in(target, label) is not None or isinstance(as_sex(label), str)
            if is_clear:
                line = int(people.cells.index[row])
                problems.add(f"found {shown(label)}; {refusal.rule}", column=target, line=line)
    problems.raise_if_any()
    return people.cells


def truths_of(
    fitted: FittedProbe, tidy: pd.DataFrame, labels: Labels | None, people: Recognised
) -> Floats | None:
    """Return the true label of each scan in `tidy` as a number: a value, or the index of a class.

    Scans without a label have NaN. None is returned if no table of labels was passed. Refused with
    a DataError are labels of people on whom the probe was fitted, of people without a scan in
    `tidy`, labels that are no value or class of the target, and two different labels of one scan.
    """
    if labels is None:
        return None
    problems = Problems(labels.source)
    truth_of = _truth_by_cell(fitted, labels.cells[fitted.target])
    truths = np.full(len(tidy), np.nan)
    rows = _rows_of_people(tidy)
    is_trained_on = trained_on(tidy, people)
    line_of: dict[int, tuple[int, str]] = {}
    for line, row in zip(labels.cells.index, labels.cells.to_dict("records"), strict=True):
        name = row["participant_id"]
        cell = row[fitted.target]
        where: Description = {"line": line, "name": name}
        of_scan = _scans_of(row, rows, tidy)
        value = truth_of[cell]
        if not len(of_scan):
            problems.add("no scan belongs to this participant", column="participant_id", **where)
        elif value is None and labels.gaps and is_missing(cell):
            continue
        elif value is None:
            rule = _rule_of(fitted, cell)
            problems.add(f"found {shown(cell)}; {rule}", column=fitted.target, **where)
        elif is_trained_on[of_scan].any():
            problems.add(
                "the probe was fitted on this subject, who cannot calibrate a new site", **where
            )
        elif earlier := next(
            (line_of[scan] for scan in of_scan if scan in line_of and truths[scan] != value), None
        ):
            problems.add(
                f"is {shown(earlier[1])} in line {earlier[0]}, and {shown(cell)} here",
                column=fitted.target,
                **where,
            )
        else:
            truths[of_scan] = value
            line_of |= dict.fromkeys(of_scan, (line, cell))
    problems.raise_if_any()
    return truths


def _rule_of(fitted: FittedProbe, cell: str) -> str:
    """Return the rule that a refused label breaks, such as "must be a number"."""
    if fitted.kind != "continuous":
        return f"must be {one_of(fitted.classes)}{suggestion(cell, fitted.classes)}"
    if fitted.target == "age":
        age = as_age(cell)
        if isinstance(age, Refusal):
            return age.rule
    return "must be a number"


def _rows_of_people(tidy: pd.DataFrame) -> dict[str, npt.NDArray[np.intp]]:
    """Return row numbers of each participant, by the participant's identifier without ``sub-``."""
    labels = tidy["participant_id"].map(subject_label).to_numpy()
    rows = {}
    for label in set(labels):
        rows[label] = np.flatnonzero(labels == label)
    return rows


def _scans_of(
    row: Mapping[Hashable, str], rows: Mapping[str, npt.NDArray[np.intp]], tidy: pd.DataFrame
) -> npt.NDArray[np.intp]:
    """Return the row numbers in `tidy` of the scans that a row of labels is for.

    They are the scans of the row's participant; of one session only, if the table of labels has
    sessions.
    """
    of_person = rows.get(subject_label(row["participant_id"]), np.array([], dtype=int))
    if "session" not in row:
        return of_person
    session = "" if is_missing(row["session"]) else row["session"]
    return of_person[(tidy["session"].fillna("").iloc[of_person] == session).to_numpy()]


def _truth_by_cell(fitted: FittedProbe, cells: pd.Series) -> dict[str, float | None]:
    """Return the text of each cell of labels → true label as a number; None for an invalid label.

    The number is the value of a continuous target, or the index of the label's class among the
    probe's classes. A label matches a class as the probe stores the class, or in its usual spelling
    (such as ``female``): probes of earlier versions store the spelling of their training table.
    """
    written = cells.unique().tolist()
    if fitted.kind == "continuous":
        codes = unmarked_missing(fitted.target, cells)
        numbers: dict[str, float | None] = dict.fromkeys(codes)
        for cell in written:
            numbers.setdefault(cell, number_in(fitted.target, cell))
        return numbers
    classes = list(fitted.classes)
    levels = levels_of(fitted.target, classes)
    truths: dict[str, float | None] = {}
    for cell, level in zip(
        written, levels_of(fitted.target, written, learned=classes), strict=True
    ):
        truths[cell] = None
        if level in classes:
            truths[cell] = float(classes.index(level))
        elif level in levels:
            truths[cell] = float(levels.index(level))
    return truths
