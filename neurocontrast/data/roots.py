"""Root that a table is made of: a folder of scans, or one table of regional measures."""

from pathlib import Path

from neurocontrast.data.cohort import IMAGE_ENDINGS
from neurocontrast.data.layouts.tree import Tree, read_tree
from neurocontrast.data.listing import read_sheet
from neurocontrast.data.measures.finding import holds_measures
from neurocontrast.exceptions import DataError
from neurocontrast.reading import NO_FILE, check_content, problem_of_place

_OF_PEOPLE = (".tsv", ".csv", ".txt", ".xlsx", ".xls", ".parquet")
"""Endings of files that may hold a table of people."""


def tree_at(root: Path) -> Tree:
    """Return the files of a folder, or a tree of one table of measures; refuse other files."""
    if root.is_dir():
        return read_tree(root)
    if problem_of_place(root) == NO_FILE:
        raise DataError(f"{root}: there is no such folder.")
    check_content(root)
    if not holds_measures(root):
        raise DataError(f"{root}: is a file, and no table of regional measures. {_next_step(root)}")
    return Tree(root.parent, {"": [root.name]})


def _next_step(file: Path) -> str:
    """Return the command for a file that was given in place of a folder of scans."""
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
