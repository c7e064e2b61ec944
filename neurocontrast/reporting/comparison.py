"""The page of a comparison: several models on the same folds, side by side."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.reporting.page import Section
from neurocontrast.reporting.prose import SPLITS
from neurocontrast.reporting.read import FORMAT, KINDS, Results, read_json, read_table
from neurocontrast.reporting.render import render_sections
from neurocontrast.reporting.wording import IMAGES, Words, join_words, words_of

__all__ = ["ComparisonFiles", "read_comparison", "render_comparison"]

_TABLES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "models": (("model", "metric", "value"), ("low", "high")),
    "differences": (("metric", "model", "reference", "difference"), (
        "low", "high", "n_folds", "p_value", "p_adjusted",
    )),
    "learning_curves": (("model", "metric", "n_train", "mean"), ("sd",)),
    "tradeoff": (("model", "metric"), (
        "weight_name", "weight", "site_balanced_accuracy", "site_low", "site_high", "site_chance", "known", "known_low",
        "known_high", "unseen", "unseen_low", "unseen_high", "ratio", "ratio_low", "ratio_high", "constant", "n",
        "n_outside", "n_unseen", "n_unseen_outside",
    )),
    "sensitive": (("model", "column", "mse"), (
        "low", "high", "constant_mse", "difference", "difference_low", "difference_high",
    )),
}  # fmt: skip
"""The columns without which each table means nothing, and those that are filled in where they are absent."""

_REMEDY = "Run 'neurocontrast compare' again."


@dataclass(frozen=True)
class ComparisonFiles(Results):
    """All that the page of a comparison is made from: ``comparison.json``, and the tables beside it.

    `learning`, `tradeoff` and `sensitive` are None where their tables are absent.
    """

    summary: Mapping[str, Any]
    models: pd.DataFrame
    differences: pd.DataFrame
    learning: pd.DataFrame | None
    tradeoff: pd.DataFrame | None
    sensitive: pd.DataFrame | None

    @property
    def kind(self) -> str:
        """One of ``binary``, ``multiclass`` and ``continuous``."""
        return str(self.summary["kind"])

    @property
    def words(self) -> Words:
        """Nouns for what was evaluated: scans, or images."""
        return words_of((self.summary.get("models") or [{}])[0].get("run"))

    @property
    def fixed(self) -> bool:
        """Whether there is one test set, given beforehand, and not cross-validation."""
        alone = self.words is IMAGES and self.summary.get("n_folds") == 1
        return self.summary.get("splits") == "fixed" or alone

    @property
    def names(self) -> list[str]:
        """The models, the reference first."""
        return list(dict.fromkeys(self.models["model"]))

    @property
    def reference(self) -> str:
        """The model that the others are compared with."""
        return str(self.summary.get("reference") or self.names[0])

    @property
    def classes(self) -> list[str]:
        """Class names; empty for a continuous target."""
        return self.summary.get("classes") or []

    @property
    def metrics(self) -> list[str]:
        """Metrics that any model has, as the table orders them."""
        return list(dict.fromkeys(self.models.loc[self.models["value"].notna(), "metric"]))

    @property
    def level(self) -> float:
        """Share that intervals hold."""
        return float(self.summary.get("confidence_level") or 0.95)


def read_comparison(folder: str | os.PathLike[str]) -> ComparisonFiles:
    """Read and check a comparison folder: ConfigError where it is none, DataError naming a damaged file."""
    root = Path(folder)
    if not (root / "comparison.json").is_file():
        raise ConfigError(f"comparison: '{root}' is not a comparison: it has no comparison.json. {_REMEDY}")
    summary = read_json(root / "comparison.json", remedy=_REMEDY)
    if summary.get("format") != FORMAT or summary.get("kind") not in KINDS:
        raise DataError(f"{root / 'comparison.json'}: must have format {FORMAT} and a kind of target. {_REMEDY}")
    tables = []
    for name, (required, further) in _TABLES.items():
        table = read_table(root / f"{name}.tsv", required, continuous=False)
        if table is not None:
            table = table.reindex(columns=[*table.columns, *(other for other in further if other not in table)])
        elif name in ("models", "differences"):
            raise DataError(f"{root / name}.tsv: absent or empty. {_REMEDY}")
        tables.append(table)
    return ComparisonFiles(summary, *tables)  # type: ignore[arg-type]


def render_comparison(files: ComparisonFiles, sections: Sequence[Section]) -> str:
    """Return the page of a comparison, which loads nothing and runs nothing."""
    s, items = files.summary, files.words.items
    splits = str(s.get("splits"))
    repeats = f" × {s['n_repeats']} repeats" if (s.get("n_repeats") or 1) > 1 else ""
    design = (
        f"{s.get('n_folds', '?')} folds{repeats}, {SPLITS.get(splits, splits)}; the same {items} and folds for "
        "every model"
    )
    if files.fixed:
        design = f"the same training, validation and test {items} for every model"
    return render_sections(
        sections,
        kicker="neurocontrast comparison of models",
        title=f"Predicting {s.get('target', '?')}: {join_words(files.names)}",
        facts=[
            ("Reference", files.reference),
            ("Compared with it", join_words([name for name in files.names if name != files.reference])),
            ("Evaluation" if files.fixed else "Cross-validation", design),
        ],
        simulated=any(bool(model.get("simulated")) for model in s.get("models") or []),
        environment=s.get("environment"),
    )
