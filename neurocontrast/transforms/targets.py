"""Build transforms from a description in a YAML or JSON file, without running code that the file chooses.

A description is a list of ``{"_target_": "monai.transforms.RandFlipd", "keys": ["image"], "prob": 0.5}``, as
`monai.bundle.ConfigParser` reads them. A run folder may come from a stranger, so only classes of ``monai.transforms``
and ``neurocontrast.transforms`` are built, and of those none that calls what its arguments name or that writes files.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator, Mapping
from typing import Any

from monai.bundle import ConfigParser
from monai.transforms import Compose, Transform

from neurocontrast.exceptions import ConfigError, suggestion
from neurocontrast.transforms.description import TARGET, Description, problems_of

__all__ = ["REFUSED", "build_transforms"]

_MODULES = ("monai.transforms", "neurocontrast.transforms")
REFUSED = {
    **dict.fromkeys(
        ("Lambda", "Lambdad", "RandLambda", "RandLambdad", "Ensembled", "Transform", "MapTransform"),
        "runs a function of its own",
    ),
    **dict.fromkeys(
        (
            *("TorchVision", "TorchVisiond", "RandTorchVision", "RandTorchVisiond", "TorchIO", "TorchIOd"),
            *("RandTorchIO", "RandTorchIOd", "CuCIM", "CuCIMd", "RandCuCIM", "RandCuCIMd"),
        ),
        "calls whatever its argument `name` names in another package",
    ),
    **dict.fromkeys(
        ("SaveImage", "SaveImaged", "SaveClassificationd", "WriteFileMapping", "WriteFileMappingd"), "writes files"
    ),
}
"""Transforms that no file may ask for, by name, and why; from Python they can be used."""

_READERS = ("NibabelReader", "NumpyReader", "ITKReader", "NrrdReader", "PydicomReader")


def build_transforms(description: Description, *, source: str) -> Compose:
    """Build a `monai.transforms.Compose` from a description.

    Parameters
    ----------
    description : list of mapping
        One mapping a transform: the class as ``_target_``, its arguments as the other keys. Values are plain data;
        a nested mapping with a ``_target_`` is a transform too.
    source : str
        Where the description comes from, for messages: a file or a key.

    Returns
    -------
    monai.transforms.Compose

    Raises
    ------
    ConfigError
        Naming the place: for a class outside ``monai.transforms`` and ``neurocontrast.transforms``, for one of
        `REFUSED`, for text that MONAI's parser would evaluate, and for arguments that the class does not take.

    Examples
    --------
    >>> flips = [{"_target_": "monai.transforms.RandFlipd", "keys": ["image"], "prob": 0.5, "spatial_axis": 0}]
    >>> len(build_transforms(flips, source="augment.transforms"))
    1
    """
    steps = [dict(step) for step in description]
    # Names are resolved only in a description of sound form.
    problems = problems_of(steps) or [
        each for number, step in enumerate(steps) for each in _unknown(step, f"[{number}]")
    ]
    if problems:
        raise ConfigError("\n".join(f"{source}{problem}." for problem in problems))
    return _compose(steps, source)


def _compose(steps: list[dict[str, Any]], source: str) -> Compose:
    built = []
    for number, step in enumerate(steps):
        try:
            built.append(ConfigParser({"step": _with_full_names(step)}).get_parsed_content("step"))
        except Exception as error:  # a class may refuse its arguments with any exception
            cause = error.__cause__ or error
            raise ConfigError(f"{source}[{number}]: {step[TARGET]} cannot be built: {cause}") from error
    return Compose(built)


def _unknown(value: Any, place: str) -> Iterator[str]:
    """Yield which transforms of a description are refused or do not exist, at any depth."""
    if isinstance(value, Mapping):
        if TARGET in value:
            yield from _refusal(value, place)
        for key, each in value.items():
            yield from _unknown(each, f"{place}.{key}")
    elif isinstance(value, list | tuple):
        for number, each in enumerate(value):
            yield from _unknown(each, f"{place}[{number}]")


def _refusal(step: Mapping[str, Any], place: str) -> Iterator[str]:
    target = str(step[TARGET])
    module, _, name = target.rpartition(".")
    if module not in _MODULES:
        yield (
            f"{place}.{TARGET}: '{target}' is refused: a file may ask only for classes of {' and '.join(_MODULES)}, "
            "written in full. Anything else can be given from Python (transforms=…, augment=…)"
        )
        return
    known = _classes_of(module)
    if name not in known:
        yield f"{place}.{TARGET}: {module} has no transform '{name}'.{suggestion(name, known)}".rstrip(".")
        return
    own_name = known[name].__name__
    if own_name in REFUSED:
        yield f"{place}.{TARGET}: '{target}' is refused: it {REFUSED[own_name]}. From Python it can be used"
        return
    reader = step.get("reader")
    if reader is not None and reader not in _READERS:
        yield f"{place}.reader: {reader!r} is refused; leave it out, or use one of {', '.join(_READERS)}"


def _classes_of(module: str) -> dict[str, type]:
    """Return the transforms that a module exports, by every name they have there."""
    found = importlib.import_module(module)
    names = getattr(found, "__all__", None) or [name for name in dir(found) if not name.startswith("_")]
    exported = {name: getattr(found, name, None) for name in names}
    return {name: each for name, each in exported.items() if inspect.isclass(each) and issubclass(each, Transform)}


def _with_full_names(value: Any) -> Any:
    """Return a copy of a description whose targets are found where they are defined; tuples become lists."""
    if isinstance(value, Mapping):
        made = {key: _with_full_names(each) for key, each in value.items()}
        if TARGET in made:
            module, _, name = str(made[TARGET]).rpartition(".")
            found = _classes_of(module)[name]
            made[TARGET] = f"{found.__module__}.{found.__name__}"
        return made
    return [_with_full_names(each) for each in value] if isinstance(value, list | tuple) else value
