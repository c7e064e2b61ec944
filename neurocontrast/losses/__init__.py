"""Every loss of the house: ``loss(z1, z2, metadata)`` of two views of a batch, a scalar.

All are ``nn.Module``; ``loss.terms(…)`` gives the named parts that sum to the loss, ``loss.columns`` the metadata it
needs. See ``docs/losses.md`` for what each pulls, repels and costs.
"""

from neurocontrast.collectives import on_this_process_only
from neurocontrast.losses.clusters import add_clusters
from neurocontrast.losses.combined import SumOfObjectives
from neurocontrast.losses.conditional import FairCCLK, HardNegativeCCLK, WeaklySupervisedCCLK
from neurocontrast.losses.infonce import InfoNCE, NTXent
from neurocontrast.losses.negatives import DebiasedInfoNCE, FairInfoNCE, HardNegativeInfoNCE
from neurocontrast.losses.objective import Objective
from neurocontrast.losses.supervised import SINCERE, EpsilonSupInfoNCE, SupCon
from neurocontrast.losses.triplet import Triplet
from neurocontrast.losses.uniformity import AlignmentUniformity, ConditionalAlignmentUniformity, ConditionalUniformity
from neurocontrast.losses.yaware import ConditionalAlignment, GlobalUniformity, YAwareInfoNCE

__all__ = [
    "SINCERE",
    "AlignmentUniformity",
    "ConditionalAlignment",
    "ConditionalAlignmentUniformity",
    "ConditionalUniformity",
    "DebiasedInfoNCE",
    "EpsilonSupInfoNCE",
    "FairCCLK",
    "FairInfoNCE",
    "GlobalUniformity",
    "HardNegativeCCLK",
    "HardNegativeInfoNCE",
    "InfoNCE",
    "NTXent",
    "Objective",
    "SumOfObjectives",
    "SupCon",
    "Triplet",
    "WeaklySupervisedCCLK",
    "YAwareInfoNCE",
    "add_clusters",
    "on_this_process_only",
]
