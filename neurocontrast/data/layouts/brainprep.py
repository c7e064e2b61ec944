"""brainprep: quasi-raw images, ``…_desc-6apply_T1w.nii.gz``."""

from __future__ import annotations

from collections.abc import Iterator

from neurocontrast.data.layouts.folder import FolderLayout
from neurocontrast.data.layouts.scan import FoundScan, identity_of
from neurocontrast.data.layouts.tree import Tree

__all__ = ["Brainprep"]


class Brainprep(FolderLayout):
    """Find the quasi-raw images of brainprep: stripped, corrected for bias, and affinely registered to MNI152."""

    name = "brainprep"

    def find(self, tree: Tree) -> Iterator[FoundScan]:
        """Give every image of the last step of the quasi-raw protocol."""
        for path, _, named in tree.matching(r"(?:.*/)?[^/]*", r"(.+)_desc-6apply_T1w\.nii(?:\.gz)?"):
            subject, session, entities = identity_of(named[1])
            yield FoundScan(subject, path, session, entities=entities, space="MNI152", stage="stripped")
