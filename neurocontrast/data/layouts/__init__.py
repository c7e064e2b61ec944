"""Layouts: how scans lie on a disk, one file each, found by name without importing the others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from neurocontrast.data.layouts.scan import FoundScan
from neurocontrast.data.layouts.tree import Tree, read_tree
from neurocontrast.lazy import load

__all__ = ["LAYOUTS", "FoundScan", "Layout", "Tree", "layout_named", "read_tree"]

_HERE = "neurocontrast.data.layouts"

LAYOUTS = {
    "bids": f"{_HERE}.bids:Bids",
    "fmriprep": f"{_HERE}.fmriprep:FMRIPrep",
    "cat12": f"{_HERE}.cat12:CAT12",
    "freesurfer": f"{_HERE}.freesurfer:FreeSurfer",
    "caps": f"{_HERE}.caps:Caps",
    "openbhb": f"{_HERE}.openbhb:OpenBHB",
    "brainprep": f"{_HERE}.brainprep:Brainprep",
    "ixi": f"{_HERE}.ixi:Ixi",
}
"""Layouts by name, as import paths."""


class Layout(Protocol):
    """Finds the scans of one layout in a tree of files."""

    title: str

    def find(self, tree: Tree) -> Iterable[FoundScan]:
        """Give every scan of the tree."""


def layout_named(name: str) -> Layout:
    """Return a layout by its name in `LAYOUTS`."""
    layout: Layout = load(LAYOUTS[name])()
    return layout
