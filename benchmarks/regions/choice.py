"""Rows of the tables of `regions.py`, and the settings that were best on the choosing sites."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.regions.data import Journal
from benchmarks.regions.models import LOSSES

__all__ = [
    "LABELLED",
    "MAIN",
    "N_MEMBERS",
    "RIVALS",
    "SEVERAL",
    "System",
    "best_settings",
    "costs_of_trials",
    "systems_of",
]

Floats = npt.NDArray[np.floating[Any]]
Settings = Mapping[str, Any]
MAIN = "conditional A+U"
SEVERAL = (MAIN, "y-Aware")
"""Losses that are judged as five encoders, too."""
N_MEMBERS = 5
RIVALS = ("measures", "MLP", "SVR", "Gaussian process")
LABELLED = (20, 60)
"""Numbers of labelled people."""


@dataclass(frozen=True)
class System:
    """A row of a table: its encoder or rival, the settings of the loss, how many encoders."""

    name: str
    settings: Settings = field(default_factory=dict)
    members: int = 1

    @property
    def title(self) -> str:
        """Name of the row."""
        return self.name if self.members == 1 else f"{self.name}, {self.members} encoders"


def best_settings(
    name: str, journal: Journal, *, of: Collection[str] | None = None
) -> dict[str, Any]:
    """Return the settings with the least mean share of what the measures alone leave open.

    Trials that change a setting outside `of` are not looked at.
    """
    kind = "beside" if name in LOSSES else "alone"
    costs = costs_of_trials(name, journal, kind=kind)
    trials = {}
    for text, cost in costs.items():
        settings = json.loads(text)
        if of is None or set(settings) <= set(of):
            trials[cost] = settings
    return trials[min(trials)] if trials else {}


def costs_of_trials(name: str, journal: Journal, *, kind: str = "beside") -> dict[str, float]:
    """Return, by settings, the mean over seeds of three figures as shares of the measures' own."""
    baseline = None
    costs: dict[str, list[float]] = {}
    for cell in journal.of_stage("choose"):
        if cell["key"]["system"] == "measures":
            baseline = _left_open(cell["figures"]["alone"])
    assert baseline is not None
    for cell in journal.of_stage("choose"):
        key = dict(cell["key"])
        if key["system"] != name or kind not in cell["figures"]:
            continue
        settings = {part: key[part] for part in key if part not in ("stage", "system", "seed")}
        cost = float(np.mean(_left_open(cell["figures"][kind]) / baseline))
        costs.setdefault(json.dumps(settings), []).append(cost)
    return {settings: float(np.mean(of_seeds)) for settings, of_seeds in costs.items()}


def _left_open(figures: Mapping[str, float]) -> Floats:
    return np.array([figures["age"], 1 - figures["sex"], 1 - figures["patients"]])


def systems_of(chosen: Journal) -> list[System]:
    """Return the rows of the tables."""
    systems = []
    for name in (*RIVALS, "untrained", *LOSSES):
        systems.append(System(name, best_settings(name, chosen)))
    for name in ("MLP", *SEVERAL):
        systems.append(System(name, best_settings(name, chosen), N_MEMBERS))
    return systems
