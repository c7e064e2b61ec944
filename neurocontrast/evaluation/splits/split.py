"""One fold, and what must hold of folds: no subject on both sides, and something to learn in training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from neurocontrast.evaluation.target import Target
from neurocontrast.exceptions import ConfigError, DataError, LeakageError, one_of

__all__ = ["Split", "check_class_sizes", "check_splits", "parts_of"]

Rows = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Split:
    """Rows to train on and rows to test on."""

    repeat: int
    fold: int
    train: Rows
    test: Rows
    held_out_site: str | None = None
    """The site that only `test` holds."""
    validation: Rows | None = None
    """Rows of `train` on which the penalty is chosen; empty: a fifth of `train` is drawn; None: inner folds."""

    @property
    def named(self) -> str:
        """The split, for messages."""
        return f"site '{self.held_out_site}' is held out" if self.held_out_site else f"fold {self.fold} is tested"


def parts_of(split: Split) -> dict[str, Rows]:
    """Return the rows of train, validation and test."""
    validation = np.empty(0, dtype=np.intp) if split.validation is None else split.validation
    train = np.setdiff1d(split.train, validation, assume_unique=True)
    return {"train": train, "validation": validation, "test": split.test}


def check_splits(splits: Sequence[Split], target: Target, subjects: npt.ArrayLike) -> None:
    """Refuse splits that share a subject, or whose training rows cannot teach the target."""
    owners = np.asarray(subjects, dtype=object).astype(str)
    for split in splits:
        shared = sorted(set(owners[split.train]) & set(owners[split.test]))
        if shared:
            raise LeakageError(
                f"repeat {split.repeat}, fold {split.fold}: {len(shared)} subjects stand on both sides "
                f"({', '.join(shared[:5])}). Put all scans of a subject into one fold."
            )
        if target.kind == "continuous":
            _check_values(split, target)
        else:
            _check_classes(split, target, owners)


def check_class_sizes(target: Target, subjects: npt.ArrayLike, n_folds: int) -> None:
    """Refuse more folds than the smallest class, or a continuous target's cohort, has subjects."""
    owners = np.asarray(subjects, dtype=object).astype(str)
    if target.kind == "continuous":
        n = len(set(owners))
        if n < 2 * n_folds:
            raise ConfigError(
                f"n_folds: {n_folds} folds need at least {2 * n_folds} subjects with '{target.name}', found {n}. "
                + (f"Set n_folds={n // 2} (--n-folds {n // 2})." if n >= 4 else "Evaluate a larger cohort.")
            )
        return
    counts = {name: len(set(owners[target.values == code])) for code, name in enumerate(target.classes)}
    # Two subjects of each class must stay in training, one of them for the inner folds.
    short = {name: n for name, n in counts.items() if n < n_folds or n - -(-n // n_folds) < 2}
    if not short:
        return
    smallest = min(counts.values())
    fitting = next((k for k in range(min(smallest, n_folds), 1, -1) if smallest - -(-smallest // k) >= 2), None)
    few = ", ".join(f"'{name}' has {n}" for name, n in short.items())
    hint = f"Set n_folds={fitting} (--n-folds {fitting})" if fitting else "Evaluate more subjects"
    other = f", or leave the class out with where={{'{target.name}': [...]}}" if target.kind == "multiclass" else ""
    raise ConfigError(
        f"n_folds: every class of '{target.name}' needs at least as many subjects as the {n_folds} folds, and two in "
        f"every training fold; {few}. {hint}{other}."
    )


def _check_values(split: Split, target: Target) -> None:
    if len(split.train) < 2 or np.ptp(target.values[split.train].astype(float)) == 0:
        raise DataError(
            f"target '{target.name}': does not vary in the {len(split.train)} scans that remain when {split.named}. "
            "Use splits=stratified, or leave that site out with where."
        )


def _check_classes(split: Split, target: Target, owners: npt.NDArray[np.str_]) -> None:
    counts = {
        name: len(set(owners[split.train][target.values[split.train] == code]))
        for code, name in enumerate(target.classes)
    }
    present = [name for name, n in counts.items() if n]
    if len(present) < 2:
        raise DataError(
            f"target '{target.name}': when {split.named} the training scans have {one_of(present) or 'no class'} only, "
            "so target and site cannot be told apart. Use splits=stratified, or leave that site out with where."
        )
    single = [name for name, n in counts.items() if n == 1]
    if single:
        raise DataError(
            f"target '{target.name}': when {split.named} only one subject of {one_of(single)} is left to train on; two "
            "are needed. Use splits=stratified, or leave the class out with where."
        )
