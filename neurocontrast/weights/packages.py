"""Find weights in installed packages, by entry points of the group ``neurocontrast.weights``.

The name of an entry point is the name of the weights, and the entry point's value is the package
whose folder holds the weights. No code of the package is run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from neurocontrast.exceptions import said
from neurocontrast.reading import DAMAGE

GROUP = "neurocontrast.weights"
CARD = "README.md"
FILES = ("encoder.json", "members.json")
"""Files, one of which a folder of weights has: of one encoder, or of several (members)."""
_ENTRIES = "entry_points.txt"


@dataclass(frozen=True)
class Source:
    """Origin of weights: the package that brings the weights, their folder, and any problem."""

    name: str
    """Name of the weights."""
    origin: str
    """Package with its version, such as ``neurocontrast-weights-measures 1.0``."""
    folder: Path | None
    """Folder of the weights; None if the package has no folder."""
    problem: str = ""
    """Reason why the weights cannot be used; "" for usable weights."""


def sources_of_packages() -> Iterator[Source]:
    """Yield a `Source` for each of the weights in installed packages.

    If weights are damaged, the `Source` says so in its `problem`. A package whose entry points
    cannot be read has one `Source`, with a problem.
    """
    seen = set[str]()
    for distribution in metadata.distributions():
        if GROUP not in (distribution.read_text(_ENTRIES) or ""):
            continue
        about = distribution.metadata.json
        title = str(about.get("name", "a package without a name"))
        label = re.sub(r"[-_.]+", "-", title).lower()
        if label in seen:  # behind another on the path of modules, as it is to Python
            continue
        seen.add(label)
        origin = f"{title} {about.get('version', '')}".strip()
        try:
            entries = distribution.entry_points.select(group=GROUP)
        except DAMAGE as error:
            problem = f"its {_ENTRIES} cannot be read ({said(error)})"
            yield Source(title, origin, None, f"{origin}: {problem}. Install it again.")
            continue
        for entry in entries:
            yield _source_of(entry.name, entry.value, origin)


def _source_of(name: str, value: str, origin: str) -> Source:
    """Find the folder of weights that an entry point names, and any problem with the folder.

    `name` and `value` are the entry point's, and `origin` is the package with its version.
    """
    folder = _folder_of_package(value)
    if folder is None:
        problem = f"the entry point '{name}' names '{value}', which is no package with a folder"
        return Source(name, origin, None, f"{origin}: {problem}. Install it again.")
    problem = problem_of_folder(folder)
    if problem:
        problem = f"{origin}: {problem}. Install it again."
    return Source(name, origin, folder, problem)


def _folder_of_package(value: str) -> Path | None:
    """Return the folder of a package, without importing the package; None if there is none.

    `value` is the package's name with dots, as an entry point gives the name.
    """
    top, *below = value.split(".")
    if not top.isidentifier():
        return None
    try:
        spec = find_spec(top)
    except (ImportError, AttributeError, ValueError):
        return None
    if spec is None:
        return None
    for location in spec.submodule_search_locations or ():
        folder = Path(location).joinpath(*below)
        if folder.is_dir():
            return folder
    return None


def problem_of_folder(folder: Path) -> str:
    """Return a text on the first file that a folder of weights lacks; "" for a complete folder.

    The text, part of a message, names the folder and the file.
    """
    if not (folder / CARD).is_file():
        return f"{folder} has no card, {CARD}"
    if not any(map(Path.is_file, map(folder.joinpath, FILES))):
        return f"{folder} has neither {FILES[0]} nor {FILES[1]}"
    return ""
