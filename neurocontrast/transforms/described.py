"""Check by descriptions that a user's own transforms are the ones an encoder was trained with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import monai
from monai.transforms import Compose

from neurocontrast.exceptions import DataError
from neurocontrast.files import ScanFiles, digest_of, files_of
from neurocontrast.progress import warn_caller
from neurocontrast.transforms.attributes import describe_path
from neurocontrast.transforms.comparing import differences_of, is_same, paths_within, texts_of
from neurocontrast.transforms.describing import Description, describe
from neurocontrast.transforms.images import apply
from neurocontrast.transforms.preprocessing import TRANSFORM_VERSION, check_version

_KEEPS_STATE = (
    "A transform whose results are kept on the disk has settings alone, the same after every scan, "
    "and none of them names a scan. Set the attribute in the constructor, or leave its name out of "
    "the class's __getstate__."
)


@dataclass(frozen=True, eq=False)
class DescribedTransforms:
    """A user's own MONAI transforms, which are recognised by a description of classes and settings.

    The description tells apart cached images of different transforms. An encoder's file holds the
    description but no code: whoever loads the encoder must give the same transforms from Python.
    """

    transforms: Compose
    """Transforms from {"image": path} to {"image": MetaTensor (C, D, H, W)}, without randomness."""
    image_shape: tuple[int, ...]
    """Shape of a transformed image, (C, D, H, W)."""

    def contract(self) -> dict[str, object]:
        """Return the section ``preprocessing`` of ``encoder.json``: descriptions of the transforms.

        The versions of MONAI and of this package's transforms, and the image shape, are keys too.
        """
        versions = {"transform_version": TRANSFORM_VERSION, "monai": monai.__version__}
        descriptions = _describe_all(self.transforms)
        return {**versions, "image_shape": list(self.image_shape), "transforms": descriptions}

    @classmethod
    def from_contract(
        cls, contract: Mapping[str, object], transforms: Compose | None = None
    ) -> DescribedTransforms:
        """Return `transforms` with the image shape of an encoder, as `DescribedTransforms`.

        `contract` is the section ``preprocessing`` of ``encoder.json``, with the image shape and
        descriptions of the transforms that the encoder was trained with. A DataError refuses
        transforms that differ from the descriptions.
        """
        check_version(contract)
        shape = contract.get("image_shape")
        if not isinstance(shape, list) or len(shape) != 4 or not all(map(_is_length, shape)):
            raise DataError(
                f"preprocessing contract: image_shape must be four whole numbers, found {shape!r}."
            )
        return cls(_as_described(contract.get("transforms"), transforms), tuple(shape))

    def digest(self) -> str:
        """Return a digest of the description, by which a cache finds the transforms' images."""
        settings = [f"{key}={value}" for key, value in sorted(self.contract().items())]
        return digest_of("transforms", *settings)

    def compose(self) -> Compose:
        """Return the user's transforms as the `Compose` that was given."""
        return self.transforms


def apply_described(transforms: Compose, scan: ScanFiles) -> dict[str, object]:
    """Return the dictionary that a user's transforms make of a scan, checked for caching.

    A DataError refuses transforms whose description changes from call to call, or contains the
    scan's path: a cache could not recognise them.
    """
    before = _describe_all(transforms)
    item = apply(transforms, {"image": scan})
    after = _describe_all(transforms)
    files = files_of(scan)
    digests = list(map(describe_path, files))
    problems = []
    for transform, old, new in zip(transforms.transforms, before, after, strict=True):
        name = type(transform).__name__
        for path in differences_of(old, new):
            problems.append(f"{name}: {path} is another after a scan")
        texts = "\n".join(texts_of(new))
        is_named = any(map(texts.__contains__, files))
        if is_named or any(map(digests.__contains__, paths_within(new))):
            problems.append(f"{name} holds the path of the scan")
    if problems:
        raise DataError(f"transforms: {'; '.join(problems)}. {_KEEPS_STATE}")
    return item


def _is_length(value: object) -> bool:
    """Tell whether a value stored in ``encoder.json`` is a whole number above 0.

    The lengths of an image's axes must be such numbers.
    """
    return type(value) is int and value > 0


def _describe_all(transforms: Compose) -> list[Description]:
    """Return the description of each transform in a `Compose`, in order, nested ones included."""
    return list(map(describe, transforms.flatten().transforms))


def _as_described(described: Any, transforms: Compose | None) -> Compose:
    """Return a user's `transforms` if they fit `described`, the descriptions in ``encoder.json``.

    A DataError refuses other transforms, None, and descriptions that are no list.
    """
    if not isinstance(described, list):
        raise DataError(
            "preprocessing contract: transforms must be a list of descriptions, found "
            f"{described!r}."
        )
    names = list(map(_class_of, described))
    if transforms is None:
        raise DataError(
            f"the images were made by transforms given from Python ({', '.join(names)}), which a "
            "file cannot hold. Give the same ones again: embed(..., transforms=...)."
        )
    _check_same(names, described, _describe_all(transforms))
    return transforms


def _class_of(description: Any) -> str:
    """Return the class name in the stored description of one transform, for messages."""
    if isinstance(description, dict):
        return str(description.get("class", description.get("method")))
    return str(description)


def _check_same(
    names: Sequence[str], stored: Sequence[Any], current: Sequence[Description]
) -> None:
    """Raise a DataError if `current` descriptions of transforms differ from `stored` ones.

    `names` are class names of the stored transforms. A warning names transforms of which too little
    is stored to compare.
    """
    problem = ""
    if len(current) != len(stored):
        problem = f"{len(current)} transforms"
    unknown = []
    for name, old, new in zip(names, stored, current, strict=False):
        same = is_same(old, new)
        if same is None:
            unknown.append(name)
        elif not same:
            problem = f"{name} has other settings, or is another"
            break
    if problem:
        raise DataError(
            f"transforms: must be those of the run ({', '.join(names)}), and {problem}. "
            "Give the same ones, in the same order."
        )
    if unknown:
        warn_caller(
            f"transforms: {', '.join(unknown)}: the run was written by a version that recorded no "
            "settings of partial functions, bound methods and containers of other classes, so "
            "whether they are the run's cannot be checked. See to it yourself."
        )
