"""Result of an evaluation or of its external test, read from ``evaluation.json`` and tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import pandas as pd

from neurocontrast.data.listing import read_table
from neurocontrast.data.problems import shown
from neurocontrast.documents.encoder import RunDescription
from neurocontrast.documents.figures import Metric
from neurocontrast.documents.result import Result
from neurocontrast.exceptions import DataError
from neurocontrast.reporting import wording
from neurocontrast.reporting.voices import VOICES
from neurocontrast.reporting.wording import SCANS, Words

REMEDY = "Run 'neurocontrast evaluate' again."
TEMPLATES = resources.files("neurocontrast.reporting") / "templates"
"""Templates of the report's texts, and YAML files with names of metrics and titles."""
_LEVEL = 0.95
"""Confidence level of evaluations that record none."""
_LABELS = frozenset(("y_true", "target"))
"""Columns of the target's values: text for classes, numbers for a continuous target."""
_TEXT = _LABELS | frozenset(
    (
        "participant_id",
        "subject_id",
        "session",
        "site",
        "sex",
        "held_out_site",
        "note",
        "path",
        "y_pred",
        "model",
        "column",
        "within",
        "metric",
        "step",
        "reason",
        "class",
        "reference",
        "outside",
        "split",
    )
)
"""Columns that hold text, not numbers, in every table of an evaluation."""
_LOOSE = frozenset(("folds.tsv", "scans.tsv"))
"""Tables with columns from the user's own table, which may hold text instead of numbers."""


def words_of(run: RunDescription) -> Words:
    """Return the nouns by which a report calls the samples that a run's encoder reads.

    Returned are `Words` for scans ("scan", "subject"), unless a package has registered nouns for
    the kind of samples, such as images, in `VOICES`.
    """
    voice = VOICES.find(run.preprocessing.kind)
    if voice is None:
        return SCANS
    return voice.words


class Results:
    """Base class of evaluations and comparisons: order, names and levels of chance of metrics."""

    @property
    def leading(self: Any) -> list[str]:
        """Names of the metrics in every table of metrics on the page, the most important first.

        The page is the report of an evaluation, or of a comparison.
        """
        return wording.leading_metrics(self.kind, self.metrics, self.words)

    @property
    def headline(self) -> str | None:
        """Name of the metric in the first sentence of the page; None without metrics.

        This is the most important metric for the kind of target, the first of `leading`.
        """
        return next(iter(self.leading), None)

    @property
    def percent(self: Any) -> str:
        """Confidence level of the intervals in per cent: "97.5%"."""
        return wording.level_text(self.level)

    def describe(self: Any, metric: str) -> wording.Named:
        """Return names, meaning and bounds of a metric, for texts on the page.

        The bounds are the smallest and the largest value that the metric can take. The meaning is
        in nouns that fit the samples, such as scans.
        """
        return wording.describe_metric(metric, self.words)

    def chance(self: Any, metric: str) -> float | None:
        """Return the value of a metric that guessing reaches; None if there is no one value.

        There is no one value of a metric such as the mean absolute error, which for a guess depends
        on the people who are evaluated.
        """
        return wording.chance_level(metric, len(self.classes), self.words)


@dataclass(frozen=True, kw_only=True)
class ResultTables(Results):
    """Content of ``evaluation.json`` and tables of an evaluation, or of its external test.

    Parameters
    ----------
    folder : Path
        Evaluation folder, which holds the tables.
    summary : Result
        Content of ``evaluation.json``, with the metrics of every model; for an external test, with
        the metrics of that test.
    predictions, sites : DataFrame
        Predictions of the tested samples, and the metrics at each site; empty if absent.
    show_ids : bool
        Whether identifiers may appear in the report.
    prefix : str
        Beginning of the names of tables and figures: ``external_`` for an external test.
    opening : str
        First sentence of captions and alternative texts, which ends with a space; empty for none.
    tables : dict
        Tables that have been read, by the name of the file without ``.tsv``.
    """

    folder: Path
    summary: Result
    predictions: pd.DataFrame
    sites: pd.DataFrame
    show_ids: bool = False
    prefix: str = ""
    opening: str = ""
    tables: dict[str, pd.DataFrame | None] = field(default_factory=dict)

    def table(self, name: str, *needed: str, text: Sequence[str] = ()) -> pd.DataFrame | None:
        """Return the table in ``<prefix><name>.tsv`` of the folder; None if absent or without rows.

        DataError names a `needed` column that is missing, and a cell that is no number, unless its
        column is one of `text` or text in every table, such as ``site``.
        """
        name = f"{self.prefix}{name}"
        table = self.tables.get(name)
        if name not in self.tables or (table is not None and not set(needed) <= set(table)):
            path = self.folder / f"{name}.tsv"
            self.tables[name] = read_result_table(path, needed, kind=self.kind, text=text)
        return self.tables[name]

    @property
    def target(self) -> str:
        """Name of the column that was predicted."""
        return self.summary.target

    @property
    def kind(self) -> str:
        """Kind of the target: ``binary``, ``multiclass`` or ``continuous``."""
        return self.summary.kind

    @property
    def run(self) -> RunDescription:
        """Description of the pretraining run, as recorded with the embeddings and the evaluation.

        The `RunDescription` is empty if none is recorded.
        """
        return self.summary.run or RunDescription()

    @property
    def words(self) -> Words:
        """Nouns for the samples, such as scans or images."""
        return words_of(self.run)

    @property
    def fixed(self) -> bool:
        """Whether models have one test set, fixed beforehand, and no cross-validation."""
        return self.summary.splits == "fixed" or self.summary.split is not None

    @property
    def classes(self) -> list[str]:
        """Names of the target's classes; empty for a continuous target."""
        return self.summary.classes

    @property
    def positive(self) -> str:
        """Name of the target's positive class; empty for a target without one."""
        return self.summary.positive or ""

    @property
    def negative(self) -> str:
        """Name of the negative class of a binary target."""
        return next((name for name in self.classes if name != self.positive), "")

    @property
    def metrics(self) -> dict[str, Metric]:
        """Metric → the embedding's values of the metric, pooled and over folds."""
        return self.summary.metrics

    @property
    def level(self) -> float:
        """Confidence level of the evaluation's bootstrap intervals, such as 0.95."""
        return self.summary.bootstrap.level or _LEVEL


def read_result_table(
    path: Path, required: Sequence[str], *, kind: str, text: Sequence[str] = ()
) -> pd.DataFrame | None:
    """Read a table of an evaluation from `path`; None for an absent or empty table.

    Columns become numbers, but for those in `text` and those with text in every evaluation, such as
    ``site``. The columns with true labels of the target, such as ``y_true``, become numbers if
    `kind`, the kind of target, is ``continuous``, and stay text for classes.
    """
    if not path.is_file() or path.stat().st_size < 2:  # a table without columns is one line end
        return None
    table = read_table(path, needed=required, remedy=REMEDY, dtype=str, na_values=["", "n/a"])
    if table.empty:
        return None
    of_text = _TEXT.union(text)
    if kind == "continuous":
        of_text = (_TEXT - _LABELS).union(text)
    columns = {}
    for name in table:
        columns[name] = table[name]
        if name not in of_text:
            columns[name] = _convert(table[name], path, required)
    return pd.DataFrame(columns)


def _convert(column: pd.Series, path: Path, required: Sequence[str]) -> pd.Series:
    """Convert a column of the table at `path` to numbers; raise DataError for a cell with text.

    In ``folds.tsv`` and ``scans.tsv``, a column of text that is not `required` is returned
    unchanged.
    """
    values = pd.to_numeric(column, errors="coerce")
    wrong = column.notna() & values.isna() & (column.str.lower() != "nan")
    if not wrong.any():
        return values.astype("float64")
    if path.name in _LOOSE and column.name not in required:
        return column
    cells = [f"row {row + 2}: {shown(column[row])}" for row in wrong[wrong].index[:5]]
    raise DataError(f"{path}, column '{column.name}': must be numbers, found {', '.join(cells)}.")
