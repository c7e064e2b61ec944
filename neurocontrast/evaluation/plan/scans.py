"""Choose the scans of an embeddings table that are evaluated, and count the scans left out."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.data.columns import matching_rows
from neurocontrast.documents.info import EmbeddingsInfo
from neurocontrast.evaluation.rows import Rows, check_rows, tidy_table
from neurocontrast.evaluation.settings import EvaluationSettings, check_probe
from neurocontrast.evaluation.splits import Split
from neurocontrast.evaluation.target import MAX_CLASSES, MAX_IMAGE_CLASSES, Target, read_target


@dataclass(frozen=True)
class Scans:
    """Scans that are evaluated, with features and target, and the scans that are left out."""

    table: pd.DataFrame
    """Identifiers and metadata, one row a scan that is evaluated."""
    features: npt.NDArray[np.floating]
    """Features (n, p) of the evaluated scans."""
    target: Target
    """Values of the column to predict, for the evaluated scans."""
    embedded: pd.DataFrame
    """Identifiers and metadata of every scan of the embeddings."""
    rows: Rows
    """Rows of `embedded` that are evaluated, in the order of `table`."""
    left_out: Mapping[str, npt.NDArray[np.bool_]]
    """Which rows of `embedded` are left out, by reason."""

    def count_left_out(self) -> dict[str, int]:
        """Count the scans that are left out, by reason."""
        counts = {}
        for reason, is_left_out in self.left_out.items():
            counts[reason] = int(is_left_out.sum())
        return counts


def choose_scans(
    table: pd.DataFrame, features: npt.NDArray[np.floating], settings: EvaluationSettings
) -> Scans:
    """Return the scans of a table that the settings select and that have a target, as `Scans`.

    The result also tells which scans are left out, by reason.
    """
    tidy = tidy_table(table)
    check_rows(tidy, features)
    selected = matching_rows(tidy, settings.where, place="where")
    kept = np.flatnonzero(selected)
    chosen = tidy.iloc[kept].reset_index(drop=True)
    most = MAX_CLASSES
    if settings.split_column is not None:
        most = MAX_IMAGE_CLASSES
    target, present = read_target(
        chosen, settings.target, kind=settings.kind, positive=settings.positive, max_classes=most
    )
    check_probe(settings, target)
    rows = kept[present]
    taken = features
    if len(rows) < len(features):  # no second copy of all features
        taken = features[rows]
    missing = np.isin(np.arange(len(tidy)), kept[~present])
    reasons = {"not selected by where": ~selected, f"{target.name} missing": missing}
    left_out = {}
    for reason, is_left_out in reasons.items():
        if is_left_out.any():
            left_out[reason] = is_left_out
    return Scans(chosen[present].reset_index(drop=True), taken, target, tidy, rows, left_out)


def tabulate_flow(
    scans: Scans, splits: list[Split], info: EmbeddingsInfo, *, why_untested: str
) -> pd.DataFrame:
    """Return a table of the steps by which scans came into the evaluation, or were left out.

    Columns are ``step``, ``n_scans``, ``n_subjects`` and ``reason``. A step that leaves scans out
    counts the scans left out. Steps before the scans were embedded are from `info`; `why_untested`
    is the reason for scans that no fold tests.
    """
    tested = np.zeros(len(scans.embedded), dtype=bool)
    tested[scans.rows[np.unique(np.concatenate([split.test for split in splits]))]] = True
    untested = np.isin(np.arange(len(tested)), scans.rows) & ~tested
    steps: list[tuple[str, npt.NDArray[np.bool_], str | None]] = [
        ("embedded", np.ones(len(tested), dtype=bool), None)
    ]
    for reason, is_left_out in scans.left_out.items():
        steps.append(("excluded", is_left_out, reason))
    if untested.any():
        steps.append(("excluded", untested, why_untested))
    steps.append(("evaluated", tested, None))
    subjects = scans.embedded["subject_id"]
    rows: list[Mapping[str, object]] = [step.content() for step in info.flow]
    for step, is_of_step, why in steps:
        rows.append(
            {
                "step": step,
                "n_scans": int(is_of_step.sum()),
                "n_subjects": subjects[is_of_step].nunique(),
                "reason": why,
            }
        )
    return pd.DataFrame(rows, columns=["step", "n_scans", "n_subjects", "reason"])
