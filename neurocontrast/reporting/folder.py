"""An evaluation folder, read: every file checked, every wrong cell named."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any

import pandas as pd

from neurocontrast.data.listing import read_table
from neurocontrast.data.problems import shown
from neurocontrast.documents.document import content_of
from neurocontrast.documents.environment import Environment
from neurocontrast.documents.figures import Metric
from neurocontrast.documents.origin import Finetuning
from neurocontrast.documents.result import FILE, FixedSplit, Result, read_evaluation
from neurocontrast.evaluation.rows import NO_SITE, site_names
from neurocontrast.exceptions import ConfigError, DataError, one_of
from neurocontrast.files import digest_of_file
from neurocontrast.reporting import wording
from neurocontrast.reporting.explanation import Explanation, read_explanation
from neurocontrast.reporting.pretraining import Objective, Pretraining
from neurocontrast.reporting.voices import VOICES, Voice
from neurocontrast.reporting.wording import SCANS, Words

KINDS = ("binary", "multiclass", "continuous")
_PREDICTED = ("repeat", "fold", "y_true", "y_score")
_REQUIRED = {
    "predictions": _PREDICTED,
    "folds": ("repeat", "fold", "n_train", "n_test"),
    "sites": ("site", "n"),
}
"""Tables that every evaluation has, and the columns without which they mean nothing."""
_REMEDY = "Run 'neurocontrast evaluate' again."
_TEXT = frozenset(
    (
        "participant_id",
        "subject_id",
        "session",
        "site",
        "sex",
        "held_out_site",
        "note",
        "path",
        "y_true",
        "target",
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
"""Columns of text, in whichever table; a finding says which further ones its own table has."""
_LOOSE = {"folds.tsv", "scans.tsv"}
"""Tables that may hold further columns of any kind."""


TEMPLATES = resources.files("neurocontrast.reporting") / "templates"
"""Texts of the report, and the words and titles in it."""


def words_of(run: Pretraining) -> Words:
    """Return the nouns for the samples of a run, by its preprocessing; scans where it says nothing."""
    voice = VOICES.find(run.preprocessing.kind)
    if voice is None:
        return SCANS
    return voice.words


class Results:
    """Metrics of an evaluation or a comparison, with their names."""

    @property
    def leading(self: Any) -> list[str]:
        """Metrics that go into every table, the most important first."""
        return wording.leading_metrics(self.kind, self.metrics, self.words)

    @property
    def headline(self) -> str | None:
        """The metric that the page leads with, or None without any metric."""
        return next(iter(self.leading), None)

    @property
    def percent(self: Any) -> str:
        """Share that intervals hold, in per cent: "97.5%"."""
        return wording.level_text(self.level)

    def describe(self: Any, metric: str) -> wording.Named:
        """Return how a metric is called."""
        return wording.describe_metric(metric, self.words)

    def chance(self: Any, metric: str) -> float | None:
        """Return what guessing reaches; None if it depends on the cohort."""
        return wording.chance_level(metric, len(self.classes), self.words)


@dataclass(frozen=True)
class EvaluationFolder(Results):
    """Content of an evaluation folder; tables of findings are read when they are asked for.

    `summary` is ``evaluation.json``, `explanation` comes from the folder of that name, `show_ids`
    allows identifiers in the report, `findings` are those that the report is made of, and `tables`
    are those that were read, by name.
    """

    folder: Path
    summary: Result
    predictions: pd.DataFrame
    folds: pd.DataFrame
    sites: pd.DataFrame
    explanation: Explanation | None = None
    config_text: str | None = None
    show_ids: bool = False
    findings: tuple[Any, ...] = ()
    tables: dict[str, pd.DataFrame | None] = field(default_factory=dict)

    def table(self, name: str, *needed: str, text: Sequence[str] = ()) -> pd.DataFrame | None:
        """Return a table of the folder by the name of its file without ``.tsv``; None if it is absent or empty.

        DataError names a `needed` column that is missing, and a cell that is no number, unless its
        column is one of `text` or text in every table, such as ``site``.
        """
        known = self.tables.get(name)
        if name not in self.tables or (known is not None and not set(needed) <= set(known)):
            self.tables[name] = _read(
                self.folder / f"{name}.tsv", needed, kind=self.kind, text=text
            )
        return self.tables[name]

    @property
    def voice(self) -> Voice | None:
        """Words and texts of samples that are no scans; None for scans."""
        return VOICES.find(self.run.preprocessing.kind)

    @cached_property
    def names_of_voice(self) -> Mapping[str, object]:
        """Names that the texts of the voice see beside the evaluation."""
        if self.voice is None:
            return {}
        return self.voice.names(self.folder, self._paths())

    def _paths(self) -> list[str]:
        """Return the path of a sample from each table that names paths."""
        paths = []
        for table in (self.table("scans", "path"), self.predictions):
            if table is not None and "path" in table:
                paths += table["path"].dropna().head(1).tolist()
        return paths

    @property
    def target(self) -> str:
        """Name of the column that was predicted."""
        return self.summary.target

    @property
    def kind(self) -> str:
        """One of ``binary``, ``multiclass`` and ``continuous``."""
        return self.summary.kind

    @cached_property
    def run(self) -> Pretraining:
        """The pretraining run, as the embeddings describe it; empty if they say nothing."""
        return Pretraining.of(
            content_of(self.summary.run), f"{self.folder / FILE}, 'run'", remedy=_REMEDY
        )

    @cached_property
    def objective(self) -> Objective:
        """The loss of pretraining; empty if nothing is recorded."""
        place = f"{self.folder / FILE}, 'objective'"
        return Objective.of(content_of(self.summary.objective), place, remedy=_REMEDY)

    @property
    def finetuning(self) -> Finetuning:
        """How a network was trained in every fold; empty where a probe was fitted."""
        return self.summary.finetuning or Finetuning()

    @property
    def software(self) -> Environment:
        """Versions of the programs that ran; empty if nothing is recorded."""
        return self.summary.environment or Environment()

    @property
    def split(self) -> FixedSplit:
        """The fixed split; empty with cross-validation."""
        return self.summary.split or FixedSplit()

    @property
    def words(self) -> Words:
        """Nouns for what was evaluated: scans, or images."""
        return words_of(self.run)

    @property
    def fixed(self) -> bool:
        """Whether there is one test set, given beforehand, and not cross-validation."""
        return self.summary.splits == "fixed" or self.summary.split is not None

    @property
    def sites_tested(self) -> str:
        """Where the tested scans are from, seen from the scans that their models were fitted on.

        ``unseen``: all are of sites that were held out; ``known``: none is; ``mixed``: some are, or
        nobody can tell, as with one test set.
        """
        if self.summary.splits == "leave-site-out":
            return "unseen"
        if (
            self.fixed
            or "site" not in self.predictions
            or (site_names(self.predictions["site"]) == NO_SITE).any()
        ):
            return "mixed"
        n_folds = self.predictions.groupby(["repeat", "site"])["fold"].nunique()
        if n_folds.empty or (n_folds > 1).all():
            return "mixed" if n_folds.empty else "known"
        # Scans that are never tested are trained on, whatever their site.
        all_tested = len(self.predictions) == (self.summary.n.scans or 0) * self.summary.n_repeats
        return "unseen" if (n_folds == 1).all() and all_tested else "mixed"

    @property
    def parts(self) -> dict[str, int]:
        """Number of scans in each part of a fixed split; empty with cross-validation."""
        return self.summary.split.n if self.summary.split else {}

    @property
    def classes(self) -> list[str]:
        """Class names; empty for a continuous target."""
        return self.summary.classes

    @property
    def positive(self) -> str:
        """Name of the positive class; empty without one."""
        return self.summary.positive or ""

    @property
    def negative(self) -> str:
        """Name of the other class of a binary target."""
        return next((name for name in self.classes if name != self.positive), "")

    @property
    def metrics(self) -> dict[str, Metric]:
        """Metrics of the embedding; those of the other models are in `summary`."""
        return self.summary.metrics

    @property
    def level(self) -> float:
        """Share that intervals hold."""
        return self.summary.bootstrap.level or 0.95

    @property
    def key(self) -> str:
        """A secret of this evaluation: the digest of its predictions, which are no part of the report."""
        return digest_of_file(self.folder / "predictions.tsv")


def read_folder(
    folder: str | os.PathLike[str], *, show_ids: bool = False, findings: Sequence[Any] = ()
) -> EvaluationFolder:
    """Read the folder that ``neurocontrast evaluate --out`` wrote, and check it, with the records of `findings`.

    With `show_ids`, identifiers of participants may appear in the report. ConfigError says what
    else was given; DataError names a file that is missing, damaged or of another format.
    """
    root = Path(folder)
    _check_is_evaluation(root)
    summary = read_evaluation(root)
    missing = [f"{name}.tsv" for name in _REQUIRED if not (root / f"{name}.tsv").is_file()]
    if missing:
        raise DataError(
            f"{root}: incomplete evaluation folder; missing: {one_of(missing)}. "
            "Run 'neurocontrast evaluate' again; its files belong together."
        )
    required = (
        _REQUIRED
        if summary.kind == "continuous"
        else _REQUIRED | {"predictions": (*_PREDICTED, "y_pred")}
    )
    tables: dict[str, Any] = {
        name: _read(root / f"{name}.tsv", needed, kind=summary.kind)
        for name, needed in required.items()
    }
    if tables["predictions"] is None:
        raise DataError(f"{root / 'predictions.tsv'}: no predictions in it. {_REMEDY}")
    for column in ("y_true", "y_pred") if summary.kind != "continuous" else ():
        wrong = sorted(set(tables["predictions"][column].dropna()) - set(summary.classes))
        if wrong:
            known = f"a class of {FILE}: {one_of(summary.classes)}"
            raise DataError(
                f"{root / 'predictions.tsv'}, column '{column}': '{wrong[0]}' is not {known}. {_REMEDY}"
            )
    tables |= {name: pd.DataFrame() for name in ("folds", "sites") if tables[name] is None}
    config = root / "config.yaml"
    found = EvaluationFolder(
        folder=root,
        summary=summary,
        **tables,
        explanation=read_explanation(root / "explanation"),
        config_text=config.read_text(encoding="utf-8", errors="replace")
        if config.is_file()
        else None,
        show_ids=show_ids,
        findings=tuple(findings),
    )
    for each in findings:
        if each.record is not None:
            summary.part(each.record)
    return found


def _check_is_evaluation(root: Path) -> None:
    if (root / FILE).is_file():
        return
    if root.is_file():
        found = f"got the file '{root}'"
        hint = f" Give the folder that holds it: {root.parent}."
    elif not root.is_dir():
        found = f"and there is no folder '{root}'"
        hint = ""
    else:
        found = f"and '{root}' has no {FILE}"
        hint = ""
        if (root / "encoder.json").is_file() or (root / "provenance.json").is_file():
            hint = " It looks like a run of 'neurocontrast pretrain': run 'embed' and 'evaluate' first."
        elif (root / "comparison.json").is_file():
            hint = " It is a comparison, which has its page already: comparison.html."
    raise ConfigError(
        f"evaluation: must be the folder that 'neurocontrast evaluate' wrote, {found}.{hint}"
    )


def _read(
    path: Path, required: Sequence[str], *, kind: str, text: Sequence[str] = ()
) -> pd.DataFrame | None:
    """Read a table as text, then convert what must be a number; None if it is absent or empty."""
    if not path.is_file() or path.stat().st_size < 2:  # a table without columns is one line end
        return None
    table = read_table(path, needed=required, remedy=_REMEDY, dtype=str, na_values=["", "n/a"])
    if table.empty:
        return None
    known = {*text, *(_TEXT - {"y_true", "target"} if kind == "continuous" else _TEXT)}
    return table.apply(
        lambda column: column if column.name in known else _convert(column, path, required)
    )


def _convert(column: pd.Series, path: Path, required: Sequence[str]) -> pd.Series:
    """Return a column as numbers; further columns of some tables may stay text."""
    values = pd.to_numeric(column, errors="coerce")
    wrong = column.notna() & values.isna() & (column.str.lower() != "nan")
    if not wrong.any():
        return values.astype("float64")
    if path.name in _LOOSE and column.name not in required:
        return column
    found = ", ".join(f"row {row + 2}: {shown(column[row])}" for row in wrong[wrong].index[:5])
    raise DataError(f"{path}, column '{column.name}': must be numbers, found {found}.")
