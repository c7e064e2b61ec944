"""The files below a folder, read once."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Tree", "problem_of_file", "read_tree"]

_LFS_POINTER = b"version https://git-lfs.github.com/spec/"
_N_BYTES_OF_POINTER = 1024


@dataclass(frozen=True)
class Tree:
    """A folder with the names of all files below it.

    Parameters
    ----------
    root : Path
        The folder.
    folders : dict of str to list of str
        Sorted file names by folder, both relative to the root with "/"; the root itself is "".
    """

    root: Path
    folders: dict[str, list[str]] = field(default_factory=dict)

    def matching(self, folder: str, name: str) -> Iterator[tuple[str, re.Match[str], re.Match[str]]]:
        """Give the path of every file whose folder and whose name match two regular expressions, with the matches."""
        of_folder, of_name = re.compile(folder), re.compile(name)
        for each in sorted(self.folders):
            found = of_folder.fullmatch(each)
            if found:
                for file in self.folders[each]:
                    named = of_name.fullmatch(file)
                    if named:
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
    """List all files below a folder, without those of hidden folders such as ``.git``."""
    tree = Tree(root)
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        names = []
        with os.scandir(root / folder) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                if entry.is_dir():
                    waiting.append(joined_path(folder, entry.name))
                else:
                    names.append(entry.name)
        if names:
            tree.folders[folder] = sorted(names)
    return tree


def problem_of_file(path: Path) -> str:
    """Return why a file holds no image: empty, or a pointer of git-lfs or git-annex to content elsewhere; else ""."""
    try:
        n_bytes = path.stat().st_size
    except FileNotFoundError:
        return "its content is not here (a link of git-annex or DataLad: run 'datalad get' first)"
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    if n_bytes == 0:
        return "is empty (0 bytes)"
    if n_bytes <= _N_BYTES_OF_POINTER:
        content = path.read_bytes()
        if content.startswith(_LFS_POINTER):
            return "is a pointer of git-lfs, not the image (run 'git lfs pull' first)"
        if content.startswith(b"/annex/objects/"):
            return "is a pointer of git-annex, not the image (run 'git annex get' first)"
    return ""
