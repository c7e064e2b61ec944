"""Which of a table's scans take part in an evaluation: those selected, with a target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.evaluation.flow import flow_table
from neurocontrast.evaluation.probe_kinds import check_probe
from neurocontrast.evaluation.settings import EvaluationSettings
from neurocontrast.evaluation.splits import Split
from neurocontrast.evaluation.table import check_rows, select_rows, tidy_table
from neurocontrast.evaluation.target import MAX_CLASSES, MAX_IMAGE_CLASSES, Target, read_target

__all__ = ["Scans", "choose_scans"]


@dataclass(frozen=True)
class Scans:
    """Scans that take part, out of all that there are.

    Attributes
    ----------
    everything : DataFrame
        All scans.
    rows : array of int (n,)
        Those of them that take part.
    selected : array of bool
        Which of all scans the settings select.
    table, features, target : DataFrame, array (n, p), Target
        Of the scans that take part.
    """

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
        """Return how many scans came in, which were left out and why."""
        present, tested = np.zeros((2, len(self.everything)), dtype=bool)
        present[self.rows] = True
        tested[self.rows[np.unique(np.concatenate([split.test for split in splits]))]] = True
        return flow_table(
            self.everything,
            info=info,
            selected=self.selected,
            present=present,
            tested=tested,
            target=self.target.name,
            why_untested=why_untested,
        )


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
