"""Layouts of folders: scans are found in a tree of files, and tables are joined to them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

from neurocontrast.data.layouts import Listing
from neurocontrast.data.layouts.scan import FoundScan
from neurocontrast.data.layouts.tree import Tree
from neurocontrast.lazy import load

__all__ = ["FolderLayout"]


class FolderLayout(ABC):
    """Find the scans of one layout in a tree of files; a subclass says what its files are called.

    Attributes
    ----------
    name : str
        Name in `LAYOUTS`.
    """

    name: ClassVar[str]

    @abstractmethod
    def find(self, tree: Tree) -> Iterable[FoundScan]:
        """Give every scan of the tree."""

    def read(self, source: Path) -> Listing:
        """List the scans of a folder with what its tables say of them, by the defaults of `index_scans`."""
        table = load("neurocontrast.data.indexing:index_scans")(source, layout=self.name).table
        columns = {str(name): table[name].tolist() for name in table}
        return Listing(source, columns, list(range(1, len(table) + 1)), source)
