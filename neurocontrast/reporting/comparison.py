"""The page of a comparison: several models on the same folds, side by side."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.reporting.blocks import Section
from neurocontrast.reporting.html import PageHead, render_sections
from neurocontrast.reporting.metrics import leading_metrics
from neurocontrast.reporting.naming import join_words, split_name
from neurocontrast.reporting.reading import read_table
from neurocontrast.reporting.summary import FORMAT, KINDS, read_json
from neurocontrast.reporting.words import IMAGES, Words, words_of

__all__ = ["ComparisonFiles", "read_comparison", "render_comparison"]

_COLUMNS = {
    "models": ("model", "metric", "value"),
    "differences": ("metric", "model", "reference", "difference"),
    "learning_curves": ("model", "metric", "n_train", "mean"),
    "tradeoff": ("model", "metric"),
    "sensitive": ("model", "column", "mse"),
}
TRADEOFF_COLUMNS = (
    "weight_name", "weight", "site_balanced_accuracy", "site_low", "site_high", "site_chance",
    "known", "known_low", "known_high", "unseen", "unseen_low", "unseen_high",
    "ratio", "ratio_low", "ratio_high", "constant", "n", "n_outside", "n_unseen", "n_unseen_outside",
)  # fmt: skip
"""What tradeoff.tsv may hold beside model and metric."""
SENSITIVE_COLUMNS = ("low", "high", "constant_mse", "difference", "difference_low", "difference_high")
"""What sensitive.tsv may hold beside model, column and mse."""
_REMEDY = "Run 'neurocontrast compare' again."


@dataclass(frozen=True)
class ComparisonFiles:
    """All that the page of a comparison is made from.

    Attributes
    ----------
    folder : Path
        What ``neurocontrast compare --out`` wrote.
    summary : mapping
        ``comparison.json``.
    models, differences : DataFrame
        Their tables, with columns for intervals and p-values even where the files have none.
    learning : DataFrame or None
        ``learning_curves.tsv``.
    tradeoff : DataFrame or None
        ``tradeoff.tsv``: the site against the target, one row a model.
    sensitive : DataFrame or None
        ``sensitive.tsv``: the error of the sensitive variable of every model.
    """

    folder: Path
    summary: Mapping[str, Any]
    models: pd.DataFrame
    differences: pd.DataFrame
    learning: pd.DataFrame | None = None
    tradeoff: pd.DataFrame | None = None
    sensitive: pd.DataFrame | None = None

    @property
    def words(self) -> Words:
        """How what was evaluated is called: scans, or images."""
        models = self.summary.get("models") or [{}]
        return words_of(models[0].get("run"))

    @property
    def fixed(self) -> bool:
        """Whether there is one test set, given beforehand, and not cross-validation."""
        alone = self.words is IMAGES and self.summary.get("n_folds") == 1
        return self.summary.get("splits") == "fixed" or alone

    @property
    def kind(self) -> str:
        """One of ``binary``, ``multiclass`` and ``continuous``."""
        return str(self.summary["kind"])

    @property
    def names(self) -> list[str]:
        """The models, the reference first."""
        return list(dict.fromkeys(self.models["model"]))

    @property
    def reference(self) -> str:
        """The model that the others are compared with."""
        return str(self.summary.get("reference") or self.names[0])

    @property
    def n_classes(self) -> int:
        """Classes of the target; 0 for a continuous one."""
        return len(self.summary.get("classes") or [])

    @property
    def metrics(self) -> list[str]:
        """Metrics that any model has, as the table orders them."""
        return list(dict.fromkeys(self.models.loc[self.models["value"].notna(), "metric"]))

    @property
    def leading(self) -> list[str]:
        """The metrics that are drawn."""
        return leading_metrics(self.kind, self.metrics, self.words)

    @property
    def level(self) -> float:
        """Share that intervals hold."""
        return float(self.summary.get("confidence_level") or 0.95)

    @property
    def simulated(self) -> bool:
        """Whether any model was evaluated on simulated scans."""
        return any(bool(model.get("simulated")) for model in self.summary.get("models") or [])


def read_comparison(folder: str | os.PathLike[str]) -> ComparisonFiles:
    """Read and check a comparison folder.

    Raises
    ------
    ConfigError
        If it is none.
    DataError
        If a file is missing or damaged; it is named.
    """
    root = Path(folder)
    if not (root / "comparison.json").is_file():
        raise ConfigError(f"comparison: '{root}' is not a comparison: it has no comparison.json. {_REMEDY}")
    summary = read_json(root / "comparison.json", remedy=_REMEDY)
    if summary.get("format") != FORMAT or summary.get("kind") not in KINDS:
        raise DataError(f"{root / 'comparison.json'}: must have format {FORMAT} and a kind of target. {_REMEDY}")
    tables = {name: read_table(root / f"{name}.tsv", columns, continuous=False) for name, columns in _COLUMNS.items()}
    models, differences = tables["models"], tables["differences"]
    if models is None or differences is None:
        name = "models.tsv" if models is None else "differences.tsv"
        raise DataError(f"{root / name}: absent or empty. {_REMEDY}")
    return ComparisonFiles(
        root,
        summary,
        _with_columns(models, ("low", "high")),
        _with_columns(differences, ("low", "high", "n_folds", "p_value", "p_adjusted")),
        tables["learning_curves"],
        None if tables["tradeoff"] is None else _with_columns(tables["tradeoff"], TRADEOFF_COLUMNS),
        None if tables["sensitive"] is None else _with_columns(tables["sensitive"], SENSITIVE_COLUMNS),
    )


def _with_columns(table: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    return table.assign(**{name: float("nan") for name in names if name not in table})


def render_comparison(files: ComparisonFiles, sections: Sequence[Section]) -> str:
    """Return the page of a comparison, which loads nothing and runs nothing."""
    s, environment = files.summary, files.summary.get("environment") or {}
    head = PageHead(
        kicker="neurocontrast comparison of models",
        title=f"Predicting {s.get('target', '?')}: {join_words(files.names)}",
        facts=[
            ("Reference", files.reference),
            ("Compared with it", join_words([name for name in files.names if name != files.reference])),
            ("Evaluation" if files.fixed else "Cross-validation", _design(files)),
        ],
        simulated=files.simulated,
        version=str(environment.get("neurocontrast") or ""),
        created=str(environment.get("created") or ""),
    )  # fmt: skip
    return render_sections(head, sections)


def _design(files: ComparisonFiles) -> str:
    s, items = files.summary, files.words.items
    if files.fixed:
        return f"the same training, validation and test {items} for every model"
    repeats = f" × {s['n_repeats']} repeats" if (s.get("n_repeats") or 1) > 1 else ""
    how = split_name(str(s.get("splits")))
    return f"{s.get('n_folds', '?')} folds{repeats}, {how}; the same {items} and folds for every model"
