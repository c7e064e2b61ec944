"""How many scans came in, which were left out and why, and how many were evaluated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

__all__ = ["flow_table"]


def flow_table(
    table: pd.DataFrame,
    *,
    info: Mapping[str, Any],
    selected: npt.NDArray[np.bool_],
    present: npt.NDArray[np.bool_],
    tested: npt.NDArray[np.bool_],
    target: str,
    why_untested: str = "never tested, by the split file",
) -> pd.DataFrame:
    """Return one row a step: ``step``, ``n_scans``, ``n_subjects``, ``reason``.

    Steps that end a stage (``listed``, ``embedded``, ``evaluated``) have no reason; those between, called
    ``excluded``, say why scans went. What happened before the embedding is known where the embeddings say
    so (``flow`` of their description).

    Parameters
    ----------
    table : DataFrame
        Every embedded scan.
    info : mapping
        What the embeddings say of themselves.
    selected, present, tested : array of bool (n,)
        Which scans ``where`` keeps, which have a target, and which are tested in some fold.
    target : str
        Name of the target.
    why_untested : str
        The reason given for scans that take part and are not tested.
    """
    rows = [dict(row) for row in _before(info)]
    rows.append(_step("embedded", table))
    for left_out, reason in (
        (~selected, "not selected by where"),
        (selected & ~present, f"{target} missing"),
        (selected & present & ~tested, why_untested),
    ):
        if left_out.any():
            rows.append(_step("excluded", table[left_out], reason))
    rows.append(_step("evaluated", table[selected & present & tested]))
    return pd.DataFrame(rows, columns=["step", "n_scans", "n_subjects", "reason"])


def _before(info: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    found = info.get("flow")
    return found if isinstance(found, list) and all(isinstance(row, Mapping) for row in found) else []


def _step(step: str, part: pd.DataFrame, reason: str | None = None) -> dict[str, Any]:
    return {"step": step, "n_scans": len(part), "n_subjects": int(part["subject_id"].nunique()), "reason": reason}
