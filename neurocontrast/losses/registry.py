"""Names of losses in a configuration, and settings derived from the constructors of losses.

A loss is imported when first needed. Losses are PyTorch modules, so that checking the section
``objective`` imports PyTorch; this happens only when a configuration is read for training
(`neurocontrast.config`).
"""

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from neurocontrast.provenance import Description
from neurocontrast.settings import Settings, choose, settings_model

LOSSES = {
    "infonce": "losses.infonce:InfoNCE",
    "ntxent": "losses.infonce:NTXent",
    "yaware": "losses.yaware:YAwareInfoNCE",
    "exponential_yaware": "losses.yaware:ExponentialYAware",
    "conditional": "losses.alignment_uniformity:ConditionalAlignmentUniformity",
    "conditional_alignment": "losses.alignment_uniformity:ConditionalAlignment",
    "conditional_uniformity": "losses.alignment_uniformity:ConditionalUniformity",
    "global_uniformity": "losses.alignment_uniformity:GlobalUniformity",
    "alignment_uniformity": "losses.alignment_uniformity:AlignmentUniformity",
    "supcon": "losses.yaware:SupCon",
    "sincere": "losses.supervised:SINCERE",
    "epsilon_supinfonce": "losses.supervised:EpsilonSupInfoNCE",
    "debiased": "losses.infonce:DebiasedInfoNCE",
    "hard_negative": "losses.infonce:HardNegativeInfoNCE",
    "fair_infonce": "losses.infonce:FairInfoNCE",
    "triplet": "losses.supervised:Triplet",
    "rank_n_contrast": "losses.supervised:RankNContrast",
    "weakly_supervised_cclk": "losses.cclk:WeaklySupervisedCCLK",
    "fair_cclk": "losses.cclk:FairCCLK",
    "hard_negative_cclk": "losses.cclk:HardNegativeCCLK",
    "supervised": "losses.supervised:Supervised",
    "sum": "losses.sum:SumOfObjectives",
}


_ALONE = ("sum", "supervised")
"""Names of losses that cannot be part of a sum: sums, and a loss that reads the projection head's
outputs as predictions."""


class LossSettings(Settings):
    """Keys that all losses have in a configuration; others are a loss's constructor parameters."""

    loss: str = ""


def loss_class(name: str) -> Any:
    """Return the class of a loss by its name in a configuration; None if unknown.

    The name is one of `LOSSES`, or ``module:Class`` for a user's loss. A user's module must be
    imported already, because reading a configuration imports no user's module.
    """
    if name in LOSSES:
        module, _, attribute = LOSSES[name].partition(":")
        return getattr(import_module(f"neurocontrast.{module}"), attribute)
    module, _, attribute = name.partition(":")
    loss = getattr(sys.modules.get(module), attribute or "-", None)
    if isinstance(loss, type) and hasattr(loss, "parts") and hasattr(loss, "title"):
        return loss
    return None


def loss_model(name: str) -> type[Settings] | None:
    """Return the settings class of loss `name`, derived from the constructor of the loss.

    The result is a pydantic model of the section ``objective``; None for an unknown name.
    """
    loss = loss_class(name)
    if loss is None:
        return None
    return settings_model(loss, LossSettings, key="loss", name=name)


def models_of_losses(*, sums: bool = True) -> dict[str, type[Settings]]:
    """Return the settings class of each loss of this package by name.

    With `sums` False, losses that cannot be part of a sum are left out.
    """
    models: dict[str, type[Settings]] = {}
    for name in LOSSES:
        model = loss_model(name)
        if model is not None and (sums or name not in _ALONE):
            models[name] = model
    return models


def read_objective(section: Any, *, from_json: bool, sums: bool = True) -> Any:
    """Read the section ``objective`` of a configuration as the settings of a loss.

    Parameters
    ----------
    section : mapping or settings
        Section of the configuration; settings are returned unchanged.
    from_json : bool
        Whether the section comes from JSON, in which tuples are lists.
    sums : bool
        True to accept all losses, False to accept only losses that can be part of a sum.
    """
    names = [name for name in LOSSES if sums or name not in _ALONE]

    def find_model(name: str) -> type[Settings] | None:
        if name in names or ":" in name:
            return loss_model(name)
        return None

    return choose(section, "loss", names, find_model, from_json=from_json)


def build_objective(settings: Any) -> Any:
    """Return the loss that `settings`, the section ``objective`` of a configuration, describes."""
    arguments = dict(settings)
    del arguments["loss"]
    if "objectives" in arguments:
        objectives = {}
        for name, inner in arguments["objectives"].items():
            objectives[name] = build_objective(inner)
        arguments["objectives"] = objectives
    return loss_class(settings.loss)(**arguments)


def describe_objective(settings: Any, vectors: Mapping[str, Sequence[str]]) -> Description:
    """Describe the section ``objective`` for readers of ``encoder.json``.

    Parameters
    ----------
    settings : settings
        Section ``objective``.
    vectors : mapping
        Columns that make up a column of vectors, by the vector column's name.

    Returns
    -------
    dict
        Keys of the section, with title and citation of each loss, and with the columns of each
        kernel on vectors.
    """
    described: Description = settings.model_dump(mode="json")
    if "objectives" in described:
        objectives = {}
        for name, inner in settings.objectives.items():
            objectives[name] = describe_objective(inner, vectors)
        described["objectives"] = objectives
        return described
    for factor in [*(described.get("kernel") or ()), *(described.get("negatives") or ())]:
        if factor["column"] in vectors:
            factor["columns"] = list(vectors[factor["column"]])
    loss = loss_class(settings.loss)
    described["title"] = loss.title
    described["citation"] = loss.citation
    return described
