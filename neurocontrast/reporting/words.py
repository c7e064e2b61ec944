"""What was evaluated and how it is called: scans of people, or images. The one place where the two part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["IMAGES", "SCANS", "Words", "words_of"]


@dataclass(frozen=True)
class Words:
    """The nouns of a report: of a row of the predictions, and of what is kept together in a fold and resampled.

    `kind` says which sections are read: those of ``scans``, or those of ``images``.
    """

    kind: str
    item: str
    items: str
    unit: str
    units: str


SCANS = Words("scans", "scan", "scans", "subject", "subjects")
IMAGES = Words("images", "image", "images", "image", "images")


def words_of(run: Any) -> Words:
    """Return the nouns for what a run was trained on, by its preprocessing contract; scans where it says nothing.

    Examples
    --------
    >>> words_of({"preprocessing": {"kind": "images"}}).items
    'images'
    >>> words_of(None).items
    'scans'
    """
    contract = run.get("preprocessing") if isinstance(run, Mapping) else None
    return IMAGES if isinstance(contract, Mapping) and contract.get("kind") == "images" else SCANS
