"""People, folds and journal of `regions.py`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

__all__ = [
    "Fold",
    "Journal",
    "choosing_sites",
    "deal_sites",
    "hospitals",
    "logarithms",
    "make_fold",
    "read_people",
    "standardise",
]

Rows = npt.NDArray[np.intp]

N_CHOOSING, N_GROUPS, MIN_SITE, HOME_SHARE, CHOICE_SEED = 8, 5, 10, 0.1, 28


def read_people(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return participants and their measures in mm and mm³; a zero (a region that the table lacks) is missing."""
    people = pd.read_csv(folder / "participants.tsv", sep="\t")
    measures = (
        pd.read_csv(folder / "measures.tsv", sep="\t")
        .set_index("participant_id")
        .loc[people["participant_id"]]
    )
    measures = measures.reset_index(drop=True).where(lambda values: values > 0)
    people["male"] = (people["sex"] == "M").astype(int)
    return people, measures


def logarithms(measures: pd.DataFrame) -> pd.DataFrame:
    """Return measures with volumes as logarithms."""
    volumes = [name for name in measures if not name.endswith("_thickness")]
    return measures.assign(**np.log(measures[volumes]))


def standardise(measures: pd.DataFrame, learned: Rows) -> npt.NDArray[np.float32]:
    """Return all measures as standard deviations of the people learned from, clipped at 5; the median where missing."""
    of_learned = measures.iloc[learned]
    filled = measures.fillna(of_learned.median())
    scaled = (filled - filled.iloc[learned].mean()) / filled.iloc[learned].std()
    return scaled.clip(-5, 5).to_numpy(np.float32)


def _blocks(sites: pd.Series, size: int) -> list[list[str]]:
    """Return the sites of at least `MIN_SITE` people in blocks of about equal size, the largest first."""
    counts = sites.value_counts()
    ordered = sorted(counts[counts >= MIN_SITE].index, key=lambda site: (-counts[site], site))
    return [
        list(part)
        for part in np.array_split(np.array(ordered, dtype=object), -(-len(ordered) // size))
    ]


def choosing_sites(sites: pd.Series) -> list[str]:
    """Return the sites on which hyper-parameters are chosen: one of each block of sites alike in size."""
    random = np.random.default_rng(CHOICE_SEED)
    counts = sites.value_counts()
    size = -(-int((counts >= MIN_SITE).sum()) // N_CHOOSING)
    return sorted(str(random.choice(block)) for block in _blocks(sites, size))


def hospitals(people: pd.DataFrame) -> tuple[list[str], list[str]]:
    """Return the hospitals with autistic people that choose, and the others, which judge.

    Of each two alike in size one chooses: one that chooses by its healthy people, too, or one drawn.
    """
    random = np.random.default_rng((CHOICE_SEED, 2))
    clinical = people[people["source"] == "abide1"]
    counts = clinical["site"].value_counts()
    ordered = sorted(counts.index, key=lambda site: (-counts[site], site))
    healthy = people[people["diagnosis"] == "control"]
    already = choosing_sites(healthy["site"])
    choosing = []
    for start in range(0, len(ordered), 2):
        pair = ordered[start : start + 2]
        drawn = str(random.choice(np.array(pair, dtype=object)))
        taken = [site for site in pair if site in already]
        choosing.append(taken[0] if taken else drawn)
    return sorted(choosing), sorted(set(ordered) - set(choosing))


def deal_sites(sites: pd.Series, seed: int) -> list[list[str]]:
    """Return the judged sites in five groups alike in size, dealt anew for each seed; no choosing site is in any."""
    random = np.random.default_rng((CHOICE_SEED, seed))
    judged = sites[~sites.isin(choosing_sites(sites))]
    groups: list[list[str]] = [[] for _ in range(N_GROUPS)]
    for block in _blocks(judged, N_GROUPS):
        for group, site in zip(random.permutation(N_GROUPS), block, strict=False):
            groups[group].append(str(site))
    return groups


class Fold(NamedTuple):
    """Rows to learn from, rows of the same sites that are held back, and rows of sites left out."""

    learned: Rows
    home: Rows
    new: Rows


def make_fold(sites: pd.Series, left_out: list[str], seed: int) -> Fold:
    """Hold back a tenth of the people of each site that stays."""
    random = np.random.default_rng((CHOICE_SEED, seed, 1))
    chance = random.random(len(sites))
    new = sites.isin(left_out).to_numpy()
    ranks = pd.Series(chance).groupby(sites.to_numpy()).rank(pct=True).to_numpy()
    home = ~new & (ranks > 1 - HOME_SHARE)
    return Fold(np.flatnonzero(~new & ~home), np.flatnonzero(home), np.flatnonzero(new))


class Journal:
    """Finished cells, a line of JSON each; a line that a kill broke is computed again."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.cells: dict[str, dict[str, Any]] = {}
        whole = 0
        for line in file.read_bytes().splitlines(keepends=True) if file.is_file() else ():
            try:
                cell = json.loads(line)
            except ValueError:
                break
            if not line.endswith(b"\n"):
                break
            whole += len(line)
            self.cells[self._name(cell["key"])] = cell
        if file.is_file():
            with file.open("r+b") as kept:
                kept.truncate(whole)

    @staticmethod
    def _name(key: Mapping[str, Any]) -> str:
        return json.dumps(key, sort_keys=True)

    def __contains__(self, key: Mapping[str, Any]) -> bool:
        return self._name(key) in self.cells

    def __getitem__(self, key: Mapping[str, Any]) -> dict[str, Any]:
        return self.cells[self._name(key)]

    def add(self, key: Mapping[str, Any], result: Mapping[str, Any]) -> None:
        """Append a cell."""
        cell = json.loads(json.dumps({"key": dict(key), **result}))
        with self.file.open("a") as kept:
            kept.write(json.dumps(cell) + "\n")
        self.cells[self._name(key)] = cell

    def of_stage(self, stage: str) -> list[dict[str, Any]]:
        """Return the cells of a stage."""
        return [cell for cell in self.cells.values() if cell["key"]["stage"] == stage]
