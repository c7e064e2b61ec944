"""The encoders that `tissue.py` compares: configurations of linear encoders and of small networks, by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

GRID = {"spacing_mm": 6.0, "shape": [32, 40, 32], "n_workers": 1, "val_fraction": 0.0}
MAPS = {"channels": ["gm", "wm", "csf"], "normalise": "none", "smooth_mm": 14.0}
INTENSITIES = {"normalise": "zscore-brain"}
LINEAR: dict[str, tuple[str, dict[str, Any]]] = {
    "pca, intensities": ("pca", INTENSITIES),
    "pca, intensities, eroded 6 mm": ("pca", {**INTENSITIES, "erode_mm": 6.0}),
    "pca, grey + white": ("pca", {**MAPS, "channels": ["gm", "wm"], "smooth_mm": 0.0}),
    "pca, grey + white, 14 mm": ("pca", {**MAPS, "channels": ["gm", "wm"]}),
    "pca, grey + white, eroded 6 mm, 18 mm": (
        "pca",
        {**MAPS, "channels": ["gm", "wm"], "erode_mm": 6.0, "smooth_mm": 18.0},
    ),
    "pca, grey + white + fluid, 14 mm": ("pca", MAPS),
    "lda, intensities": ("lda", INTENSITIES),
    "lda, grey + white, 14 mm": ("lda", {**MAPS, "channels": ["gm", "wm"]}),
    "lda, grey + white + fluid, 14 mm": ("lda", MAPS),
    "lda, grey + white + fluid, 18 mm": ("lda", {**MAPS, "smooth_mm": 18.0}),
}
NETWORKS = (
    "untrained",
    "ntxent",
    "yaware",
    "conditional",
    "conditional, real scans alone",
    "conditional, tissue_shift",
    "yaware, tissue_shift",
    "conditional, anatomy",
    "conditional, intensities",
)
"""A loss, and what else is changed: as many steps without imitations, views with `augment.tissue_shift`, a kernel on
regional volumes too; intensities in place of maps."""

MEMBERS = "network, conditional, tissue_shift, five members with components"
"""Five networks in one run, of seeds of their own, with principal components beside each."""
BEST = "lda, grey + white + fluid, 14 mm"
_LOSSES = (
    "untrained",
    "ntxent",
    "yaware",
    "conditional",
    "yaware, tissue_shift",
    "conditional, tissue_shift",
)
JOINED = tuple(f"network, {loss}" for loss in _LOSSES)
"""Networks whose features are joined to those of the best linear encoder."""
FIVE = tuple(name for name in LINEAR if "14 mm" in name or name.endswith("fluid, 18 mm"))
"""Linear systems of smoothed maps, over the whole brain."""
BY_PROCESS = (*FIVE, *JOINED)
"""Systems whose age is predicted by a Gaussian process too, in place of ridge regression."""
MEANS = {
    "mean: five linear": FIVE,
    "mean: three linear": ("pca, grey + white", "pca, grey + white + fluid, 14 mm", BEST),
    "mean: lda, networks yaware and conditional": (BEST, "network, yaware", "network, conditional"),
    "mean: lda, network conditional": (BEST, "network, conditional"),
    "mean: five linear; process": tuple(f"{name}; process" for name in FIVE),
    **{
        f"mean: five linear, network {loss}; process": (
            "mean: five linear; process",
            f"network, {loss}; process",
        )
        for loss in _LOSSES
    },
}
"""Systems whose predictions are averaged, some of them averages themselves."""
COMPARED = (
    *((f"joined: lda and network, {loss}", BEST) for loss in reversed(_LOSSES)),
    *(
        (name, BEST)
        for name in ("mean: lda, network conditional", "mean: lda, networks yaware and conditional")
    ),
    ("joined: lda and network, conditional", "joined: lda and network, untrained"),
    *(
        (f"mean: five linear, network {each}; process", "mean: five linear; process")
        for each in (
            "untrained",
            "yaware",
            "conditional",
            "yaware, tissue_shift",
            "conditional, tissue_shift",
        )
    ),
    *(
        (
            f"mean: five linear, network {each}; process",
            "mean: five linear, network untrained; process",
        )
        for each in ("conditional", "conditional, tissue_shift")
    ),
    ("joined: lda and network, conditional, tissue_shift", "joined: lda and network, untrained"),
    ("network, conditional, tissue_shift", BEST),
    ("network, conditional, tissue_shift", "network, untrained"),
    ("network, conditional, tissue_shift", "network, yaware, tissue_shift"),
    ("network, yaware, tissue_shift", "network, yaware"),
    ("mean: five linear; process", "mean: five linear"),
    ("network, conditional; process", "network, conditional"),
    ("network, conditional; process", "network, untrained; process"),
    ("network, conditional; process", f"{BEST}; process"),
    ("network, conditional", "network, yaware"),
    ("network, yaware", "network, ntxent"),
    ("network, ntxent", "network, untrained"),
    ("network, conditional", "network, untrained"),
    ("network, yaware", "network, untrained"),
    ("network, conditional", BEST),
    *(
        (f"network, conditional, {each}", "network, conditional")
        for each in ("real scans alone", "tissue_shift", "anatomy", "intensities")
    ),
    (BEST, "pca, grey + white + fluid, 14 mm"),
    ("lda, intensities", "pca, intensities"),
)
"""Pairs of systems whose difference is measured."""


def linear(name: str) -> dict[str, Any]:
    """Return the configuration of a linear encoder."""
    kind, data = LINEAR[name]
    return {"data": {**GRID, **data}, "encoder": {"name": kind}}


def network(name: str, anatomy: Path | None = None) -> dict[str, Any]:
    """Return the configuration of a small network, a loss and what else is changed; "untrained": not trained at all.

    `anatomy` is a file of `write_anatomy`.
    """
    loss, _, variant = name.partition(", ")
    age_sex = [
        {"column": "age", "type": "gaussian", "sigma": 5.0},
        {"column": "sex", "type": "categorical"},
    ]
    objectives = {
        "conditional": {"loss": "conditional", "kernel": age_sex},
        "yaware": {"loss": "yaware", "kernel": age_sex},
        # All scans of a person are alike, imitated ones too, and nobody else's: NT-Xent over
        # several views.
        "ntxent": {"loss": "yaware", "kernel": [{"column": "subject_id", "type": "categorical"}]},
    }
    affine = {
        "probability": 0.8,
        "rotation_degrees": [-3.0, 3.0],
        "translation_voxels": [-0.5, 0.5],
    }
    epochs = 0 if loss == "untrained" else 40 if variant == "real scans alone" else 10
    config: dict[str, Any] = {
        "data": {**GRID, **MAPS},
        "encoder": {"name": "densenet_small", "read_out": {"blocks": [2], "grid": [3, 4, 3]}},
        "objective": objectives.get(loss, objectives["conditional"]),
        "augment": {**dict.fromkeys(["flip", "blur", "crop", "cutout", "noise"]), "affine": affine},
        "training": {"epochs": epochs, "batch_size": 32, "learning_rate": 1e-3, "probe_every": 0},
    }
    if variant == "tissue_shift":
        config["augment"]["tissue_shift"] = {}
    elif variant == "anatomy":
        config["data"]["vectors"] = {"anatomy": str(anatomy)}
        alike = {"column": "anatomy", "type": "gaussian", "sigma": 1.0, "standardise": True}
        config["objective"] = {**objectives["conditional"], "kernel": [*age_sex, alike]}
    elif variant == "intensities":
        config["data"] = {**GRID, **INTENSITIES}
    return config


def five_members() -> dict[str, Any]:
    """Return the configuration of five networks with `tissue_shift`, and components beside each."""
    config = network("conditional, tissue_shift")
    config["encoder"]["beside"] = {"n_components": 400}
    config["training"]["members"] = 5
    return config


def write_anatomy(volumes: Path, imitations: pd.DataFrame, file: Path) -> None:
    """Write each scan's regional volumes, over that of the skull's inside (DLMUSE region 702), for `data.vectors`."""
    table = pd.read_csv(volumes, sep="\t").set_index("participant_id")
    regions = [name for name in table if int(name.removeprefix("mm3_")) <= 207]
    shares = table[regions].div(table["mm3_702"], axis=0)
    known = pd.Index(imitations["participant_id"].unique()).intersection(table.index)
    shares.loc[known].to_csv(file, sep="\t", index_label="participant_id")
