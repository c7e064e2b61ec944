"""What a prepared scan was made from, in a record next to its images, and whether these are as they were written."""

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from neurocontrast.exceptions import DataError
from neurocontrast.files import digest_of, digest_of_file, write_json
from neurocontrast.provenance import version, versions_of
from neurocontrast.reading import check_place, read_json

RECIPE = 3
"""Raised when the same options give other images, or other measures of them."""
MOST_IMITATIONS = 20
IMAGES = ("brain", "gm", "wm", "csf")
TABLES = ("participants.tsv", "imitations.tsv", "quality.tsv")
"""Tables of the prepared scans, which are written when all scans are done."""


@dataclass(frozen=True)
class PrepareOptions:
    """Steps and settings of the preparation of each scan."""

    spacing_mm: float = 1.5
    """Voxel size of the results."""
    bias: bool = True
    """Whether the bias field is corrected by N4."""
    tissue: bool = True
    """Whether tissue maps are made."""
    registration: bool = True
    """Whether scans are registered; otherwise their headers place them in MNI152 already."""
    imitations: int = 0
    """Imitated acquisitions of each brain, whose brains and tissue maps are written too."""


def recipe_of(options: PrepareOptions) -> dict[str, Any]:
    """Return what decides how images are made, by its names: options and versions of the code."""
    # Imitations have records of their own: adding some does not prepare the scans again.
    chosen = {name: value for name, value in asdict(options).items() if name != "imitations"}
    found = versions_of("SimpleITK", "nilearn", "deepbet")
    versions = {name: found[name] or "none" for name in found}
    return {"recipe": RECIPE, "options": chosen, "code": {"neurocontrast": version()} | versions}


def imitated_stem(stem: str, number: int) -> str:
    """Return the beginning of the file names of an imitated acquisition of a scan; the first one is 1."""
    return f"{stem}_acq-imitated{number}"


def files_of_scan(stem: str, options: PrepareOptions | None = None) -> list[str]:
    """Return the names of the images of a scan by its options, by default of all that it can have."""
    made = IMAGES if options is None or options.tissue else IMAGES[:1]
    return [f"{stem}_{name}.nii.gz" for name in made]


def describe_input(path: str, mask_path: str, root: str) -> dict[str, Any]:
    """Describe a scan's files: path below a root, digest of the whole path, digests of the contents."""
    check_place(path)
    if mask_path:
        check_place(mask_path, remedy="The column 'mask_path' names it.")
    inside = os.path.relpath(path, root)
    try:
        return {
            "path": Path(path).name if inside.startswith("..") else Path(inside).as_posix(),
            "place": digest_of("place", Path(path).absolute()),
            "sha256": [digest_of_file(each) for each in (path, mask_path) if each],
        }
    except OSError as error:
        raise DataError(str(error)) from error


def problem_of_images(
    folder: Path, stem: str, path: str, mask_path: str, root: str, options: PrepareOptions
) -> str:
    """Return why the images of a scan cannot be replaced, or ""; files are read only where their place has changed."""
    try:
        before = read_json(folder / f"{stem}.json")["input"]["place"]
        given = (
            None
            if before == digest_of("place", Path(path).absolute())
            else describe_input(path, mask_path, root)
        )
    except (DataError, KeyError, TypeError):  # made again, or reported when the scan is prepared
        return ""
    try:
        if given is not None:
            read_record(folder, stem, given, options)
    except DataError as error:
        return str(error)
    return ""


def read_record(
    folder: Path, stem: str, given: dict[str, Any], options: PrepareOptions
) -> dict[str, Any] | None:
    """Return the record of a scan whose images are whole, and were made from the same files by the same recipe.

    Images of a file with another path and another content, so probably of another cohort, are
    refused.
    """
    try:
        record: dict[str, Any] = read_json(folder / f"{stem}.json")
        before = record["input"]["sha256"], record["input"]["place"], record["input"]["path"]
    except (DataError, KeyError, TypeError):
        return None
    if before[0] != given["sha256"]:
        if before[0][:1] != given["sha256"][:1] and before[1] != given["place"]:
            raise DataError(
                f"images/{stem}_brain.nii.gz was made of another file ('{before[2]}'), from another place. Give "
                "another out; or remove the image, if it is no longer needed."
            )
        return None
    same = all(record.get(key) == value for key, value in recipe_of(options).items())
    files = {name: _digest(folder / name) for name in files_of_scan(stem, options)}
    return (
        record
        if same and record.get("files") == files and isinstance(record.get("facts"), dict)
        else None
    )


def _digest(path: Path) -> str:
    return digest_of_file(path) if path.is_file() else ""


def forget(folder: Path, stem: str) -> None:
    """Remove all records, then all images, of a scan and its imitations."""
    stems = [stem, *(imitated_stem(stem, number) for number in range(1, MOST_IMITATIONS + 1))]
    for name in [f"{each}.json" for each in stems] + [
        name for each in stems for name in files_of_scan(each)
    ]:
        (folder / name).unlink(missing_ok=True)


def write_record(
    folder: Path, stem: str, made: dict[str, Any], files: Sequence[str]
) -> dict[str, Any]:
    """Write and return the record of images that were written: what they were made from, and their digests."""
    record = made | {"files": {name: _digest(folder / name) for name in files}}
    write_json(folder / f"{stem}.json", record)
    return record
