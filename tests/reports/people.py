"""People with invented regional measures, as tables that a user writes."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from tests.reports.folders import DESIKAN


def draw_measures(people: Sequence[str], *, seed: int = 0) -> pd.DataFrame:
    """Return the cortical thickness of people in 68 regions, a row each, with three decimals as FreeSurfer writes."""
    random = np.random.default_rng(seed)
    names = [f"{side}_{region}_thickness" for side in ("lh", "rh") for region in DESIKAN]
    values = random.normal(2.6, 0.2, (len(people), len(names))).round(3)
    table = pd.DataFrame(values, columns=names)
    table.insert(0, "participant_id", list(people))
    return table


def write_measures(path: Path, people: Sequence[str], *, seed: int = 0) -> Path:
    """Write the table of `draw_measures`, and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draw_measures(people, seed=seed).to_csv(path, sep="\t", index=False)
    return path


def write_people(path: Path, people: Sequence[str], *, seed: int = 0, **columns: object) -> Path:
    """Write ages, sexes and a site of people, with further columns, and return the path."""
    random = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "participant_id": list(people),
            "age": random.uniform(20, 80, len(people)).round(1),
            "sex": random.permutation(["F", "M"] * (len(people) // 2 + 1))[: len(people)],
            "site": "x",
            **columns,
        }
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    table.to_csv(path, sep="\t", index=False)
    return path
