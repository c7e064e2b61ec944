"""CAPS, the outputs of Clinica: ``t1_linear``, and grey matter of ``t1/spm/segmentation``."""

from __future__ import annotations

from collections.abc import Iterator

from neurocontrast.data.layouts.scan import FolderLayout, FoundScan, identity_of
from neurocontrast.data.layouts.tree import Tree

__all__ = ["Caps"]

_SESSION = r"(?:.*/)?sub-[^/]+/ses-[^/]+"
_TISSUES = {"gm": "graymatter", "wm": "whitematter", "csf": "csf"}


class Caps(FolderLayout):
    """Find the affinely registered images, or else the normalised tissue maps, of Clinica."""

    name = "caps"

    def find(self, tree: Tree) -> Iterator[FoundScan]:
        """Give the images of ``t1_linear``; where there are none, the modulated grey-matter maps."""
        linear = list(self._linear(tree))
        yield from linear or self._tissue(tree)

    def _linear(self, tree: Tree) -> Iterator[FoundScan]:
        for path, _, _ in tree.matching(rf"{_SESSION}/t1_linear", r"sub-.+_space-.+_T1w\.nii(?:\.gz)?"):
            subject, session, entities = identity_of(path.rpartition("/")[2])
            entities.setdefault("desc", "none")
            yield FoundScan(subject, path, session, entities=entities, space=entities["space"], stage="preprocessed")

    def _tissue(self, tree: Tree) -> Iterator[FoundScan]:
        name = r"sub-.+_segm-graymatter_space-.+_modulated-on_probability\.nii(?:\.gz)?"
        for path, _, _ in tree.matching(rf"{_SESSION}/t1/spm/segmentation/normalized_space", name):
            subject, session, entities = identity_of(path.rpartition("/")[2])
            del entities["segm"]
            maps = {key: tree.first(path.replace("graymatter", tissue)) for key, tissue in _TISSUES.items()}
            yield FoundScan(
                subject,
                path,
                session,
                entities=entities,
                gm=maps["gm"],
                wm=maps["wm"],
                csf=maps["csf"],
                space=entities["space"],
                stage="tissue",
            )
