"""What every reader of a data set gives: its pictures in a fixed order, and what is known of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Pictures", "class_names"]


@dataclass(frozen=True, eq=False)
class Pictures:
    """Pictures of a source, none of them decoded yet.

    Parameters
    ----------
    files : sequence of str
        Name of each in the source, unique; a number where the source has no names.
    labels : sequence of str or None
        Class of each; None where the source does not tell.
    splits : sequence of str or None
        ``train``, ``validation`` or ``test`` of each; None where the source is not divided.
    read : callable
        Returns picture number i, (3, H, W) uint8 in red, green, blue.
    columns : dict of str to sequence of str
        What else the source tells of each.
    origin : dict
        What they were made from, JSON-ready.
    """

    files: Sequence[str]
    labels: Sequence[str] | None
    splits: Sequence[str] | None
    read: Callable[[int], npt.NDArray[np.uint8]]
    columns: dict[str, Sequence[str]] = field(default_factory=dict)
    origin: dict[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.files)


def class_names(names: Sequence[str], *, word: str = "class") -> list[str]:
    """Return names of classes that are text: numbers, which a table would take for measures, get a word before them.

    Examples
    --------
    >>> class_names(["0", "1"], word="digit")
    ['digit 0', 'digit 1']
    >>> class_names(["cat", "7"])
    ['cat', '7']
    """
    from neurocontrast.data.columns import is_missing, is_numeric

    if is_numeric(names) or any(is_missing(name) for name in names):
        return [f"{word} {name}" for name in names]
    return list(names)
