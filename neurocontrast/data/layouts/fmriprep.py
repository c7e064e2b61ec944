"""fMRIPrep and sMRIPrep: ``…_desc-preproc_T1w.nii.gz`` with brain mask and tissue maps, in one or several spaces."""

from __future__ import annotations

from collections.abc import Iterator

from neurocontrast.data.layouts.scan import FolderLayout, FoundScan, identity_of
from neurocontrast.data.layouts.tree import Tree

__all__ = ["FMRIPrep"]

_END = "_desc-preproc_T1w.nii"


class FMRIPrep(FolderLayout):
    """Find the preprocessed images of fMRIPrep or sMRIPrep."""

    name = "fmriprep"

    def find(self, tree: Tree) -> Iterator[FoundScan]:
        """Give every preprocessed image, whole heads whose brain mask is beside them."""
        for path, _, _ in tree.matching(r"(?:.*/)?sub-[^/]+(?:/ses-[^/]+)?/anat", rf"sub-.+{_END}(?:\.gz)?"):
            prefix, _, _ = path.rpartition(_END)
            subject, session, entities = identity_of(path.rpartition("/")[2])
            del entities["desc"]
            entities.setdefault("space", "native")
            tissue = {
                key: tree.first(*(f"{prefix}_label-{label}_probseg.nii{end}" for end in (".gz", "")))
                for key, label in (("gm", "GM"), ("wm", "WM"), ("csf", "CSF"))
            }
            mask = tree.first(*(f"{prefix}_desc-brain_mask.nii{end}" for end in (".gz", "")))
            yield FoundScan(
                subject,
                path,
                session,
                entities=entities,
                mask_path=mask,
                space=entities["space"],
                stage="preprocessed",
                gm=tissue["gm"],
                wm=tissue["wm"],
                csf=tissue["csf"],
            )
