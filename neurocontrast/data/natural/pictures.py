"""Pictures of a source in a fixed order, and what the source says about each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from neurocontrast.data.columns import is_missing, is_numeric

__all__ = ["Pictures", "class_names", "grey_to_rgb"]


@dataclass(frozen=True, eq=False)
class Pictures:
    """Pictures of a source, none of them decoded yet.

    Each picture has a unique name in `files` (a number, unless `has_file_names`), a class in `labels`, and ``train``,
    ``validation`` or ``test`` in `splits` where the source is divided. ``read(i)`` returns picture i, (3, H, W) uint8:
    red, green, blue. `origin` describes the source, JSON-ready.
    """

    files: Sequence[str]
    labels: Sequence[str]
    splits: Sequence[str] | None
    read: Callable[[int], npt.NDArray[np.uint8]]
    origin: dict[str, object]
    columns: dict[str, Sequence[str]] = field(default_factory=dict)
    has_file_names: bool = False

    def __len__(self) -> int:
        return len(self.files)


def grey_to_rgb(image: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Repeat a grey picture (H, W) as red, green and blue, (3, H, W)."""
    return np.repeat(image[np.newaxis], 3, axis=0)


def class_names(labels: Sequence[str], *, word: str = "class") -> list[str]:
    """Return classes as text: where a table would take them for numbers or missing values, after a word.

    Examples
    --------
    >>> class_names(["0", "1"], word="digit")
    ['digit 0', 'digit 1']
    >>> class_names(["cat", "7"])
    ['cat', '7']
    """
    if is_numeric(labels) or any(is_missing(label) for label in labels):
        return [f"{word} {label}" for label in labels]
    return list(labels)
