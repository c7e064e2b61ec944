"""Check the paths given to `index`: one folder of scans, or tables of regional measures."""

import os
from collections import Counter
from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path

from neurocontrast.data.checking import IMAGE_ENDINGS
from neurocontrast.data.layouts.tree import Tree, read_tree
from neurocontrast.data.listing import read_sheet
from neurocontrast.data.measures.finding import holds_measures
from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.reading import NO_FILE, check_content, problem_of_place

_OF_PEOPLE = (".tsv", ".csv", ".txt", ".xlsx", ".xls", ".parquet")
"""Endings of files that may hold a table of people."""


def root_of(paths: Sequence[Path]) -> Path:
    """Return the only path of `paths`, or the common folder of several tables of measures.

    `paths` are given to `index`. Several folders, or a table given twice, are refused.
    """
    if not paths:
        raise ConfigError("root: missing. Give a folder of scans, or tables of regional measures.")
    if len(paths) == 1:
        return paths[0]
    folders = list(filter(Path.is_dir, paths))
    if folders:
        raise ConfigError(
            f"root: {len(paths)} are given, and {folders[0]} is a folder. Give one folder, or "
            "tables of regional measures of the same people."
        )
    path, n_times = Counter(paths).most_common(1)[0]
    if n_times > 1:
        raise ConfigError(f"root: {path} is given twice. Give each table once.")
    return Path(os.path.commonpath([*map(attrgetter("parent"), paths)]))


def _tree_of_tables(root: Path, tables: Sequence[Path]) -> Tree:
    """Return a `Tree` of the folder `root` that lists only `tables`, of regional measures.

    A file that is no table of regional measures is refused.
    """
    folders: dict[str, list[str]] = {}
    for table in tables:
        tree = tree_at(table)
        folder = tree.root.relative_to(root).as_posix().removeprefix(".")
        folders.setdefault(folder, []).append(table.name)
    return Tree(root, folders)


def tree_at(root: Path, tables: Sequence[Path] = ()) -> Tree:
    """Return a `Tree` of all files below the folder `root`, or of one table of regional measures.

    The table is `root` itself, if that is a file; a file of any other content is refused. With
    `tables`, which lie below the folder `root`, the tree lists only these and no other files.
    """
    if tables:
        return _tree_of_tables(root, tables)
    if root.is_dir():
        return read_tree(root)
    if problem_of_place(root) == NO_FILE:
        raise DataError(f"{root}: there is no such folder.")
    check_content(root)
    if not holds_measures(root):
        raise DataError(f"{root}: is a file, and no table of regional measures. {_next_step(root)}")
    return Tree(root.parent, {"": [root.name]})


def _next_step(file: Path) -> str:
    """Return advice for a file that was given to `index` in place of a folder of scans."""
    name = file.name.lower()
    if name.endswith(IMAGE_ENDINGS):
        return f"It is one image; give the folder of the images: neurocontrast index {file.parent}"
    if not name.endswith(_OF_PEOPLE):
        return "Give the folder of the scans, or a table of regional measures."
    if "path" in {str(column).lower() for column in read_sheet(file)}:
        return f"A table with a column 'path' needs no index: neurocontrast check {file}"
    return (
        "To join this table with scans, give their folder: "
        f"neurocontrast index FOLDER --phenotype {file}"
    )
