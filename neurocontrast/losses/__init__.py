"""Every loss: ``loss(z1, z2, metadata)`` of two views of a batch, a scalar.

All are ``nn.Module``; ``loss.terms(…)`` gives the named parts that sum to the loss,
``loss.columns`` the metadata it needs. See ``docs/losses.md`` for what each pulls, repels and
costs. A loss is imported when it is asked for.
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

_CLASSES = dict(place.removeprefix("losses.").split(":")[::-1] for place in LOSSES.values())

__all__ = [*_CLASSES, "LossSettings", "Objective", "on_this_process_only"]  # pyright: ignore

_PLACES = {
    module: [name for name in _CLASSES if _CLASSES[name] == module] for module in _CLASSES.values()
}
_PLACES["objective"] = ["Objective"]
_PLACES["registry"] = ["LossSettings"]
__getattr__ = lazy_exports(__name__, {**_PLACES, ".parallel.collectives": ["on_this_process_only"]})
