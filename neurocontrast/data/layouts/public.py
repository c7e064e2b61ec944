"""Public sets of scans: IXI, OpenBHB, and the quasi-raw images of brainprep."""

from __future__ import annotations

from collections.abc import Iterator

from neurocontrast.data.layouts.scan import FolderLayout, FoundScan, identity_of
from neurocontrast.data.layouts.tree import Tree

__all__ = ["Brainprep", "Ixi", "OpenBHB"]

_HOSPITALS = {"HH": "Hammersmith Hospital", "Guys": "Guy's Hospital", "IOP": "Institute of Psychiatry"}


class Ixi(FolderLayout):
    """Find the T1-weighted images of IXI, ``IXI012-HH-1211-T1.nii.gz``; the site is in the name of the file."""

    name = "ixi"

    def find(self, tree: Tree) -> Iterator[FoundScan]:
        """Give every T1-weighted image."""
        for path, _, named in tree.matching(r"(?:.*/)?[^/]*", r"(IXI[0-9]{3})-([A-Za-z]+)-[0-9]+-T1\.nii(?:\.gz)?"):
            yield FoundScan(named[1], path, facts={"site": _HOSPITALS.get(named[2], named[2])})


class Brainprep(FolderLayout):
    """Find ``…_desc-6apply_T1w.nii.gz``: stripped, corrected for bias, and affinely registered to MNI152."""

    name = "brainprep"

    def find(self, tree: Tree) -> Iterator[FoundScan]:
        """Give every image of the last step of the quasi-raw protocol."""
        for path, _, named in tree.matching(r"(?:.*/)?[^/]*", r"(.+)_desc-6apply_T1w\.nii(?:\.gz)?"):
            subject, session, entities = identity_of(named[1])
            yield FoundScan(subject, path, session, entities=entities, space="MNI152", stage="stripped")


class OpenBHB(FolderLayout):
    """Find the arrays of OpenBHB, ``sub-ID_preproc-{cat12vbm_desc-gm,quasiraw}_T1w.npy``, ID of twelve digits."""

    name = "openbhb"

    def find(self, tree: Tree) -> Iterator[FoundScan]:
        """Give every array of grey matter (1.5 mm) and every quasi-raw array (1 mm)."""
        name = r"sub-([0-9]+)_preproc-(cat12vbm|quasiraw)(?:_desc-gm)?_T1w\.npy"
        for path, _, named in tree.matching(r"(?:.*/)?[^/]*", name):
            tissue = named[2] == "cat12vbm"
            yield FoundScan(
                named[1],
                path,
                entities={"preproc": named[2]},
                gm=path if tissue else "",
                space="MNI152NLin2009aSym",
                stage="tissue" if tissue else "stripped",
            )
