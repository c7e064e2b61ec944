"""What layouts share: a scan as they find it, and the entities in file names of BIDS."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["FoundScan", "identity_of"]

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
    maps : mapping of str to str
        Further images of the scan: ``mask_path``, the brain mask, and ``gm``, ``wm`` and ``csf``, maps of
        grey matter, white matter and fluid.
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
    entities: Mapping[str, str] = field(default_factory=dict)
    maps: Mapping[str, str] = field(default_factory=dict)
    space: str = "native"
    stage: str = "raw"
    sidecars: tuple[str, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)

    @property
    def person(self) -> str:
        """The subject, with the data set in front where the root holds several."""
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
