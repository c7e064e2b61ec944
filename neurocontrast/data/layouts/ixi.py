"""IXI: ``IXI012-HH-1211-T1.nii.gz``."""

from __future__ import annotations

from collections.abc import Iterator

from neurocontrast.data.layouts.folder import FolderLayout
from neurocontrast.data.layouts.scan import FoundScan
from neurocontrast.data.layouts.tree import Tree

__all__ = ["Ixi"]

_HOSPITALS = {"HH": "Hammersmith Hospital", "Guys": "Guy's Hospital", "IOP": "Institute of Psychiatry"}


class Ixi(FolderLayout):
    """Find the T1-weighted images of IXI; the site is in the name of the file."""

    name = "ixi"

    def find(self, tree: Tree) -> Iterator[FoundScan]:
        """Give every T1-weighted image."""
        for path, _, named in tree.matching(r"(?:.*/)?[^/]*", r"(IXI[0-9]{3})-([A-Za-z]+)-[0-9]+-T1\.nii(?:\.gz)?"):
            yield FoundScan(named[1], path, facts={"site": _HOSPITALS.get(named[2], named[2])})
