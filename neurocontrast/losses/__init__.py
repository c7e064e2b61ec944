"""Contrastive losses: ``loss(z1, z2, metadata)`` of two views of a batch, a scalar.

Losses are PyTorch modules; ``loss.terms(…)`` returns the named parts that sum to the loss,
``loss.columns`` the metadata columns that the loss reads. ``docs/losses.md`` compares attraction,
repulsion and cost of all losses. Each loss is imported on first use.
"""

from typing import TYPE_CHECKING

from neurocontrast.lazy import lazy_exports
from neurocontrast.losses.registry import LOSSES

if TYPE_CHECKING:
    from neurocontrast.losses.alignment_uniformity import (
        AlignmentUniformity,
        ConditionalAlignment,
        ConditionalAlignmentUniformity,
        ConditionalUniformity,
        GlobalUniformity,
    )
    from neurocontrast.losses.cclk import FairCCLK, HardNegativeCCLK, WeaklySupervisedCCLK
    from neurocontrast.losses.infonce import (
        DebiasedInfoNCE,
        FairInfoNCE,
        HardNegativeInfoNCE,
        InfoNCE,
        NTXent,
    )
    from neurocontrast.losses.objective import Objective
    from neurocontrast.losses.registry import LossSettings
    from neurocontrast.losses.sum import SumOfObjectives
    from neurocontrast.losses.supervised import (
        SINCERE,
        EpsilonSupInfoNCE,
        RankNContrast,
        Supervised,
        Triplet,
    )
    from neurocontrast.losses.yaware import ExponentialYAware, SupCon, YAwareInfoNCE
    from neurocontrast.parallel.collectives import on_this_process_only

_CLASSES: dict[str, str] = {}
for _path in LOSSES.values():
    _module, _name = _path.removeprefix("losses.").split(":")
    _CLASSES[_name] = _module

__all__ = [*_CLASSES, "LossSettings", "Objective", "on_this_process_only"]  # pyright: ignore

_PLACES: dict[str, list[str]] = {}
for _name, _module in _CLASSES.items():
    _PLACES.setdefault(_module, []).append(_name)
_PLACES["objective"] = ["Objective"]
_PLACES["registry"] = ["LossSettings"]
__getattr__ = lazy_exports(__name__, {**_PLACES, ".parallel.collectives": ["on_this_process_only"]})
