"""Reading of an evaluation folder: every file checked, every fault named at once."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from neurocontrast.exceptions import ConfigError, DataError, one_of

__all__ = ["FORMAT", "KINDS", "EvaluationFiles", "read_evaluation"]

FORMAT = 1
"""The format of evaluation.json that this version reads."""

KINDS = ("binary", "multiclass", "continuous")

_REQUIRED_KEYS = ("format", "target", "kind", "splits", "n", "metrics")
_SECTION, _LIST, _WHOLE = (dict, "a section of keys"), (list, "a list"), (int, "a whole number")
_SHAPES: dict[str, tuple[type, str]] = {
    **dict.fromkeys(("n", "metrics", "baseline", "increment", "run", "objective", "environment"), _SECTION),
    **dict.fromkeys(("bootstrap", "embeddings", "simulation", "permutation"), _SECTION),
    **dict.fromkeys(("classes", "warnings", "baseline_covariates"), _LIST),
    **dict.fromkeys(("n_folds", "n_repeats", "seed", "n_overlap"), _WHOLE),
    "target": (str, "the name of a column"),
}
"""What `evaluate` writes under a key, where it is not null."""
_REQUIRED_FILES = ("evaluation.json", "predictions.tsv", "folds.tsv", "sites.tsv")
_REQUIRED_COLUMNS = {
    "predictions.tsv": ("repeat", "fold", "y_true", "y_score"),
    "folds.tsv": ("repeat", "fold", "n_train", "n_test"),
    "sites.tsv": ("site", "n"),
    "cohort.tsv": ("site",),
    "map.tsv": ("pc1", "pc2"),
    "training.tsv": (),
    "scans.tsv": ("path",),
}
_TEXT_COLUMNS = {"participant_id", "subject_id", "session", "site", "sex", "held_out_site", "note", "path", "y_true"}
_TEXT_COLUMNS |= {"target", "y_pred"}
_NUMERIC_COLUMNS = {"repeat", "fold", "age", "y_score", "baseline_score", "n", "n_train", "n_test"}
_NUMERIC_COLUMNS |= {"pc1", "pc2", "umap1", "umap2"}


@dataclass(frozen=True)
class EvaluationFiles:
    """All that a report is made from.

    Attributes
    ----------
    folder : Path
        The evaluation folder.
    summary : mapping
        ``evaluation.json``.
    predictions, folds, sites : DataFrame
        The tables that every evaluation has.
    cohort, points, training, scans : DataFrame or None
        ``cohort.tsv``, ``map.tsv``, ``training.tsv`` and ``scans.tsv``; None where absent or empty.
    config_text : str or None
        ``config.yaml`` as it stands.
    """

    folder: Path
    summary: Mapping[str, Any]
    predictions: pd.DataFrame
    folds: pd.DataFrame
    sites: pd.DataFrame
    cohort: pd.DataFrame | None = None
    points: pd.DataFrame | None = None
    training: pd.DataFrame | None = None
    scans: pd.DataFrame | None = None
    config_text: str | None = None

    @property
    def target(self) -> str:
        """Name of the column that was predicted."""
        return str(self.summary["target"])

    @property
    def kind(self) -> str:
        """One of ``binary``, ``multiclass`` and ``continuous``."""
        return str(self.summary["kind"])

    @property
    def classes(self) -> list[str]:
        """Class names; empty for a continuous target."""
        return [str(name) for name in self.summary.get("classes") or []]

    @property
    def positive(self) -> str:
        """Name of the positive class; empty where there is none."""
        return str(self.summary.get("positive") or "")

    @property
    def negative(self) -> str:
        """Name of the other class of a binary target."""
        return next((name for name in self.classes if name != self.positive), "")

    @property
    def metrics(self) -> Mapping[str, Any]:
        """Metrics of the embedding."""
        return self.summary.get("metrics") or {}

    @property
    def baseline(self) -> Mapping[str, Any]:
        """Metrics of the covariates alone; empty where they were not computed."""
        return self.summary.get("baseline") or {}

    @property
    def increment(self) -> Mapping[str, Any]:
        """What the embedding adds to the baseline, by metric."""
        return self.summary.get("increment") or {}

    @property
    def covariates(self) -> list[str]:
        """Columns of the baseline."""
        return [str(name) for name in self.summary.get("baseline_covariates") or []]

    @property
    def simulated(self) -> bool:
        """Whether the scans are simulated."""
        return bool(self.summary.get("simulated"))


def read_evaluation(folder: str | os.PathLike[str]) -> EvaluationFiles:
    """Read and check an evaluation folder.

    Parameters
    ----------
    folder : path
        What ``neurocontrast evaluate --out`` wrote.

    Raises
    ------
    ConfigError
        If there is no such folder, or it is not an evaluation folder.
    DataError
        If a file is missing, damaged or of another format; the file is named.
    """
    root = Path(folder)
    _check_is_evaluation(root)
    summary = _read_summary(root / "evaluation.json")
    missing = [name for name in _REQUIRED_FILES if not (root / name).is_file()]
    if missing:
        raise DataError(
            f"{root}: incomplete evaluation folder; missing: {one_of(missing)}. "
            "Run 'neurocontrast evaluate' again; its files belong together."
        )
    continuous = summary["kind"] == "continuous"
    tables = {
        name: _read_table(root / name, columns, continuous=continuous) for name, columns in _REQUIRED_COLUMNS.items()
    }
    if tables["predictions.tsv"] is None:
        raise DataError(f"{root / 'predictions.tsv'}: no predictions in it. Run 'neurocontrast evaluate' again.")
    config = root / "config.yaml"
    empty = pd.DataFrame()
    return EvaluationFiles(
        folder=root,
        summary=summary,
        predictions=tables["predictions.tsv"],
        folds=empty if tables["folds.tsv"] is None else tables["folds.tsv"],
        sites=empty if tables["sites.tsv"] is None else tables["sites.tsv"],
        cohort=tables["cohort.tsv"],
        points=tables["map.tsv"],
        training=tables["training.tsv"],
        scans=tables["scans.tsv"],
        config_text=config.read_text(encoding="utf-8", errors="replace") if config.is_file() else None,
    )


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
        else:
            hint = "Give the --out of 'neurocontrast evaluate'."
        raise ConfigError(f"evaluation: '{root}' is not an evaluation folder: evaluation.json is missing. {hint}")


def _read_summary(path: Path) -> dict[str, Any]:
    try:
        summary = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise DataError(f"{path}: not readable as JSON ({error}). Run 'neurocontrast evaluate' again.") from error
    if not isinstance(summary, dict):
        raise DataError(f"{path}: must be a JSON object, found {type(summary).__name__}.")
    if summary.get("format") != FORMAT:
        raise DataError(
            f"{path}: format must be {FORMAT}, found {summary.get('format')!r}. It was written by another version of "
            "neurocontrast: evaluate again with this one, or report with that one."
        )
    missing = [key for key in _REQUIRED_KEYS if key not in summary]
    if missing:
        raise DataError(f"{path}: missing: {one_of(missing)}. Run 'neurocontrast evaluate' again.")
    if summary["kind"] not in KINDS:
        raise DataError(f"{path}: kind must be one of {one_of(KINDS)}, found {summary['kind']!r}.")
    problems = list(_misshapen(summary))
    if problems:
        raise DataError(f"{path}: {'; '.join(problems[:5])}. Run 'neurocontrast evaluate' again.")
    _check_classes(path, summary)
    return summary


def _misshapen(summary: Mapping[str, Any]) -> Iterator[str]:
    """Name every key that holds something else than `evaluate` writes there."""
    for key, (kind, word) in _SHAPES.items():
        if summary.get(key) is not None and (not isinstance(summary[key], kind) or isinstance(summary[key], bool)):
            yield f"'{key}' must be {word}, found {summary[key]!r:.60}"
    for key in ("metrics", "baseline", "increment"):
        section = summary.get(key)
        for name, figures in section.items() if isinstance(section, dict) else ():
            if not isinstance(figures, dict):
                yield f"'{key}.{name}' must be a section of keys, found {figures!r:.60}"
                continue
            for part in ("mean", "sd", "pooled", "difference"):
                if not _is_number(figures.get(part)):
                    yield f"'{key}.{name}.{part}' must be a number or null, found {figures[part]!r:.60}"
            interval = figures.get("interval")
            pair = isinstance(interval, list) and len(interval) == 2 and all(_is_number(bound) for bound in interval)
            if interval is not None and not pair:
                yield f"'{key}.{name}.interval' must be two numbers or null, found {interval!r:.60}"


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _check_classes(path: Path, summary: Mapping[str, Any]) -> None:
    classes = summary.get("classes") or []
    if summary["kind"] == "binary" and (len(classes) != 2 or summary.get("positive") not in classes):
        raise DataError(
            f"{path}: a binary target needs two classes, one of them the positive one; "
            f"found classes {classes!r}, positive {summary.get('positive')!r}."
        )
    if summary["kind"] == "multiclass" and len(classes) < 3:
        raise DataError(f"{path}: a multiclass target needs three classes or more, found {classes!r}.")


def _read_table(path: Path, required: Sequence[str], *, continuous: bool) -> pd.DataFrame | None:
    """Read a table as text, then convert what must be a number; None where absent or empty."""
    if not path.is_file():
        return None
    try:
        table = pd.read_csv(
            path, sep="\t", dtype=str, keep_default_na=False, na_values=["", "n/a"], encoding="utf-8", engine="c"
        )
    except pd.errors.EmptyDataError:
        return None
    except (pd.errors.ParserError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: not readable as a tab-separated table ({error}).") from error
    missing = [name for name in required if name not in table.columns]
    if missing:
        raise DataError(
            f"{path}: missing columns: {one_of(missing)}; found: {one_of(table.columns)}. "
            "Run 'neurocontrast evaluate' again."
        )
    if table.empty:
        return None
    truth = {"y_true", "target"} if continuous else set()
    numbers = set(table.columns) if path.name == "cohort.tsv" else (_NUMERIC_COLUMNS | truth) & set(table.columns)
    return pd.DataFrame(
        {
            name: _convert(table[name], path, must=name in numbers, text=name in _TEXT_COLUMNS - truth)
            for name in table.columns
        }
    )


def _convert(column: pd.Series, path: Path, *, must: bool, text: bool) -> pd.Series:
    if text:
        return column
    numbers = pd.to_numeric(column, errors="coerce")
    wrong = column.notna() & numbers.isna() & ~column.str.lower().isin(["nan"])
    if not wrong.any():
        return numbers.astype("float64")
    if must:
        found = ", ".join(f"row {row + 2}: {column[row]!r}" for row in wrong[wrong].index[:5])
        raise DataError(f"{path}, column '{column.name}': must be numbers, found {found}.")
    return column
