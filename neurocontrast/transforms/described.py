"""Transforms that a user gives as Python objects: described as text, so that others are told from them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import PurePath
from typing import Any

import monai
import numpy as np
import torch
from monai.transforms import Compose, Randomizable

from neurocontrast.exceptions import DataError
from neurocontrast.files import digest_of
from neurocontrast.transforms.preprocessing import TRANSFORM_VERSION, check_version


@dataclass(frozen=True, eq=False)
class DescribedTransforms:
    """Transforms of a user, which are described by their classes and attributes.

    A cache keeps their images apart by the description. A file names no code: whoever loads the
    contract must have the same transforms at hand.
    """

    transforms: (
        Compose  # from {"image": path} to {"image": MetaTensor (C, D, H, W)}; none of them random
    )
    image_shape: tuple[int, ...]  # of every image they make, (C, D, H, W)

    def contract(self) -> dict[str, Any]:
        """Return the transforms, one description each, with the versions of what they are made of."""
        versions = {"transform_version": TRANSFORM_VERSION, "monai": monai.__version__}
        made = [describe(each) for each in self.transforms.flatten().transforms]
        return {**versions, "image_shape": list(self.image_shape), "transforms": made}

    @classmethod
    def from_contract(
        cls, contract: Mapping[str, Any], given: Compose | None = None
    ) -> DescribedTransforms:
        """Return the `given` transforms, if they are those of what `contract` returned, perhaps a stranger's file."""
        check_version(contract)
        shape = contract.get("image_shape")
        if not (
            isinstance(shape, list)
            and len(shape) == 4
            and all(type(n) is int and n > 0 for n in shape)
        ):
            raise DataError(
                f"preprocessing contract: image_shape must be four whole numbers, found {shape!r}."
            )
        return cls(_as_described(contract.get("transforms"), given), tuple(shape))

    def digest(self) -> str:
        """Return a digest of the contract."""
        return digest_of(
            "transforms", *(f"{key}={value}" for key, value in sorted(self.contract().items()))
        )

    def compose(self) -> Compose:
        """Return the transforms."""
        return self.transforms


def _as_described(described: Any, given: Compose | None) -> Compose:
    """Return the transforms given, if they are those of a description."""
    if not isinstance(described, list):
        raise DataError(
            f"preprocessing contract: transforms must be a list of descriptions, found {described!r}."
        )
    names = [str(each.get("class")) if isinstance(each, dict) else str(each) for each in described]
    if given is None:
        raise DataError(
            f"the images were made by transforms given from Python ({', '.join(names)}), which a file cannot hold. "
            "Give the same ones again: embed(..., transforms=...)."
        )
    found = [describe(each) for each in given.flatten().transforms]
    differing = [
        name for name, one, other in zip(names, described, found, strict=False) if one != other
    ]
    if differing or len(found) != len(described):
        what = (
            f"{differing[0]} has other settings, or is another"
            if differing
            else f"{len(found)} transforms"
        )
        raise DataError(
            f"transforms: must be those of the run ({', '.join(names)}), and {what}. Give the same ones, in the same "
            "order."
        )
    return given


def describe(what: Any, _around: tuple[int, ...] = ()) -> Any:
    """Return an object as JSON: its class and its attributes, down to numbers and text.

    Two transforms have the same description when they are of one class and were made with the same
    settings. What a class of one's own does is not looked at: raise a version among its attributes
    when its code changes.
    """
    if what is None or isinstance(what, bool | int | str):
        return what
    if isinstance(
        what,
        float | complex | np.generic | torch.dtype | torch.device | np.dtype | PurePath | range,
    ):
        return (
            f"{type(what).__name__}: {what!r}"
            if not isinstance(what, float) or what != what
            else what
        )
    if isinstance(what, Enum):
        return f"{type(what).__qualname__}.{what.name}"
    if id(what) in _around:
        return "itself"
    around = (*_around, id(what))
    if isinstance(what, torch.Tensor | np.ndarray):
        array = np.ascontiguousarray(
            what.detach().cpu().numpy() if isinstance(what, torch.Tensor) else what
        )
        return {
            "array": digest_of("array", str(array.dtype), str(array.shape), array.tobytes().hex())
        }
    if isinstance(what, Compose):
        return [describe(each, around) for each in what.flatten().transforms]
    if isinstance(what, Mapping):
        return {str(key): describe(value, around) for key, value in what.items()}
    if isinstance(what, list | tuple | set | frozenset):
        found = [describe(value, around) for value in what]
        return sorted(found, key=str) if isinstance(what, set | frozenset) else found
    if inspect.isroutine(what) or inspect.isclass(what):
        return _name(what)
    if not hasattr(what, "__dict__"):
        raise DataError(
            f"a {type(what).__name__} has no description, so that a cache could not tell it from another."
        )
    # What was drawn last is no setting, nor what MONAI adds at the first call: whether a thread is
    # traced.
    left_out = ("_tracing", *(("R", "_do_transform") if isinstance(what, Randomizable) else ()))
    state = {
        key: describe(value, around)
        for key, value in sorted(vars(what).items())
        if key not in left_out
    }
    return {"class": _name(type(what)), **state}


def _name(what: Any) -> str:
    name = f"{getattr(what, '__module__', '')}.{what.__qualname__}"
    if "<" in name:
        raise DataError(
            f"'{name}' has no name of its own, so that its results, which are kept on the disk, could not be told from "
            "another's. Make it a function or a class of a module."
        )
    return name
