"""List the files of a folder, and read subject, session and entities from names of BIDS."""

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
    """Folder with the names of all files below, at any depth.

    `read_tree` lists the files of a folder. `tree_at` does so too, and can also list only some
    tables of regional measures below their common folder.
    """

    root: Path
    folders: dict[str, list[str]] = field(default_factory=dict)
    """Folder → sorted names of its files; folders are relative to the root with "/", the root
    is "".
    """
    skipped: list[tuple[str, str]] = field(default_factory=list)
    """Paths that are no files, such as pipes and devices, each with the reason."""

    def matching(
        self, folder: str, name: str
    ) -> Iterator[tuple[str, re.Match[str], re.Match[str]]]:
        """Yield path, match of the folder and match of the name, for files that fit two patterns.

        Parameters
        ----------
        folder : str
            Regular expression of a whole folder, relative to the root.
        name : str
            Regular expression of a whole file name.
        """
        folder_pattern = re.compile(folder)
        name_pattern = re.compile(name)
        for path in sorted(self.folders):
            folder_match = folder_pattern.fullmatch(path)
            if folder_match is None:
                continue
            for file in self.folders[path]:
                name_match = name_pattern.fullmatch(file)
                if name_match is not None:
                    yield joined_path(path, file), folder_match, name_match

    def has(self, path: str) -> bool:
        """Tell whether a path, relative to the root, is a file of the tree."""
        folder, _, name = path.rpartition("/")
        return name in self.folders.get(folder, ())

    def first(self, *paths: str) -> str:
        """Return the first of `paths` that is a file of the tree; "" if none is."""
        return next(filter(self.has, paths), "")


def joined_path(folder: str, name: str) -> str:
    """Join a folder of the tree, "" for the root, and a file name to a path."""
    if not folder:
        return name
    return f"{folder}/{name}"


def read_tree(root: Path) -> Tree:
    """Return a `Tree` of all files below `root`, without hidden files and folders such as ``.git``.

    Links that lead back to a folder above them are refused.
    """
    tree = Tree(root)
    circles = []
    waiting: list[tuple[str, tuple[tuple[int, int], ...]]] = [("", ())]
    while waiting:
        folder, above = waiting.pop()
        status = (root / folder).stat()
        identity = (status.st_dev, status.st_ino)
        if identity in above:
            circles.append(folder)
            continue
        for path in _add_files(tree, folder):
            waiting.append((path, (*above, identity)))
    if circles:
        shown = one_of(sorted(circles)[:5])
        raise DataError(
            f"{root}: {len(circles)} links lead back to a folder above them: {shown}. Remove them."
        )
    return tree


def _add_files(tree: Tree, folder: str) -> list[str]:
    """Add the files in `folder` to `tree`, and return the paths of the subfolders.

    Entries that are no files, such as pipes, are added to `skipped` of the tree.
    """
    folders = []
    names = []
    with os.scandir(tree.root / folder) as entries:
        for entry in entries:
            path = joined_path(folder, entry.name)
            if entry.name.startswith("."):
                continue
            is_link = entry.is_symlink() and os.path.isdir(entry.path)  # noqa: PTH112
            if is_link or entry.is_dir(follow_symlinks=False):
                folders.append(path)
                continue
            problem = _problem_of_entry(entry)
            if problem:
                tree.skipped.append((path, problem))
            else:
                names.append(entry.name)
    if names:
        tree.folders[folder] = sorted(names)
    return folders


def _problem_of_entry(entry: os.DirEntry[str]) -> str:
    """Return why an entry of a folder is no file, or "".

    A broken link counts as a file: git-annex leaves one for content that is on another disk.
    """
    if entry.is_file(follow_symlinks=False) or is_broken_link(entry.path):
        return ""
    return problem_of_place(entry.path)


def links_to_others(root: Path, paths: Iterable[str]) -> set[str]:
    """Return which of `paths` are links to another one of `paths`; all are relative to `root`."""
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
    """Return why a table of text cannot hold a path, such as a tab in the name; "" if one can."""
    if not path.isprintable():
        for character in path:
            if character in _IN_TABLES:
                name = _IN_TABLES[character]
                return f"its path holds {name}, which no table can hold; rename it"
    try:
        path.encode()
    except UnicodeEncodeError:
        return "its path holds bytes that are not UTF-8, which no table can hold; rename it"
    quoted = len(path) > 1 and path[0] == path[-1] == '"'
    if quoted or path != path.strip():
        return "its path begins or ends with a space or quotes; rename it"
    return ""


def problem_of_names(path: str) -> str:
    """Return why a BIDS file's name and folders are of two people or sessions; "" if of one."""
    *folders, name = path.split("/")
    if not name.startswith("sub-"):
        return ""
    subject, session, _ = identity_of(name)
    labels = {"sub-": subject, "ses-": session}
    for key, label in labels.items():
        folder = key + label
        for above in reversed(folders):
            if above.startswith(key):
                folder = above
                break
        if label and folder not in (key + label, f"sub-{subject}_ses-{session}"):
            return (
                f"is in folder '{folder}', and its name is of {key}{label} (labels hold no '_' or "
                "'.'); rename one"
            )
    return ""


def problem_of_file(path: Path) -> str:
    """Return why a file holds no image: empty, or content absent from this disk; "" if fine."""
    problem = problem_of_content(path)
    if problem:
        return problem
    if path.stat().st_size == 0:
        return "is empty (0 bytes)"
    return ""


_STAGES = ("raw", "preprocessed", "stripped", "tissue")
_MAPS = ("mask_path", "gm", "wm", "csf")
_ENTITY = re.compile(r"(?:^|_)([a-zA-Z]+)-([^_./]+)")


@dataclass(frozen=True)
class FoundScan:
    """Scan in a folder, found by a layout function or in tables of measures; made for `index`.

    All paths are relative to the root folder.

    Raises
    ------
    ValueError
        If an image has no subject, or if `stage` or a key of `maps` is none of the known names.
    """

    subject: str
    """Label of the subject, without ``sub-``."""
    path: str
    session: str = ""
    """Label of the session, without ``ses-``."""
    dataset: str = ""
    """Folder of the scan's data set, if the root folder holds several data sets; "" if one."""
    entities: Mapping[str, str] = field(default_factory=dict)
    """Entities that tell images of one session apart, such as ``{"run": "1"}``."""
    maps: Mapping[str, str] = field(default_factory=dict)
    """Paths of the brain mask (``mask_path``) and tissue maps (``gm``, ``wm``, ``csf``)."""
    space: str = "native"
    """Template space that the image is aligned to, or ``native``."""
    stage: str = "raw"
    """Stage of preprocessing: ``raw``, ``preprocessed`` (whole head), ``stripped`` or
    ``tissue`` (map); "" for regional measures without an image.
    """
    sidecars: tuple[str, ...] = ()
    """JSON files with the scanner's settings for the image, the most general first."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """Column of the index, such as ``tiv`` (mL) or ``site`` → cell, where files of the layout
    state the value."""

    def __post_init__(self) -> None:
        if self.path and not self.subject:
            raise ValueError(f"{self.path}: subject is empty; give the label of the subject.")
        if self.stage not in ("", *_STAGES):
            raise ValueError(
                f"{self.path}: stage is one of {one_of(_STAGES)}, found '{self.stage}'."
            )
        unread = set(self.maps).difference(_MAPS)
        if unread:
            raise ValueError(
                f"{self.path}: maps has keys among {one_of(_MAPS)}, found {one_of(sorted(unread))}."
            )

    @property
    def person(self) -> str:
        """Label of the subject; if the root folder holds several data sets, as ``dataset_subject``.

        ``dataset`` is the name of the scan's data set.
        """
        name = self.subject
        if self.dataset:
            name = f"{self.dataset}_{self.subject}"
        return composed(name)

    @property
    def name(self) -> str:
        """Subject and session as messages name the scan: ``sub-01 ses-2``."""
        name = f"sub-{self.person}"
        if self.session:
            name += f" ses-{self.session}"
        return name


def identity_of(name: str) -> tuple[str, str, dict[str, str]]:
    """Return subject, session and a dict of the other entities in a BIDS file name.

    ``sub-01_ses-2_run-1_T1w.nii.gz`` is of subject ``01`` in session ``2``, with ``{"run": "1"}``.
    If a name has no ``sub-``, the whole name, with its ending, is the subject; without ``ses-`` the
    session is "".
    """
    entities = dict(_ENTITY.findall(name))
    subject = entities.pop("sub", name)
    session = entities.pop("ses", "")
    return subject, session, {key: composed(value) for key, value in entities.items()}
