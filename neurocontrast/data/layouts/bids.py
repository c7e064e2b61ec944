"""BIDS: images as the scanner made them, ``sub-X[/ses-Y]/anat/…_T1w.nii.gz``."""

from __future__ import annotations

from collections.abc import Iterator

from neurocontrast.data.layouts.scan import FolderLayout, FoundScan, identity_of
from neurocontrast.data.layouts.tree import Tree, joined_path

__all__ = ["Bids"]


_FOLDER = r"(?:(?!derivatives/|sourcedata/|code/|phenotype/)([^/]+)/)?sub-[^/]+(?:/ses-[^/]+)?/anat"


class Bids(FolderLayout):
    """Find the T1-weighted images of a BIDS data set, or of several side by side, without those of derivatives."""

    name = "bids"

    def find(self, tree: Tree) -> Iterator[FoundScan]:
        """Give every T1-weighted image below ``sub-X/anat`` or ``sub-X/ses-Y/anat``."""
        for path, placed, _ in tree.matching(_FOLDER, r"sub-.+_T1w\.nii(?:\.gz)?"):
            folder, _, name = path.rpartition("/")
            subject, session, entities = identity_of(name)
            if "desc" in entities or "space" in entities:
                continue
            dataset, stem = placed[1] or "", name.partition(".")[0]
            of_all = (joined_path(dataset, each) for each in ("T1w.json", f"sub-{subject}/sub-{subject}_T1w.json"))
            sidecars = (each for each in (*of_all, joined_path(folder, f"{stem}.json")) if tree.has(each))
            yield FoundScan(subject, path, session, dataset, entities, sidecars=tuple(sidecars))
