"""Scans of a table that take part in an evaluation: those selected, with a target; and how many did not, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.evaluation.rows import check_rows, select_rows, tidy_table
from neurocontrast.evaluation.settings import EvaluationSettings, check_probe
from neurocontrast.evaluation.splits import Split
from neurocontrast.evaluation.target import MAX_CLASSES, MAX_IMAGE_CLASSES, Target, read_target

__all__ = ["Scans", "choose_scans"]


@dataclass(frozen=True)
class Scans:
    """Scans that take part: `rows` of `everything`, out of those that are `selected`; and their target."""

    everything: pd.DataFrame
    rows: npt.NDArray[np.intp]
    selected: npt.NDArray[np.bool_]
    table: pd.DataFrame
    features: npt.NDArray[np.floating]
    target: Target

    @property
    def excluded(self) -> dict[str, int]:
        """Number of scans that do not take part, by reason."""
        counts = {
            "not selected by where": int((~self.selected).sum()),
            f"{self.target.name} missing": int(self.selected.sum()) - len(self.rows),
        }
        return {reason: n for reason, n in counts.items() if n}

    def flow(self, splits: list[Split], info: Mapping[str, Any], *, why_untested: str) -> pd.DataFrame:
        """Return one row a step, ``step``, ``n_scans``, ``n_subjects`` and ``reason``: which scans came in and left.

        What happened before the embedding is known where the embeddings say so (``flow`` of their description).
        """
        present, tested = np.zeros((2, len(self.everything)), dtype=bool)
        present[self.rows] = True
        tested[self.rows[np.unique(np.concatenate([split.test for split in splits]))]] = True
        found = info.get("flow")
        before = found if isinstance(found, list) and all(isinstance(row, Mapping) for row in found) else []
        steps: list[tuple[str, npt.NDArray[np.bool_], str | None]] = [
            ("embedded", np.ones(len(present), dtype=bool), None)
        ]
        for left_out, reason in (
            (~self.selected, "not selected by where"),
            (self.selected & ~present, f"{self.target.name} missing"),
            (present & ~tested, why_untested),
        ):
            steps += [("excluded", left_out, reason)] if left_out.any() else []
        steps.append(("evaluated", present & tested, None))
        subjects = self.everything["subject_id"]
        rows = [
            {"step": step, "n_scans": int(part.sum()), "n_subjects": subjects[part].nunique(), "reason": reason}
            for step, part, reason in steps
        ]
        return pd.DataFrame([*before, *rows], columns=["step", "n_scans", "n_subjects", "reason"])


def choose_scans(table: pd.DataFrame, features: npt.NDArray[np.floating], settings: EvaluationSettings) -> Scans:
    """Return the scans of a table that the settings select and that have a target."""
    tidy = tidy_table(table)
    check_rows(tidy, features)
    selected = select_rows(tidy, settings.where)
    kept = np.flatnonzero(selected)
    chosen = tidy.iloc[kept].reset_index(drop=True)
    most = MAX_CLASSES if settings.split_column is None else MAX_IMAGE_CLASSES
    target, present = read_target(
        chosen, settings.target, kind=settings.kind, positive=settings.positive, max_classes=most
    )
    check_probe(settings, target)
    rows = kept[present]
    taken = features if len(rows) == len(features) else features[rows]  # no second copy of all there is
    return Scans(tidy, rows, selected, chosen[present].reset_index(drop=True), taken, target)
