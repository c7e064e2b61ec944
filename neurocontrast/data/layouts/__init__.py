"""Layouts of scans on a disk: a function that finds them in a tree of files, and a line of `LAYOUTS`, each."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from neurocontrast.data.layouts.bids import bids, caps, fmriprep
from neurocontrast.data.layouts.programs import brainprep, cat12, freesurfer, ixi, openbhb
from neurocontrast.data.layouts.tree import FoundScan, Tree

__all__ = ["LAYOUTS"]

LAYOUTS: dict[str, Callable[[Tree], Iterable[FoundScan]]] = {
    "bids": bids,
    "fmriprep": fmriprep,
    "cat12": cat12,
    "freesurfer": freesurfer,
    "caps": caps,
    "openbhb": openbhb,
    "brainprep": brainprep,
    "ixi": ixi,
}
"""Name of a layout → function that gives its scans in a tree of files."""
