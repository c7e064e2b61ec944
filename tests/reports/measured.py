"""People with regional measures, invented, and the faults that tests plant among them."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from tests.reports.folders import DESIKAN

THICKNESSES = [f"{side}_{region}_thickness" for side in ("lh", "rh") for region in DESIKAN[:20]]
VOLUMES = {"Left-Hippocampus": 4000.0, "Right-Hippocampus": 4100.0, "Left-Putamen": 5000.0}
HEAD = {"EstimatedTotalIntraCranialVol": 1.5e6}


@dataclass
class Measured:
    """Tables of people and of their measures, a row a person, to be changed and written."""

    people: pd.DataFrame
    measures: pd.DataFrame

    def write(self, folder: Path) -> Path:
        """Write both tables, and return that of the people."""
        folder.mkdir(exist_ok=True)
        self.measures.to_csv(folder / "measures.tsv", sep="\t", index=False, na_rep="n/a")
        self.people.to_csv(folder / "participants.tsv", sep="\t", index=False, na_rep="n/a")
        return folder / "participants.tsv"


def people_with_measures(n: int = 60, n_sites: int = 3) -> Measured:
    """Return people of several sites, whose measures fall with age, without a fault."""
    random = np.random.default_rng(0)
    names = [f"sub-{row:03d}" for row in range(n)]
    ages = random.uniform(20, 80, n).round(1)
    people = pd.DataFrame({"participant_id": names, "age": ages})
    people["sex"] = random.choice(["F", "M"], n)
    people["site"] = [f"site-{row % n_sites}" for row in range(n)]
    measures = pd.DataFrame({"participant_id": names})
    columns = {**dict.fromkeys(THICKNESSES, 2.5), **VOLUMES, **HEAD}
    for name, typical in columns.items():
        values = typical * (1 - 0.001 * (ages - 50)) * random.normal(1, 0.05, n)
        measures[name] = values.round(4)
    return Measured(people, measures)
