"""Layouts of public sets of scans: IXI, OpenBHB, and the quasi-raw images of brainprep."""

from __future__ import annotations

from collections.abc import Iterator

from neurocontrast.data.layouts.scan import FoundScan, identity_of
from neurocontrast.data.layouts.tree import Tree

__all__ = ["brainprep", "ixi", "openbhb"]

_ANYWHERE = r"(?:.*/)?[^/]*"
_HOSPITALS = {"HH": "Hammersmith Hospital", "Guys": "Guy's Hospital", "IOP": "Institute of Psychiatry"}


def ixi(tree: Tree) -> Iterator[FoundScan]:
    """Give the T1-weighted images of IXI, ``IXI012-HH-1211-T1.nii.gz``; the site is in the name of the file."""
    for path, _, named in tree.matching(_ANYWHERE, r"(IXI[0-9]{3})-([A-Za-z]+)-[0-9]+-T1\.nii(?:\.gz)?"):
        yield FoundScan(named[1], path, facts={"site": _HOSPITALS.get(named[2], named[2])})


def brainprep(tree: Tree) -> Iterator[FoundScan]:
    """Give ``…_desc-6apply_T1w.nii.gz``: stripped, corrected for bias, and affinely registered to MNI152."""
    for path, _, named in tree.matching(_ANYWHERE, r"(.+)_desc-6apply_T1w\.nii(?:\.gz)?"):
        subject, session, entities = identity_of(named[1])
        yield FoundScan(subject, path, session, entities=entities, space="MNI152", stage="stripped")


def openbhb(tree: Tree) -> Iterator[FoundScan]:
    """Give OpenBHB's arrays of grey matter (1.5 mm) and its quasi-raw arrays (1 mm).

    They are named ``sub-ID_preproc-{cat12vbm_desc-gm,quasiraw}_T1w.npy``, with an ID of twelve digits.
    """
    name = r"sub-([0-9]+)_preproc-(cat12vbm|quasiraw)(?:_desc-gm)?_T1w\.npy"
    for path, _, named in tree.matching(_ANYWHERE, name):
        tissue = named[2] == "cat12vbm"
        yield FoundScan(
            named[1],
            path,
            entities={"preproc": named[2]},
            maps={"gm": path} if tissue else {},
            space="MNI152NLin2009aSym",
            stage="tissue" if tissue else "stripped",
        )
