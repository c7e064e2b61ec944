"""Which loss a name in a configuration means; a loss's module is imported when the loss is asked for.

The settings of a loss are part of its class, and a loss is a PyTorch module: to check the section
``objective`` is to import PyTorch. So nothing here is imported until a configuration is read for
training (`neurocontrast.config`).
"""

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

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
"""Losses that are no part of a sum: sums, and what reads the head's outputs as predictions."""


class LossSettings(Settings):
    """Keys that every loss has in a configuration; further keys are its constructor's parameters."""

    loss: str = ""


def loss_class(name: str) -> Any:
    """Return the class of a loss: one of `LOSSES`, or of a module of the user's as ``module:Class``; None if unknown.

    A module of the user's must have been imported by the program already. A configuration never
    makes one be imported.
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
    """Derive the settings of a loss from the constructor of its class; None for an unknown name."""
    loss = loss_class(name)
    if loss is None:
        return None
    return settings_model(loss, LossSettings, key="loss", name=name)


def models_of_losses(*, sums: bool = True) -> dict[str, type[Settings]]:
    """Return the settings of each loss, or of each that may be a part of a sum."""
    models: dict[str, type[Settings]] = {}
    for name in LOSSES:
        model = loss_model(name)
        if model is not None and (sums or name not in _ALONE):
            models[name] = model
    return models


def read_objective(section: Any, *, from_json: bool, sums: bool = True) -> Any:
    """Return the section ``objective`` as the settings of its loss; `sums` says whether it is not within a sum."""
    names = [name for name in LOSSES if sums or name not in _ALONE]

    def find_model(name: str) -> type[Settings] | None:
        if name in names or ":" in name:
            return loss_model(name)
        return None

    return choose(section, "loss", names, find_model, from_json=from_json)


def build_objective(settings: Any) -> Any:
    """Return the loss that the section ``objective`` describes."""
    keys = {name: value for name, value in settings if name != "loss"}
    if "objectives" in keys:
        keys["objectives"] = {
            name: build_objective(each) for name, each in keys["objectives"].items()
        }
    return loss_class(settings.loss)(**keys)


def describe_objective(settings: Any, vectors: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the section ``objective`` with the title and the citation of each loss, for who reads the encoder.

    A kernel on one of the `vectors` says the columns it compares.
    """
    described: dict[str, Any] = settings.model_dump(mode="json")
    if "objectives" in described:
        parts = {
            name: describe_objective(each, vectors) for name, each in settings.objectives.items()
        }
        return {**described, "objectives": parts}
    for factor in [*(described.get("kernel") or ()), *(described.get("negatives") or ())]:
        if factor["column"] in vectors:
            factor["columns"] = list(vectors[factor["column"]])
    found = loss_class(settings.loss)
    return {**described, "title": found.title, "citation": found.citation}
