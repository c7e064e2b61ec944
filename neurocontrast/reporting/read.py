"""Reading of an evaluation folder: every file checked, every wrong cell named."""

# ruff: noqa: RUF009 - the tables are declared by a call that returns a dataclass field
from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import pandas as pd

from neurocontrast.data.natural.store import is_image_path, split_image_path
from neurocontrast.data.problems import shown
from neurocontrast.evaluation import schema
from neurocontrast.evaluation.schema import FORMAT, Evaluation, Metric
from neurocontrast.exceptions import ConfigError, DataError, one_of
from neurocontrast.files import digest_of_file
from neurocontrast.reading import read_json
from neurocontrast.reporting import wording
from neurocontrast.reporting.wording import IMAGES, Words
from neurocontrast.settings import Settings
from neurocontrast.tables import read_table

__all__ = [
    "FORMAT", "KINDS", "EvaluationFiles", "Explanation", "ReportOptions", "Results", "external_part", "read_evaluation",
]  # fmt: skip

KINDS = ("binary", "multiclass", "continuous")
_REQUIRED_FILES = ("evaluation.json", "predictions.tsv", "folds.tsv", "sites.tsv")
_REMEDY = "Run 'neurocontrast evaluate' again."
_LARGEST = 4_000_000
"""Bytes up to which images.json is read."""

_TEXT = frozenset(
    (
        "participant_id", "subject_id", "session", "site", "sex", "held_out_site", "note", "path", "y_true", "target",
        "y_pred", "group_by", "group", "model", "column", "within", "metric", "step", "reason", "class", "reference",
        "weight_name", "confused_with", "split", "neighbour", "test",
    )
)  # fmt: skip
_FLAGS = ("outside",)
_LOOSE = {"folds.tsv", "map.tsv", "scans.tsv", "training.tsv"}
"""Tables that may hold further columns of any kind, beside those of numbers that are required."""


class ReportOptions(Settings):
    """Choices of whoever makes the report.

    Parameters
    ----------
    show_ids : bool
        Whether identifiers of participants may appear.
    """

    show_ids: bool = False


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

    def describe(self: Any, metric: str) -> wording.Metric:
        """Return how a metric is called."""
        return wording.describe_metric(metric, self.words)

    def chance(self: Any, metric: str) -> float | None:
        """Return what guessing reaches; None where it depends on the cohort."""
        return wording.chance_level(metric, len(self.classes), self.words)


@dataclass(frozen=True)
class Explanation:
    """What ``neurocontrast explain`` found: ``explain.json``, and the path of its map, a NIfTI file."""

    about: Mapping[str, Any]
    map_path: Path


def _table(file: str, *columns: str) -> Any:
    """Declare a table that may be absent: its file, and the columns without which it means nothing."""
    return field(default=None, metadata={"file": file, "columns": columns})


@dataclass(frozen=True)
class EvaluationFiles(Results):
    """Content of an evaluation folder; a table is None where it is absent or empty.

    `summary` is ``evaluation.json``, `probe` is ``probe/probe.json``, `explanation` comes from the folder of that name,
    `origin` is the ``images.json`` beside the evaluated images, and `show_ids` allows identifiers in the report.
    """

    folder: Path
    summary: Evaluation
    predictions: pd.DataFrame = _table("predictions.tsv", "repeat", "fold", "y_true", "y_score")
    folds: pd.DataFrame = _table("folds.tsv", "repeat", "fold", "n_train", "n_test")
    sites: pd.DataFrame = _table("sites.tsv", "site", "n")
    cohort: pd.DataFrame | None = _table("cohort.tsv", "site")
    points: pd.DataFrame | None = _table("map.tsv", "pc1", "pc2")
    training: pd.DataFrame | None = _table("training.tsv")
    scans: pd.DataFrame | None = _table("scans.tsv", "path")
    flow: pd.DataFrame | None = _table("flow.tsv", "step", "n_scans")
    groups: pd.DataFrame | None = _table("groups.tsv", "group_by", "group", "n")
    calibration: pd.DataFrame | None = _table("calibration.tsv", "model", "n", "mean_predicted", "observed")
    confounds: pd.DataFrame | None = _table("confounds.tsv", "column", "metric", "value")
    learning: pd.DataFrame | None = _table("learning_curve.tsv", "n_train")
    external_predictions: pd.DataFrame | None = _table("external_predictions.tsv", "y_true", "y_score")
    external_sites: pd.DataFrame | None = _table("external_sites.tsv", "site", "n")
    by_class: pd.DataFrame | None = _table("classes.tsv", "class", "n", "recall")
    new_sites: pd.DataFrame | None = _table("new_sites.tsv", "site", "model", "n")
    outlyingness: pd.DataFrame | None = _table("outlyingness.tsv", "site", "outside")
    external_outlyingness: pd.DataFrame | None = _table("external_outlyingness.tsv", "site", "outside")
    probe: Mapping[str, Any] | None = None
    explanation: Explanation | None = None
    config_text: str | None = None
    origin: Mapping[str, Any] = field(default_factory=dict)
    show_ids: bool = False

    @property
    def target(self) -> str:
        """Name of the column that was predicted."""
        return self.summary.target

    @property
    def kind(self) -> str:
        """One of ``binary``, ``multiclass`` and ``continuous``."""
        return self.summary.kind

    @property
    def run(self) -> dict[str, Any]:
        """What the embeddings say of the pretraining run; empty where they say nothing."""
        return self.summary.run or {}

    @property
    def words(self) -> Words:
        """Nouns for what was evaluated: scans, or images."""
        return wording.words_of(self.run)

    @property
    def fixed(self) -> bool:
        """Whether there is one test set, given beforehand, and not cross-validation."""
        return self.summary.splits == "fixed" or self.summary.split is not None

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
        """Name of the positive class; empty where there is none."""
        return self.summary.positive or ""

    @property
    def negative(self) -> str:
        """Name of the other class of a binary target."""
        return next((name for name in self.classes if name != self.positive), "")

    @property
    def metrics(self) -> dict[str, Metric]:
        """Metrics of the embedding; those of covariates and voxels are in `summary`."""
        return self.summary.metrics

    @property
    def level(self) -> float:
        """Share that intervals hold."""
        return self.summary.bootstrap.level or 0.95

    @property
    def key(self) -> str:
        """A secret of this evaluation: the digest of its predictions, which are no part of the report."""
        return digest_of_file(self.folder / "predictions.tsv")


def read_evaluation(folder: str | os.PathLike[str], *, show_ids: bool = False) -> EvaluationFiles:
    """Read and check an evaluation folder.

    Parameters
    ----------
    folder : path
        What ``neurocontrast evaluate --out`` wrote.
    show_ids : bool, default=False
        Whether identifiers of participants may appear in the report.

    Raises
    ------
    ConfigError
        If there is no such folder, or it is not an evaluation folder.
    DataError
        If a file is missing, damaged or of another format; the file is named.
    """
    root = Path(folder)
    _check_is_evaluation(root)
    summary = schema.read_evaluation(root / "evaluation.json")
    missing = [name for name in _REQUIRED_FILES if not (root / name).is_file()]
    if missing:
        raise DataError(
            f"{root}: incomplete evaluation folder; missing: {one_of(missing)}. "
            "Run 'neurocontrast evaluate' again; its files belong together."
        )
    continuous = summary.kind == "continuous"
    tables: dict[str, Any] = {
        table.name: read_evaluated(root / table.metadata["file"], table.metadata["columns"], continuous=continuous)
        for table in fields(EvaluationFiles)
        if "file" in table.metadata
    }
    if tables["predictions"] is None:
        raise DataError(f"{root / 'predictions.tsv'}: no predictions in it. Run 'neurocontrast evaluate' again.")
    tables |= {name: pd.DataFrame() for name in ("folds", "sites") if tables[name] is None}
    config, probe = root / "config.yaml", root / "probe" / "probe.json"
    files = EvaluationFiles(
        folder=root,
        summary=summary,
        **tables,
        probe=read_json(probe, remedy=_REMEDY) if probe.is_file() else None,
        explanation=_read_explanation(root / "explanation"),
        config_text=config.read_text(encoding="utf-8", errors="replace") if config.is_file() else None,
        show_ids=show_ids,
    )
    return replace(files, origin=_read_origin(files)) if files.words is IMAGES else files


def _check_is_evaluation(root: Path) -> None:
    if root.is_file():
        hint = f" Give the folder that holds it: {root.parent}." if root.name == "evaluation.json" else ""
        raise ConfigError(
            f"evaluation: must be the folder written by 'neurocontrast evaluate', got the file '{root}'.{hint}"
        )
    if not root.is_dir():
        raise ConfigError(f"evaluation: there is no folder '{root}'. Give the --out of 'neurocontrast evaluate'.")
    if not (root / "evaluation.json").is_file():
        if (root / "encoder.json").is_file() or (root / "provenance.json").is_file():
            hint = "It looks like a run of 'neurocontrast pretrain': run 'embed' and 'evaluate' first."
        elif (root / "comparison.json").is_file():
            hint = "It is a comparison, which has its page already: comparison.html."
        else:
            hint = "Give the --out of 'neurocontrast evaluate'."
        raise ConfigError(f"evaluation: '{root}' is not an evaluation folder: evaluation.json is missing. {hint}")


def read_evaluated(path: Path, required: Sequence[str], *, continuous: bool) -> pd.DataFrame | None:
    """Read a table as text, then convert what must be a number; None where absent or empty."""
    if not path.is_file():
        return None
    if path.stat().st_size < 2:  # a table without columns is one line end
        return None
    table = read_table(path, needed=required, remedy=_REMEDY, dtype=str, na_values=["", "n/a"])
    if table.empty:
        return None
    text = _TEXT - {"y_true", "target"} if continuous else _TEXT
    return table.apply(lambda column: column if column.name in text else _convert(column, path, required))


def _convert(column: pd.Series, path: Path, required: Sequence[str]) -> pd.Series:
    """Return flags as such, and all else as numbers; further columns of some tables may stay text."""
    lower = column.str.lower()
    if column.name in _FLAGS:
        wrong, kind = ~lower.fillna("").isin(["true", "false", ""]), "true or false"
    else:
        values, kind = pd.to_numeric(column, errors="coerce"), "numbers"
        wrong = column.notna() & values.isna() & (lower != "nan")
    if not wrong.any():
        return lower == "true" if column.name in _FLAGS else values.astype("float64")
    if path.name in _LOOSE and column.name not in required:
        return column
    found = ", ".join(f"row {row + 2}: {shown(column[row])}" for row in wrong[wrong].index[:5])
    raise DataError(f"{path}, column '{column.name}': must be {kind}, found {found}.")


def _read_origin(files: EvaluationFiles) -> Mapping[str, Any]:
    """Return images.json from beside the store of the images; empty where there is none, or none that can be read.

    A store like ``images.npy`` is looked for where it is named, and then in the evaluation folder.
    """
    tables = [table for table in (files.scans, files.predictions) if table is not None and "path" in table]
    named = [path for table in tables for path in table["path"].dropna().head(1) if is_image_path(path)]
    store = split_image_path(named[0])[0] if named else Path()
    places = [place.with_name("images.json") for place in (store, files.folder / store) if place.is_file()]
    try:
        return read_json(places[0], limit=_LARGEST) if places else {}
    except DataError:
        return {}


def _read_explanation(folder: Path) -> Explanation | None:
    if not (folder / "explain.json").is_file():
        return None
    remedy = "Run 'neurocontrast explain' again."
    about = read_json(folder / "explain.json", remedy=remedy)
    if about.get("format") != FORMAT:
        raise DataError(
            f"{folder / 'explain.json'}: format must be {FORMAT}, found {about.get('format')!r}. It was written by "
            f"another version of neurocontrast. {remedy}"
        )
    # The name of a file in this folder, and no way out of it.
    path = folder / Path(str(about.get("map") or "saliency.nii.gz")).name
    if not path.is_file():
        raise DataError(f"{path}: the map of the explanation is missing. {remedy}")
    return Explanation(about, path)


def external_part(files: EvaluationFiles) -> EvaluationFiles | None:
    """Return the external test set as an evaluation of its own, for the same figures; None without one."""
    external = files.summary.external
    if external is None:
        return None
    metrics, baseline = (
        {name: Metric(pooled=found.value, interval=found.interval, reason=found.reason) for name, found in part.items()}
        for part in (external.metrics, external.baseline)
    )
    threshold = files.summary.threshold.model_copy(update={"rule": external.threshold, "values": []})
    changes = {"n": external.n, "metrics": metrics, "baseline": baseline, "increment": external.increment, "voxels": {},
               "voxels_increment": {}, "regional": {}, "regional_increment": {}, "threshold": threshold,
               "outlyingness": external.outlyingness, "permutation": None}  # fmt: skip
    tested = files.predictions.iloc[:0] if files.external_predictions is None else files.external_predictions
    return replace(
        files,
        summary=files.summary.model_copy(update=changes),
        predictions=tested.assign(**{name: 0.0 for name in ("repeat", "fold") if name not in tested}),
        sites=pd.DataFrame() if files.external_sites is None else files.external_sites,
        cohort=None,
        outlyingness=files.external_outlyingness,
    )
