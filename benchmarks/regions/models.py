"""Encoders of `regions.py`: the recipe `measures` with other losses and settings, and the trials."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import yaml

import neurocontrast
from neurocontrast.embedding import ScanEmbedder
from neurocontrast.encoders.members import has_members, members_of, read_record
from neurocontrast.exceptions import NeurocontrastWarning

__all__ = [
    "DEFAULTS",
    "LOSSES",
    "TRIALS",
    "TrainedEncoder",
    "encoders_of_run",
    "pretrain_run",
]

Floats = npt.NDArray[np.floating[Any]]
Rows = npt.NDArray[np.intp]
Settings = Mapping[str, Any]
RECIPE = Path(__file__).parents[2] / "configs" / "brain" / "measures.yaml"
EPOCHS, MIN_STEPS = 40, 150
MAX_MISSING = 0.1  # one person lacks 13 of 179 measures, all others at most 7
LOSSES = ("conditional A+U", "y-Aware", "NT-Xent", "SupCon")
DEFAULTS: dict[str, Any] = {
    "temperature": 1.0,
    "views": "middle",
    "head": [64],
    "widths": [512, 128],
    "sigma": 5.0,
    "weight": 1.0,
}
VIEWS = {"light": (0.05, 0.1), "middle": (0.2, 0.3)}
"""Share of measures taken from other people, and standard deviation of the noise."""
_FIRST = [
    {"temperature": temperature, "views": views}
    for temperature, views in product((0.1, 0.5, 2.0, 10.0), VIEWS)
]
_SHAPES: tuple[list[dict[str, Any]], ...] = (
    [{"head": []}],
    [{"widths": [256, 64]}, {"widths": [1024, 256]}],
)
_SIGMAS = [{"sigma": 2.0}, {"sigma": 10.0}]
TRIALS: dict[str, tuple[list[dict[str, Any]], ...]] = {
    "conditional A+U": (_FIRST, *_SHAPES, _SIGMAS),
    "y-Aware": (_FIRST, *_SHAPES, _SIGMAS),
    "NT-Xent": (_FIRST, *_SHAPES),
    "SupCon": (_FIRST, *_SHAPES),
    "MLP": ([{"alpha": 1.0}, {"alpha": 10.0}, {"alpha": 30.0}],),
}
"""Settings tried one group after the other, each at the best of those before."""


def _objective(name: str, settings: Settings) -> dict[str, Any]:
    """Return the section ``objective:`` of a run."""
    kernel = [
        {"column": "age", "type": "gaussian", "sigma": settings["sigma"]},
        {"column": "sex", "type": "categorical"},
    ]
    described: dict[str, dict[str, Any]] = {
        "conditional A+U": {
            "loss": "conditional",
            "kernel": kernel,
            "uniformity_weight": settings["weight"],
        },
        "y-Aware": {"loss": "yaware", "kernel": kernel},
        "NT-Xent": {"loss": "ntxent"},
        "SupCon": {"loss": "supcon", "label": "decade_and_sex"},
    }
    return {**described[name], "temperature": settings["temperature"]}


def pretrain_run(
    name: str,
    people: pd.DataFrame,
    measures: Path,
    chosen: Settings,
    seed: int,
    out: Path,
    *,
    members: int = 1,
) -> Path:
    """Pretrain the recipe's network on `people`, components beside it, and return the run.

    ``untrained`` takes no step. Each of several members leaves out a share of the sites.
    """
    settings = {**DEFAULTS, **chosen}
    out.mkdir(parents=True)
    decade = (people["age"] // 10 * 10).astype(int).astype(str)
    table = people[["participant_id", "subject_id", "session", "age", "sex", "site"]]
    table = table.assign(decade_and_sex=decade + people["sex"])
    table.to_csv(out / "people.tsv", sep="\t", index=False)
    config = yaml.safe_load(RECIPE.read_text())
    config["seed"] = seed
    config["data"] |= {
        "participants": str(out / "people.tsv"),
        "measures": str(measures),
        "max_missing": MAX_MISSING,
        "val_fraction": 0.0,
    }
    fraction, sd = VIEWS[settings["views"]]
    config["augment"]["corruption"]["fraction"] = fraction
    config["augment"]["noise"]["sd"] = sd
    config["encoder"] |= {"projection": settings["head"], "widths": settings["widths"]}
    batches = math.ceil(len(people) / config["training"]["batch_size"])
    epochs = 0 if name == "untrained" else max(EPOCHS, math.ceil(MIN_STEPS / batches))
    config["training"] |= {"epochs": epochs}
    if members > 1:
        config["training"] |= {"members": members, "members_leave": "sites"}
    if name != "untrained":
        config["objective"] = _objective(name, settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NeurocontrastWarning)  # zeros of regions that tables lack
        return Path(neurocontrast.pretrain(config, out=out / "run"))


@dataclass(frozen=True, eq=False)
class TrainedEncoder:
    """An encoder of a run, the rows that it learned from, and the blocks of everybody's features."""

    learned: Rows
    blocks: list[Floats]
    """The network's features and the components beside it."""


def encoders_of_run(
    run: Path, sites: pd.Series, learned: Rows, measures: pd.DataFrame, n_features: int
) -> list[TrainedEncoder]:
    """Return the encoders of a run, `n_features` features of the network each.

    `sites` and `measures` are everybody's, `learned` the rows that the run learned from.
    """
    encoders = []
    left_out = read_record(run).left_out if has_members(run) else None
    for place, folder in enumerate(members_of(run)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NeurocontrastWarning)  # these people trained it, too
            features = ScanEmbedder(folder, batch_size=1024).fit().transform(measures)
        rows = learned
        if left_out is not None:
            rows = learned[~sites[learned].isin(left_out[place])]
        blocks = [features[:, :n_features], features[:, n_features:]]
        encoders.append(TrainedEncoder(rows, blocks))
    return encoders
