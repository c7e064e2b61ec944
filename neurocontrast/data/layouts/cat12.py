"""CAT12: modulated grey matter ``mwp1*``, white matter ``mwp2*``, the normalised image ``wm*`` and the report's XML."""

from __future__ import annotations

import re
from collections.abc import Iterator

from neurocontrast.data.layouts.scan import FolderLayout, FoundScan, identity_of
from neurocontrast.data.layouts.tree import Tree, joined_path
from neurocontrast.reading import read_bytes

__all__ = ["CAT12"]

_FACTS = {"tiv": r"<vol_TIV>\s*\[?([0-9]+\.?[0-9]*)", "iqr": r"<IQR>\s*\[?([0-9]+\.?[0-9]*)"}


class CAT12(FolderLayout):
    """Find the grey-matter maps of CAT12, with what else was written for each of them."""

    name = "cat12"

    def find(self, tree: Tree) -> Iterator[FoundScan]:
        """Give every grey-matter map; IQR is CAT12's grade of the image, lower is better."""
        for path, _, named in tree.matching(r"(?:.*/)?[^/]*", r"mwp1(.+?)\.nii(\.gz)?"):
            folder, stem, end = path.rpartition("/")[0], named[1], f".nii{named[2] or ''}"
            subject, session, entities = identity_of(stem)
            beside = {key: joined_path(folder, f"{prefix}{stem}{end}") for key, prefix in _PREFIXES.items()}
            found = {key: each if tree.has(each) else "" for key, each in beside.items()}
            head = found["head"]
            yield FoundScan(
                subject,
                head or path,
                session,
                entities=entities,
                gm=path,
                wm=found["wm"],
                csf=found["csf"],
                space="MNI152NLin2009cAsym",
                stage="preprocessed" if head else "tissue",
                facts=self._facts(tree, folder, stem),
            )

    def _facts(self, tree: Tree, folder: str, stem: str) -> dict[str, str]:
        above = folder.rpartition("/")[0]
        report = tree.first(
            joined_path(joined_path(above, "report"), f"cat_{stem}.xml"), joined_path(folder, f"cat_{stem}.xml")
        )
        text = read_bytes(tree.root / report).decode("utf-8", errors="replace") if report else ""
        matches = {key: re.search(pattern, text) for key, pattern in _FACTS.items()}
        return {key: match[1] for key, match in matches.items() if match}


_PREFIXES = {"wm": "mwp2", "csf": "mwp3", "head": "wm"}
