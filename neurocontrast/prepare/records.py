"""What a prepared scan was made from, in a record beside its images, and whether these are as they were written."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from neurocontrast.exceptions import DataError
from neurocontrast.files import digest_of, digest_of_file, write_json
from neurocontrast.provenance import version
from neurocontrast.reading import check_place, problem_of_place, read_json

__all__ = [
    "IMAGES",
    "MOST_IMITATIONS",
    "Found",
    "PrepareOptions",
    "files_of_scan",
    "forget",
    "imitated_stem",
    "look_up",
    "missing_imitations",
    "recipe_of",
    "write_record",
]

RECIPE = 3
"""Raised when the same options give other images, or other measures of them."""
MOST_IMITATIONS = 20
IMAGES = ("brain", "gm", "wm", "csf")
_PACKAGES = ("SimpleITK", "nilearn", "deepbet")


@dataclass(frozen=True)
class PrepareOptions:
    """What is done to each scan.

    Parameters
    ----------
    spacing_mm : float
        Voxel size of the results.
    bias : bool
        Whether the bias field is corrected by N4.
    tissue : bool
        Whether tissue maps are made.
    extraction : {"deepbet", "template"}
        How the brain is found in a head.
    quasiraw : bool
        Whether it is done as for OpenBHB's quasi-raw images: a map without shears, resampled by splines to their grid.
    registration : bool
        Whether scans are registered; otherwise their headers place them in MNI152 already.
    imitations : int
        Imitated acquisitions of each brain, whose brains and tissue maps are written too.
    """

    spacing_mm: float = 1.5
    bias: bool = True
    tissue: bool = True
    extraction: str = "deepbet"
    quasiraw: bool = False
    registration: bool = True
    imitations: int = 0


@dataclass(frozen=True)
class Found:
    """What an earlier call left of a scan.

    Parameters
    ----------
    inputs : list of dict
        The image, and the mask where there is one: path below the root, a digest of the whole path, size and SHA-256.
    facts : dict, optional
        Measures, where the scan was prepared from the same files by the same recipe and is still there.
    lacks : bool
        Whether imitations are to be made.
    again : str
        What was found instead, for a user to know why the scan is prepared again.
    other : str
        What is there was made of: a file of another place and another content.
    problem : str
        Why the scan cannot be prepared.
    """

    inputs: list[dict[str, Any]]
    facts: dict[str, Any] | None = None
    lacks: bool = False
    again: str = ""
    other: str = ""
    problem: str = ""


def recipe_of(options: PrepareOptions) -> dict[str, Any]:
    """Return what decides how images are made, by its names: options and versions of the code."""
    # Imitations are made of what is prepared, and have records of their own: to add some prepares nothing again.
    chosen = {name: value for name, value in asdict(options).items() if name != "imitations"}
    used = [name for name in _PACKAGES if name != "deepbet" or options.extraction == "deepbet"]
    return {"recipe": RECIPE, "options": chosen, "code": {"neurocontrast": version()} | _versions(used)}


def _versions(packages: Sequence[str]) -> dict[str, str]:
    there = {name: list(metadata.distributions(name=name)) for name in packages}
    return {name: found[0].version if found else "none" for name, found in there.items()}


def imitated_stem(stem: str, number: int) -> str:
    """Return how the files of an imitated acquisition of a scan are called, counted from 1."""
    return f"{stem}_acq-imitated{number}"


def files_of_scan(stem: str, options: PrepareOptions | None = None) -> list[str]:
    """Return the names of the images of a scan by its options, by default of all that it can have."""
    made = IMAGES if options is None or options.tissue else IMAGES[:1]
    return [f"{stem}_{name}.nii.gz" for name in made]


def forget(folder: Path, stem: str) -> None:
    """Remove what is there of a scan and its imitations before it is made again: all records, then the images."""
    stems = [stem, *(imitated_stem(stem, number) for number in range(1, MOST_IMITATIONS + 1))]
    for name in [f"{each}.json" for each in stems] + [name for each in stems for name in files_of_scan(each)]:
        (folder / name).unlink(missing_ok=True)


def write_record(folder: Path, stem: str, made: dict[str, Any], files: Sequence[str]) -> None:
    """Write what images were made from, and their sizes and digests, when all of them are there."""
    write_json(folder / f"{stem}.json", made | {"files": {name: _state(folder / name) for name in files}})


def look_up(source: str, mask_path: str, root: str, stem: str, folder: str, options: PrepareOptions) -> Found:
    """Compare a scan with what an earlier call left of it.

    Parameters
    ----------
    source, mask_path : str
        The image, and a mask of its brain or "".
    root : str
        Folder that paths in the record start from; they tell nothing of the folders above it.
    stem, folder : str
        How the results are called, and where they are.
    options : PrepareOptions
        What is done to the scan.
    """
    out = Path(folder)
    try:
        check_place(source)
        if mask_path:
            check_place(mask_path, remedy="The column 'mask_path' names it.")
        inputs = [_input(path, root) for path in (source, mask_path) if path]
    except (DataError, OSError) as error:
        return Found([], problem=str(error))
    try:
        record = _read(out / f"{stem}.json")
    except DataError as error:
        return Found(inputs, again=str(error))
    if record is None:
        left = any(os.path.lexists(out / name) for name in files_of_scan(stem))
        return Found(inputs, again="its images were not finished, or are of an earlier version" if left else "")
    if _contents(record["input"]) != _contents(inputs):
        before = record["input"][0]
        is_other = before["sha256"] != inputs[0]["sha256"] and before["place"] != inputs[0]["place"]
        return Found(inputs, again="its image or mask has changed", other=before["path"] if is_other else "")
    if any(record.get(key) != value for key, value in recipe_of(options).items()):
        return Found(inputs, again="it was prepared by another recipe or version")
    damage = _damage(out, stem, record["files"], options)
    if damage:
        return Found(inputs, again=damage)
    return Found(inputs, record["facts"], lacks=bool(missing_imitations(out, stem, options)))


def missing_imitations(folder: Path, stem: str, options: PrepareOptions) -> list[int]:
    """Return the numbers of the imitated acquisitions that are not there as they were written."""
    return [
        number
        for number in range(1, options.imitations + 1)
        if not _is_there(folder, imitated_stem(stem, number), options)
    ]


def _is_there(folder: Path, stem: str, options: PrepareOptions) -> bool:
    try:
        record = _read(folder / f"{stem}.json", facts=False)
    except DataError:
        return False
    same = all((record or {}).get(key) == value for key, value in recipe_of(options).items())
    return record is not None and same and not _damage(folder, stem, record["files"], options)


def _read(path: Path, *, facts: bool = True) -> dict[str, Any] | None:
    """Return a record; None without one, or for a version that named no files."""
    if not os.path.lexists(path):
        return None
    record: dict[str, Any] = read_json(path)
    if set(record) == {"key", "facts"} or set(record) == {"key"}:
        return None
    inputs = record.get("input") if facts else []
    whole = (
        isinstance(record.get("files"), dict)
        and bool(record["files"])
        and isinstance(inputs, list)
        and all(isinstance(each, dict) and {"path", "place", "size", "sha256"} <= set(each) for each in inputs)
        and (not facts or (bool(inputs) and isinstance(record.get("facts"), dict) and bool(record["facts"])))
    )
    if not whole:
        raise DataError(f"{path.name}: is no record of a prepared scan")
    return record


def _damage(folder: Path, stem: str, files: dict[str, Any], options: PrepareOptions) -> str:
    """Return which file of a scan is not as it was written, or ""."""
    for name in files_of_scan(stem, options):
        problem = problem_of_place(folder / name)
        if problem or files.get(name) != _state(folder / name):
            return f"{name}: {problem or 'is not as it was written'}"
    return ""


def _state(path: Path) -> dict[str, Any]:
    return {"size": path.stat().st_size, "sha256": digest_of_file(path)}


def _input(path: str, root: str) -> dict[str, Any]:
    inside = os.path.relpath(path, root)
    shown = Path(path).name if inside.startswith("..") else Path(inside).as_posix()
    return {"path": shown, "place": digest_of("place", Path(path).absolute()), **_state(Path(path))}


def _contents(inputs: Sequence[dict[str, Any]]) -> list[tuple[Any, Any]]:
    return [(each["size"], each["sha256"]) for each in inputs]
