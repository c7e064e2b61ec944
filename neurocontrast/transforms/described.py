"""Transforms as plain text: built from a description without running code that a file chooses, and compared.

A run folder may come from a stranger, so only classes of ``neurocontrast.transforms`` and a list of those of
``monai.transforms`` are built.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from pathlib import PurePath
from typing import Any

import monai
import numpy as np
import torch
from monai.transforms import Compose, Randomizable, Transform

from neurocontrast.exceptions import ConfigError, DataError, suggestion
from neurocontrast.files import digest_of
from neurocontrast.transforms.description import TARGET, Description, each_part, problems_of
from neurocontrast.transforms.preprocessing import TRANSFORM_VERSION, check_version

_MODULES = ("monai.transforms", "neurocontrast.transforms")
_READERS = ("NibabelReader", "NumpyReader", "ITKReader", "NrrdReader", "PydicomReader")
_NAMES = """
    AdjustContrastd Affined BorderPadd CastToTyped CenterScaleCropd CenterSpatialCropd ClipIntensityPercentilesd
    Compose CropForegroundd DeleteItemsd DivisiblePadd EnsureChannelFirstd EnsureTyped FillHolesd Flipd
    GaussianSharpend GaussianSmoothd GibbsNoised HistogramNormalized Identityd KSpaceSpikeNoised
    KeepLargestConnectedComponentd LoadImaged MapLabelValued MaskIntensityd MedianSmoothd NormalizeIntensityd
    OneOf Orientationd Rand3DElasticd RandAdjustContrastd RandAffined RandAxisFlipd RandBiasFieldd
    RandCoarseDropoutd RandCoarseShuffled RandFlipd RandGaussianNoised RandGaussianSharpend RandGaussianSmoothd
    RandGibbsNoised RandGridDistortiond RandHistogramShiftd RandKSpaceSpikeNoised RandRicianNoised RandRotate90d
    RandRotated RandScaleCropd RandScaleIntensityFixedMeand RandScaleIntensityd RandShiftIntensityd
    RandSimulateLowResolutiond RandSmoothDeformd RandSmoothFieldAdjustContrastd RandSmoothFieldAdjustIntensityd
    RandSpatialCropd RandStdShiftIntensityd RandZoomd RandomOrder RemoveSmallObjectsd ResizeWithPadOrCropd
    Resized Rotate90d Rotated ScaleIntensityRangePercentilesd ScaleIntensityRanged ScaleIntensityd SelectItemsd
    ShiftIntensityd SomeOf Spacingd SpatialCropd SpatialPadd SqueezeDimd StdShiftIntensityd ThresholdIntensityd
    ToMetaTensord ToTensord Zoomd
"""
ALLOWED = frozenset(_NAMES.split())
"""Transforms of MONAI that a file may name: they work on images in memory, and neither wait, call nor write."""


def build_transforms(description: Description, *, source: str) -> Compose:
    """Build a `monai.transforms.Compose` from a description.

    A ConfigError names the place of a class that is not allowed, of text that MONAI's parser would evaluate, and of
    arguments that a class refuses.

    Parameters
    ----------
    description : list of mapping
        One mapping a transform: the class as ``_target_``, its arguments as the other keys. Values are plain data;
        a nested mapping with a ``_target_`` is a transform too.
    source : str
        Where the description comes from, for messages: a file or a key.

    Examples
    --------
    >>> flips = [{"_target_": "monai.transforms.RandFlipd", "keys": ["image"], "prob": 0.5, "spatial_axis": 0}]
    >>> len(build_transforms(flips, source="augment.transforms"))
    1
    """
    steps = [dict(step) for step in description]
    problems = problems_of(steps)
    if not problems:  # names are looked up only in a description of sound form
        parts = [(place, part) for place, part in each_part(steps) if isinstance(part, Mapping) and TARGET in part]
        problems = [refusal for place, part in parts if (refusal := _refusal(part, place))]
    if problems:
        raise ConfigError("\n".join(f"{source}{problem}." for problem in problems))
    made = []
    for number, step in enumerate(steps):
        try:
            made.append(_built(step))
        except Exception as error:  # a class may refuse its arguments with any exception
            raise ConfigError(f"{source}[{number}]: {step[TARGET]} cannot be built: {error}") from error
    return Compose(made)


def _refusal(step: Mapping[str, Any], place: str) -> str:
    """Return why a transform is refused, or ""."""
    target = str(step[TARGET])
    module, _, name = target.rpartition(".")
    if module not in _MODULES:
        return (
            f"{place}.{TARGET}: '{target}' is refused: a file may ask only for classes of {' and '.join(_MODULES)}, "
            "written in full. Anything else can be given from Python (transforms=…, augment=…)"
        )
    allowed = ALLOWED if module == _MODULES[0] else import_module(module).__all__
    if name not in allowed or not _is_transform(transform_class(target)):
        return (
            f"{place}.{TARGET}: '{target}' is refused: it is not among the transforms that a file may name "
            f'(docs/data.md, "Transforms that a file may name"). From Python it can be used.{suggestion(name, allowed)}'
        ).rstrip(".")
    if step.get("reader") not in (None, *_READERS):
        return f"{place}.reader: {step['reader']!r} is refused; leave it out, or use one of {', '.join(_READERS)}"
    return ""


def transform_class(target: str) -> Any:
    """Return the class of a transform that `build_transforms` has accepted."""
    module, _, name = target.rpartition(".")
    return getattr(import_module(module), name)


def _is_transform(found: Any) -> bool:
    return inspect.isclass(found) and issubclass(found, Transform)


def _built(value: Any) -> Any:
    """Return a description with transforms in the place of mappings that name one; tuples become lists."""
    if isinstance(value, Mapping):
        made = {key: _built(each) for key, each in value.items() if key != TARGET}
        if TARGET not in value:
            return made
        return transform_class(str(value[TARGET]))(**made)
    return [_built(each) for each in value] if isinstance(value, list | tuple) else value


@dataclass(frozen=True, eq=False)
class DescribedTransforms:
    """Transforms of a user, which a cache keeps apart by the description of each.

    Transforms without the `targets` that they were built from (`build_transforms`) are described by their attributes,
    and whoever loads the contract must have the same transforms at hand.
    """

    transforms: Compose  # from {"image": path} to {"image": MetaTensor (C, D, H, W)}; none of them random
    image_shape: tuple[int, ...]  # of every image they make, (C, D, H, W)
    targets: Description | None = None

    def contract(self) -> dict[str, Any]:
        """Return the transforms, one description each, with the versions of what they are made of."""
        if self.targets is None:
            made = {"transforms": [describe(each) for each in self.transforms.flatten().transforms]}
        else:
            made = {"targets": [dict(target) for target in self.targets]}
        versions = {"transform_version": TRANSFORM_VERSION, "monai": monai.__version__}
        return {**versions, "image_shape": list(self.image_shape), **made}

    @classmethod
    def from_contract(cls, contract: Mapping[str, Any], given: Compose | None = None) -> DescribedTransforms:
        """Return the transforms of what `contract` returned, perhaps from a file of a stranger.

        The transforms themselves must be `given` where the contract has no targets to build them from.
        """
        check_version(contract)
        shape, targets = contract.get("image_shape"), contract.get("targets")
        if not (isinstance(shape, list) and len(shape) == 4 and all(type(n) is int and n > 0 for n in shape)):
            raise DataError(f"preprocessing contract: image_shape must be four whole numbers, found {shape!r}.")
        if targets is None:
            return cls(_as_described(contract.get("transforms"), given), tuple(shape))
        if not (isinstance(targets, list) and targets and all(isinstance(each, dict) for each in targets)):
            raise DataError(f"preprocessing contract: targets must be a list of mappings, found {targets!r}.")
        return cls(build_transforms(targets, source="preprocessing.targets"), tuple(shape), targets)

    def digest(self) -> str:
        """Return a digest of the contract."""
        return digest_of("transforms", *(f"{key}={value}" for key, value in sorted(self.contract().items())))

    def compose(self) -> Compose:
        """Return the transforms."""
        return self.transforms


def _as_described(described: Any, given: Compose | None) -> Compose:
    """Return the transforms given, if they are those of a description."""
    if not isinstance(described, list):
        raise DataError("preprocessing contract: has neither targets nor transforms. Copy the run again.")
    names = [str(each.get("class")) if isinstance(each, dict) else str(each) for each in described]
    if given is None:
        raise DataError(
            f"the images were made by transforms given from Python ({', '.join(names)}), which a file cannot hold. "
            "Give the same ones again: embed(..., transforms=...)."
        )
    found = [describe(each) for each in given.flatten().transforms]
    differing = [name for name, one, other in zip(names, described, found, strict=False) if one != other]
    if differing or len(found) != len(described):
        what = f"{differing[0]} has other settings, or is another" if differing else f"{len(found)} transforms"
        raise DataError(
            f"transforms: must be those of the run ({', '.join(names)}), and {what}. Give the same ones, in the same "
            "order."
        )
    return given


def describe(what: Any, _around: tuple[int, ...] = ()) -> Any:
    """Return an object as JSON: its class and its attributes, down to numbers and text.

    Two transforms have the same description when they are of one class and were made with the same settings. What a
    class of one's own does is not looked at: raise a version among its attributes when its code changes.
    """
    if what is None or isinstance(what, bool | int | str):
        return what
    if isinstance(what, float | complex | np.generic | torch.dtype | torch.device | np.dtype | PurePath | range):
        return f"{type(what).__name__}: {what!r}" if not isinstance(what, float) or what != what else what
    if isinstance(what, Enum):
        return f"{type(what).__qualname__}.{what.name}"
    if id(what) in _around:
        return "itself"
    around = (*_around, id(what))
    if isinstance(what, torch.Tensor | np.ndarray):
        array = np.ascontiguousarray(what.detach().cpu().numpy() if isinstance(what, torch.Tensor) else what)
        return {"array": digest_of("array", str(array.dtype), str(array.shape), array.tobytes().hex())}
    if isinstance(what, Compose):
        return [describe(each, around) for each in what.flatten().transforms]
    if isinstance(what, Mapping):
        return {str(key): describe(value, around) for key, value in what.items()}
    if isinstance(what, list | tuple | set | frozenset):
        found = [describe(value, around) for value in what]
        return sorted(found, key=str) if isinstance(what, set | frozenset) else found
    if inspect.isroutine(what) or inspect.isclass(what):
        return _name(what)
    return {"class": _name(type(what)), **{key: describe(value, around) for key, value in _state(what).items()}}


def _state(what: Any) -> Mapping[str, Any]:
    if not hasattr(what, "__dict__"):
        raise DataError(f"a {type(what).__name__} has no description, so that a cache could not tell it from another.")
    # What was drawn last is no setting, nor what MONAI adds at the first call: whether a thread is traced.
    drawn = ("R", "_do_transform") if isinstance(what, Randomizable) else ()
    return {name: value for name, value in sorted(vars(what).items()) if name not in (*drawn, "_tracing")}


def _name(what: Any) -> str:
    name = f"{getattr(what, '__module__', '')}.{what.__qualname__}"
    if "<" in name:
        raise DataError(
            f"'{name}' has no name of its own, so that its results, which are kept on the disk, could not be told from "
            "another's. Make it a function or a class of a module."
        )
    return name
