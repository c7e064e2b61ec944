"""What layouts share: the files below a folder, read once, a scan as they find it, and entities in names of BIDS."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from neurocontrast.exceptions import DataError, one_of
from neurocontrast.files import composed
from neurocontrast.reading import is_broken_link, problem_of_content, problem_of_place

_IN_TABLES = {"\t": "a tab", "\n": "a line break", "\r": "a line break", "\0": "a zero byte"}


@dataclass(frozen=True)
class Tree:
    """A folder with the names of all files below it."""

    root: Path
    folders: dict[str, list[str]] = field(default_factory=dict)
    """Sorted file names by folder, which is relative to the root with "/"; the root itself is ""."""
    skipped: list[tuple[str, str]] = field(default_factory=list)
    """Paths that are no files, such as pipes and devices, and the reason of each."""

    def matching(
        self, folder: str, name: str
    ) -> Iterator[tuple[str, re.Match[str], re.Match[str]]]:
        """Give the path of every file whose folder and whose name match two regular expressions, with the matches."""
        of_folder = re.compile(folder)
        of_name = re.compile(name)
        for each in sorted(self.folders):
            if found := of_folder.fullmatch(each):
                for file in self.folders[each]:
                    if named := of_name.fullmatch(file):
                        yield joined_path(each, file), found, named

    def has(self, path: str) -> bool:
        """Tell whether there is a file of this path, relative to the root."""
        folder, _, name = path.rpartition("/")
        return name in self.folders.get(folder, ())

    def first(self, *paths: str) -> str:
        """Return the first of some paths that is there, or ""."""
        return next((path for path in paths if self.has(path)), "")


def joined_path(folder: str, name: str) -> str:
    """Return the path of a file of a folder of the tree."""
    return f"{folder}/{name}" if folder else name


def read_tree(root: Path) -> Tree:
    """List all files below a folder, without those of hidden folders such as ``.git``; links in circles are refused."""
    tree = Tree(root)
    circles = []
    waiting: list[tuple[str, tuple[tuple[int, int], ...]]] = [("", ())]
    while waiting:
        folder, above = waiting.pop()
        found = (root / folder).stat()
        this = (found.st_dev, found.st_ino)
        if this in above:
            circles.append(folder)
            continue
        names = []
        with os.scandir(root / folder) as entries:
            for entry in entries:
                path = joined_path(folder, entry.name)
                if entry.name.startswith("."):
                    continue
                is_link = entry.is_symlink() and os.path.isdir(entry.path)  # noqa: PTH112
                if is_link or entry.is_dir(follow_symlinks=False):
                    waiting.append((path, (*above, this)))
                    continue
                problem = (
                    "" if entry.is_file(follow_symlinks=False) else problem_of_place(entry.path)
                )
                # A broken link is what git-annex leaves for content that is elsewhere.
                if not problem or is_broken_link(entry.path):
                    names.append(entry.name)
                else:
                    tree.skipped.append((path, problem))
        if names:
            tree.folders[folder] = sorted(names)
    if circles:
        shown = one_of(sorted(circles)[:5])
        raise DataError(
            f"{root}: {len(circles)} links lead back to a folder above them: {shown}. Remove them."
        )
    return tree


def links_to_others(root: Path, paths: Iterable[str]) -> set[str]:
    """Return the paths, relative to a root, that are links to other paths of the list."""
    real_root = os.path.realpath(root)
    targets: dict[str, str] = {}
    files = set()
    for path in paths:
        target = os.path.realpath(f"{root}/{path}")
        if target == f"{real_root}/{path}":
            files.add(target)
        else:
            targets[path] = target
    return {path for path, target in targets.items() if target in files}


def problem_of_path(path: str) -> str:
    """Return why a table of text cannot hold a path, or ""."""
    if not path.isprintable() and (bad := next((each for each in path if each in "\t\n\r\0"), "")):
        return f"its path holds {_IN_TABLES[bad]}, which no table can hold; rename it"
    try:
        path.encode()
    except UnicodeEncodeError:
        return "its path holds bytes that are not UTF-8, which no table can hold; rename it"
    quoted = len(path) > 1 and path[0] == path[-1] == '"'
    return (
        "its path begins or ends with a space or quotes; rename it"
        if quoted or path != path.strip()
        else ""
    )


def problem_of_names(path: str) -> str:
    """Return why the names of a file of BIDS and its folders are not of one person and session, or ""."""
    *folders, name = path.split("/")
    subject, session, _ = identity_of(name)
    for key, label in (("sub-", subject), ("ses-", session)) if name.startswith("sub-") else ():
        folder = next((each for each in reversed(folders) if each.startswith(key)), key + label)
        if label and folder not in (key + label, f"sub-{subject}_ses-{session}"):
            return f"is in folder '{folder}', and its name is of {key}{label} (labels hold no '_' or '.'); rename one"
    return ""


def problem_of_file(path: Path) -> str:
    """Return why a file holds no image: empty, or a pointer of git-lfs or git-annex to content elsewhere; else ""."""
    if problem := problem_of_content(path):
        return problem
    if path.stat().st_size == 0:
        return "is empty (0 bytes)"
    return ""


_ENTITY = re.compile(r"(?:^|_)([a-zA-Z]+)-([^_./]+)")


@dataclass(frozen=True)
class FoundScan:
    """A scan that a layout has found; all paths are relative to the root."""

    subject: str  # without "sub-"
    path: str
    session: str = ""  # without "ses-"
    dataset: str = ""
    """Folder of the data set, where the root holds several."""
    entities: Mapping[str, str] = field(default_factory=dict)
    """What tells the images of one subject and session apart, for instance ``{"run": "1", "space": "MNI152Lin"}``."""
    maps: Mapping[str, str] = field(default_factory=dict)
    """Further images: ``mask_path``, the brain mask, and the maps ``gm``, ``wm`` and ``csf`` of tissues."""
    space: str = "native"  # or the template that the image is aligned to
    stage: str = "raw"  # or "preprocessed", "stripped", "tissue"
    sidecars: tuple[str, ...] = ()
    """JSON files with the scanner's settings, the most general first."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """What files of the layout say of the scan: ``tiv`` (mL), ``iqr``, ``site``, and the like."""

    @property
    def person(self) -> str:
        """The subject, with the data set in front where the root holds several."""
        name = f"{self.dataset}_{self.subject}" if self.dataset else self.subject
        return composed(name)

    @property
    def name(self) -> str:
        """Subject and session as messages call them."""
        return f"sub-{self.person}" + (f" ses-{self.session}" if self.session else "")


def identity_of(name: str) -> tuple[str, str, dict[str, str]]:
    """Return subject and session of a file name of BIDS, and its other entities; a name without "sub-" is the subject.

    ``sub-01_ses-2_run-1_T1w.nii.gz`` is of subject 01 in session 2, with ``{"run": "1"}``.
    """
    entities = dict(_ENTITY.findall(name))
    subject = entities.pop("sub", name)
    session = entities.pop("ses", "")
    return subject, session, {key: composed(value) for key, value in entities.items()}
