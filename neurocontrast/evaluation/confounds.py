"""What else the embedding knows: site, age, sex and head size, read from it like the target is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.evaluation.crossval import OutOfFold, cross_validate
from neurocontrast.evaluation.designs import choose_covariates
from neurocontrast.evaluation.intervals import Resamples
from neurocontrast.evaluation.metrics import finite_or_none
from neurocontrast.evaluation.probes import Design
from neurocontrast.evaluation.settings import EvaluationSettings
from neurocontrast.evaluation.splits import Split, stratified
from neurocontrast.evaluation.table import cell_texts, is_number
from neurocontrast.evaluation.target import MAX_CLASSES as MAX_LEVELS
from neurocontrast.evaluation.target import Kind, Target
from neurocontrast.evaluation.uncertainty import bootstrap_metrics, pooled_metrics
from neurocontrast.seeds import derive_generator, derive_seed

__all__ = [
    "ConfoundProbes",
    "Reading",
    "classes_apart",
    "confound_columns",
    "confound_table",
    "draw_among",
    "draw_subjects",
    "frequent_levels",
    "median_error",
]

Rows = npt.NDArray[np.intp]

N_FOLDS = 5
"""Levels with fewer subjects are left out: they could not be in every fold."""
MIN_SUBJECTS = 20
"""A number is predicted from so many subjects on."""
MAX_SCANS = 1500
"""Of larger cohorts, so many scans are drawn (whole subjects): the panel is to say how much, not to the third digit."""
MAX_CLASSES = 5
"""With more classes, covariates are predicted in all scans only."""

_GRIDS: dict[str, Any] = {"C": (1e-4, 1e-2, 1.0), "alpha": (1e0, 1e2, 1e4), "n_inner_folds": 3, "n_folds": N_FOLDS}


@dataclass(frozen=True)
class Reading:
    """One column, predicted from the embedding out of fold.

    Attributes
    ----------
    target : Target
        The column's values in `rows`.
    rows : array of int
        Scans of the study that took part.
    model : OutOfFold
        What was predicted.
    splits : list of Split
        Into positions within `rows`.
    """

    target: Target
    rows: Rows
    model: OutOfFold
    splits: list[Split]


@dataclass(frozen=True, eq=False)
class ConfoundProbes:
    """Probes of any column, on the features that the probe of the target gets.

    Attributes
    ----------
    table : DataFrame
        Metadata of the study's scans.
    design : callable
        Takes the column that is predicted, and gives the design of the features.
    subjects, units : array (n,)
        Of each scan: its subject, and what a bootstrap resamples.
    settings : EvaluationSettings
        Those of the study; grids and inner folds are coarser.
    """

    table: pd.DataFrame
    design: Callable[[str], Design]
    subjects: npt.NDArray[np.object_]
    units: npt.NDArray[np.object_]
    settings: EvaluationSettings
    _found: dict[tuple[str, bytes], Reading] = field(default_factory=dict)

    def read(self, column: str, rows: Rows) -> Reading | str:
        """Predict a column in stratified folds of the scans that have it; or say why that cannot be."""
        kept, why_not = self._usable(column, rows)
        if why_not is not None:
            return why_not
        key = column, kept.tobytes()
        if key not in self._found:
            self._found[key] = self._read(column, kept)
        return self._found[key]

    def is_number(self, column: str) -> bool:
        """Return whether a column is predicted as a number; one with two values is not."""
        values = self.table[column]
        return is_number(values) and values.nunique() != 2

    def fit(self, target: Target, rows: Rows, splits: list[Split]) -> OutOfFold:
        """Predict a target in folds of the rows it belongs to."""
        base = self.design(target.name)
        settings = self.settings.model_copy(
            update={
                **_GRIDS,
                "probe": "auto",
                "threshold": "prevalence",
                "inner_splits": "stratified",
                "clip": False,
                "n_jobs": 1,  # a process would start for a second's work
                "seed": derive_seed("confounds", self.settings.seed),
            }
        )
        return cross_validate(
            lambda train, test: base(rows[train], rows[test]),
            target,
            splits,
            subjects=self.subjects[rows],
            settings=settings,
        )

    def resample(self, reading: Reading, metric: str, *, by_subject: bool = False) -> Resamples:
        """Return a metric on resamples; sites are never resampled to say how well sites are told apart."""
        clusters = self.subjects if by_subject or reading.target.name == "site" else self.units
        drawn = bootstrap_metrics(
            reading.target,
            {"embedding": reading.model},
            clusters[reading.rows],
            n_bootstraps=self.settings.n_bootstraps,
            seed=derive_seed("confound-intervals", self.settings.seed),
            names=[metric],
        )
        return drawn["embedding"][metric]

    def _usable(self, column: str, rows: Rows) -> tuple[Rows, str | None]:
        """Return the scans that can take part, and why there are too few."""
        texts = np.array(cell_texts(self.table[column].iloc[rows]), dtype=object)
        present = np.array([text is not None for text in texts], dtype=bool)
        if self.is_number(column):
            present &= np.isfinite(self.table[column].iloc[rows].to_numpy(dtype=float))
        kept, texts = rows[present], texts[present]
        if self.is_number(column):
            if len(set(self.subjects[kept])) < MIN_SUBJECTS:
                return kept, f"fewer than {MIN_SUBJECTS} subjects"
            return kept, "does not vary" if len(set(texts)) < 2 else None
        often = frequent_levels(texts, self.subjects[kept])
        n_levels = len(set(texts[often]))
        if n_levels < 2:
            return kept, f"fewer than two values with {N_FOLDS} subjects each"
        return kept[often], f"{n_levels} values, more than {MAX_LEVELS}" if n_levels > MAX_LEVELS else None

    def _read(self, column: str, kept: Rows) -> Reading:
        target = self._target(column, kept)
        seed = derive_seed("confound-folds", self.settings.seed)
        sites = list(self.table["site"].iloc[kept])
        splits = stratified(target, sites, self.subjects[kept], n_folds=N_FOLDS, n_repeats=1, seed=seed)
        return Reading(target, kept, self.fit(target, kept, splits), splits)

    def _target(self, column: str, kept: Rows) -> Target:
        # Not read_target, which refuses what nobody should ask for: sites that all subjects went to, sessions.
        values = self.table[column].iloc[kept]
        if self.is_number(column):
            return Target(column, "continuous", values.to_numpy(dtype=float))
        levels, codes = np.unique(np.array(cell_texts(values), dtype=object).astype(str), return_inverse=True)
        classes, is_binary = tuple(map(str, levels)), len(levels) == 2
        kind: Kind = "binary" if is_binary else "multiclass"
        return Target(column, kind, codes.astype(np.int64), classes, classes[-1] if is_binary else None)


def confound_table(
    probes: ConfoundProbes,
    target: Target,
    *,
    among: Rows | None = None,
    advance: Callable[[], None] = lambda: None,
) -> pd.DataFrame:
    """Return how well each covariate is predicted from the embedding, in all scans and in each class of the target.

    Categories: balanced accuracy, against 1 / number of levels; a scan is called what is likeliest against
    its share. Numbers: mean absolute error, against that of the training folds' median, and R². Of the scans `among`
    which to draw (all by default).
    """
    rows, note = draw_among(probes.subjects, among, seed=probes.settings.seed)
    found = []
    for column in confound_columns(probes.table, target, probes.settings):
        for within, members in _parts(target, rows):
            reading = probes.read(column, members)
            found += _describe(probes, column, within, reading, note)
            advance()
    columns = ("column", "within", "metric", "value", "low", "high", "chance", "n", "n_levels", "note")
    return pd.DataFrame(found, columns=list(columns)).astype({"n": "Int64", "n_levels": "Int64"})


def confound_columns(table: pd.DataFrame, target: Target, settings: EvaluationSettings) -> tuple[str, ...]:
    """Return the columns of the panel: the covariates that were asked for, and age, sex and site, that vary."""
    asked = ("site", "age", "sex", *settings.covariates)
    return choose_covariates(table, asked, target=target.name, sites_held_out=False)[0]


def classes_apart(target: Target) -> tuple[str, ...]:
    """Return the classes in each of which covariates are predicted too: all, unless there are many."""
    return target.classes if len(target.classes) <= MAX_CLASSES else ()


def draw_subjects(subjects: npt.NDArray[np.object_], *, seed: int, n_scans: int = MAX_SCANS) -> tuple[Rows, str | None]:
    """Return all rows, or those of subjects drawn until there are `n_scans`, and a note that says so."""
    if len(subjects) <= n_scans:
        return np.arange(len(subjects)), None
    owners, codes = np.unique(subjects.astype(str), return_inverse=True)
    place = np.empty(len(owners), dtype=np.intp)
    order = derive_generator("confound-scans", seed).permutation(len(owners))
    place[order] = np.arange(len(owners))
    sizes = np.bincount(codes)[order].cumsum()
    rows = np.flatnonzero(place[codes] < max(1, int((sizes <= n_scans).sum())))
    return rows, f"{len(rows)} of {len(subjects)} scans, drawn by subject"


def draw_among(subjects: npt.NDArray[np.object_], among: Rows | None, *, seed: int) -> tuple[Rows, str | None]:
    """Return what `draw_subjects` returns, of some rows only."""
    if among is None:
        return draw_subjects(subjects, seed=seed)
    rows, note = draw_subjects(subjects[among], seed=seed)
    return among[rows], note


def frequent_levels(labels: npt.ArrayLike, subjects: npt.NDArray[np.object_]) -> npt.NDArray[np.bool_]:
    """Return which scans have a value that enough subjects have to be in every fold."""
    values = pd.Series(np.asarray(labels, dtype=object))
    counts = pd.Series(subjects).groupby(values).nunique()
    return values.isin(counts.index[counts >= N_FOLDS]).to_numpy()


def _parts(target: Target, rows: Rows) -> Iterator[tuple[str, Rows]]:
    yield "all", rows
    for code, name in enumerate(classes_apart(target)):
        yield name, rows[target.values[rows] == code]


def _describe(
    probes: ConfoundProbes, column: str, within: str, reading: Reading | str, note: str | None
) -> list[dict[str, Any]]:
    row: dict[str, Any] = {"column": column, "within": within}
    if isinstance(reading, str):
        metric = "mae" if probes.is_number(column) else "balanced_accuracy"
        return [row | {"metric": metric, "n": 0, "note": reading}]
    target, described = reading.target, []
    levels = None if target.kind == "continuous" else len(target.classes)
    for metric in ("mae", "r2") if levels is None else ("balanced_accuracy",):
        value = float(pooled_metrics(target, reading.model, names=[metric])[metric][0])
        interval = None
        if probes.settings.n_bootstraps and np.isfinite(value):
            level = probes.settings.confidence_level
            interval = probes.resample(reading, metric).interval(level=level)
        low, high = interval or (None, None)
        chance = 1 / levels if levels else {"mae": median_error(target, reading.splits), "r2": 0.0}[metric]
        figures = {"metric": metric, "value": finite_or_none(value), "low": low, "high": high}
        described.append(row | figures | {"chance": chance, "n": len(reading.rows), "n_levels": levels, "note": note})
    return described


def median_error(target: Target, splits: list[Split]) -> float:
    """Return the mean absolute error of guessing, in every fold, the median of the training rows."""
    values = target.values.astype(float)
    errors = [np.abs(values[split.test] - np.median(values[split.train])) for split in splits]
    return float(np.concatenate(errors).mean())
