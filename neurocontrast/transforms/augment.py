"""The section ``augment:`` of brains: which operations make a view, how often and how strongly."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

from pydantic import create_model

from neurocontrast.transforms.description import Replaceable
from neurocontrast.transforms.operation import OPERATIONS, operation_called

_ON_BY_DEFAULT: dict[str, dict[str, Any]] = {
    "blur": {"sigma_voxels": (0.1, 0.5)},
    "noise": {"sigma": (0.05, 0.2)},
    "cutout": {},
}
_REFERENCE = ("flip", "blur", "noise", "cutout", "crop")


def _fields() -> dict[str, Any]:
    made = {}
    for name in OPERATIONS:
        operation = operation_called(name)
        default = operation(**_ON_BY_DEFAULT[name]) if name in _ON_BY_DEFAULT else None
        made[name] = (operation | None, default)
    return made


_Operations: Any = create_model("_Operations", __base__=Replaceable, __module__=__name__, **_fields())


class AugmentSettings(_Operations):
    """What turns a volume into a view: flip, then what differs between sites, then the rest, in the order below.

    An operation that is null is off. Each operation's own defaults are the reference protocol's (Dufumier et al.,
    2021); which are on by default was chosen by evidence: the crop changes the size of the brain and strong noise hides
    thin atrophy, both of which carry what is to be learnt.

    Parameters
    ----------
    flip, blur, noise, cutout, crop : settings or None
        Probability and ranges of each operation.
    affine, contrast, bias_field, sharpness, rician : settings or None
        The same for operations that imitate another scanner; off by default, applied between flip and blur.
    tight_mask, mask_edge : settings or None
        The same for other ways to extract the brain.
    synthesise : settings or None
        Shows the maps of tissue of `data.maps` in random contrasts in place of the scan; off by default, applied first.
    tissue_shift : settings or None
        The same for maps of tissue, as another scanner or segmentation makes them; off by default, applied before blur.
    transforms : list of mapping or None
        Random transforms of MONAI or of this package, each a mapping with a ``_target_``, in place of the operations
        (`neurocontrast.transforms.build_transforms`). ``[{_target_: python}]`` means transforms given as objects.

    Examples
    --------
    >>> from neurocontrast.transforms import AugmentSettings
    >>> AugmentSettings(flip={"axes": [0]}, noise=None).flip
    Flip(probability=0.5, axes=(0,))
    """

    section: ClassVar[str] = "augment"
    kind: ClassVar[Literal["volumes"]] = "volumes"

    @classmethod
    def reference(cls) -> Self:
        """Return the published protocol: all five operations, each half of the time.

        The released code draws a flip's axis among four, the channel's included, so that a quarter of its flips do
        nothing; here every flip is one.
        """
        return cls(**{name: {} for name in _REFERENCE})

    @classmethod
    def sites(cls) -> Self:
        """Return every operation that imitates another site, at its defaults, and the cutout.

        Blur and noise are left out: sharpness and Rician noise take their places.
        """
        at_scanner = [name for name in OPERATIONS if operation_called(name).stage == "scanner"]
        return cls(**{"blur": None, "noise": None}, **{name: {} for name in at_scanner})

    @classmethod
    def off(cls) -> Self:
        """Return settings under which a view is the volume itself."""
        return cls(**dict.fromkeys(_REFERENCE))
