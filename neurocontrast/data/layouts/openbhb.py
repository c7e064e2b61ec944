"""OpenBHB: ``sub-ID_preproc-{cat12vbm_desc-gm,quasiraw}_T1w.npy``, with identifiers of twelve digits."""

from __future__ import annotations

from collections.abc import Iterator

from neurocontrast.data.layouts.folder import FolderLayout
from neurocontrast.data.layouts.scan import FoundScan
from neurocontrast.data.layouts.tree import Tree

__all__ = ["OpenBHB"]

SPACE = "MNI152NLin2009aSym"


class OpenBHB(FolderLayout):
    """Find the arrays of the OpenBHB challenge."""

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
                space=SPACE,
                stage="tissue" if tissue else "stripped",
            )
