"""FreeSurfer: ``SUBJECT/mri/*.mgz`` below a folder of subjects."""

from __future__ import annotations

import re
from collections.abc import Iterator

from neurocontrast.data.layouts.scan import FolderLayout, FoundScan, identity_of
from neurocontrast.data.layouts.tree import Tree
from neurocontrast.reading import read_bytes

__all__ = ["FreeSurfer"]

_IMAGES = {"brainmask.mgz": "stripped", "norm.mgz": "stripped", "T1.mgz": "preprocessed"}
_TIV = re.compile(r"# Measure EstimatedTotalIntraCranialVol,.*?,\s*([0-9]+\.?[0-9]*),\s*mm\^3")
_HOLES = re.compile(r"# Measure SurfaceHoles,.*?,\s*([0-9]{1,9}),\s*unitless")


class FreeSurfer(FolderLayout):
    """Find the subjects of a SUBJECTS_DIR: the stripped brain where there is one, else the whole head."""

    name = "freesurfer"

    def find(self, tree: Tree) -> Iterator[FoundScan]:
        """Give an image for each subject, without templates (``fsaverage``) and longitudinal copies (``X.long.Y``)."""
        for folder in sorted(tree.folders):
            parent, _, last = folder.rpartition("/")
            subject = parent.rpartition("/")[2]
            if last != "mri" or not subject or subject.startswith("fsaverage") or ".long." in subject:
                continue
            image = tree.first(*(f"{folder}/{name}" for name in _IMAGES))
            if image:
                label, session, entities = identity_of(subject)
                mask = tree.first(f"{folder}/brainmask.mgz")
                stage = _IMAGES[image.rpartition("/")[2]]
                yield FoundScan(
                    label,
                    image,
                    session,
                    entities=entities,
                    mask_path=mask,
                    stage=stage,
                    facts=self._facts(tree, parent),
                )

    def _facts(self, tree: Tree, subject: str) -> dict[str, str]:
        stats = tree.first(f"{subject}/stats/aseg.stats")
        text = read_bytes(tree.root / stats).decode("utf-8", errors="replace") if stats else ""
        volume, holes = _TIV.search(text), _HOLES.search(text)
        facts = {"tiv": f"{float(volume[1]) / 1000:.1f}"} if volume else {}
        # The Euler number of a hemisphere is 2 - 2 holes; this is the mean of both.
        return facts | ({"euler": str(2 - int(holes[1]))} if holes else {})
