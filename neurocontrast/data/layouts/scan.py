"""What layouts of folders share: a scan as they find it, the entities in file names of BIDS, and joining of tables."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from neurocontrast.data.layouts import Listing
from neurocontrast.data.layouts.tree import Tree
from neurocontrast.lazy import load

__all__ = ["Entities", "FolderLayout", "FoundScan", "identity_of"]

Entities = Mapping[str, str]

_ENTITY = re.compile(r"(?:^|_)([a-zA-Z]+)-([a-zA-Z0-9+]+)")


@dataclass(frozen=True)
class FoundScan:
    """A scan that a layout has found; all paths are relative to the root.

    Parameters
    ----------
    subject : str
        Label of the person, without "sub-".
    path : str
        The image.
    session : str
        Label of the session without "ses-", or "".
    dataset : str
        Folder of the data set, where the root holds several, or "".
    entities : mapping of str to str
        What tells the images of one subject and session apart, for instance ``{"run": "1", "space": "MNI152Lin"}``.
    mask_path, gm, wm, csf : str
        Brain mask, and maps of grey matter, white matter and fluid, or "".
    space : str
        Template that the image is aligned to, or "native".
    stage : {"raw", "preprocessed", "stripped", "tissue"}
        What was done to the image.
    sidecars : tuple of str
        JSON files with the scanner's settings, the most general first.
    facts : mapping of str to str
        What files of the layout say of the scan: ``tiv`` (mL), ``iqr``, ``site``, and the like.
    """

    subject: str
    path: str
    session: str = ""
    dataset: str = ""
    entities: Entities = field(default_factory=dict)
    mask_path: str = ""
    gm: str = ""
    wm: str = ""
    csf: str = ""
    space: str = "native"
    stage: str = "raw"
    sidecars: tuple[str, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)

    @property
    def person(self) -> str:
        """The subject, told apart from those of other data sets of the root."""
        return f"{self.dataset}_{self.subject}" if self.dataset else self.subject

    @property
    def name(self) -> str:
        """Subject and session as messages call them."""
        return f"sub-{self.person}" + (f" ses-{self.session}" if self.session else "")


def identity_of(name: str) -> tuple[str, str, dict[str, str]]:
    """Return subject and session of a file name of BIDS, and its other entities; a name without "sub-" is the subject.

    ``sub-01_ses-2_run-1_T1w.nii.gz`` is of subject 01 in session 2, with ``{"run": "1"}``.
    """
    entities = dict(_ENTITY.findall(name))
    return entities.pop("sub", name), entities.pop("ses", ""), entities


class FolderLayout(ABC):
    """Find the scans of one layout in a tree of files; a subclass says what its files are called.

    Attributes
    ----------
    name : str
        Name in `LAYOUTS`.
    """

    name: ClassVar[str]

    @abstractmethod
    def find(self, tree: Tree) -> Iterable[FoundScan]:
        """Give every scan of the tree."""

    def read(self, source: Path) -> Listing:
        """List the scans of a folder with what its tables say of them, by the defaults of `index_scans`."""
        table = load("neurocontrast.data.indexing:index_scans")(source, layout=self.name).table
        columns = {str(name): table[name].tolist() for name in table}
        return Listing(source, columns, list(range(1, len(table) + 1)), source)
