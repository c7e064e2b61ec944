"""The path of one image inside a store: ``images.npy#17``."""

from __future__ import annotations

import re
from pathlib import Path

from neurocontrast.data.problems import shown
from neurocontrast.exceptions import DataError

__all__ = ["is_image_path", "split_image_path"]

_IMAGE_PATH = re.compile(r"(?P<store>.+\.npy)#(?P<index>[0-9]{1,18})", re.IGNORECASE | re.DOTALL)


def is_image_path(text: str) -> bool:
    """Say whether a path names one image of a store.

    Examples
    --------
    >>> is_image_path("images.npy#17"), is_image_path("sub-01.npy")
    (True, False)
    """
    return _IMAGE_PATH.fullmatch(text) is not None


def split_image_path(text: str) -> tuple[Path, int]:
    """Return the store and the index of an image's path.

    Raises
    ------
    DataError
        Where the path is not that of an image in a store.

    Examples
    --------
    >>> split_image_path("data/images.npy#17")
    (PosixPath('data/images.npy'), 17)
    """
    match = _IMAGE_PATH.fullmatch(text)
    if match is None:
        raise DataError(f"an image's path is that of a store and an index, such as 'images.npy#17'. Got {shown(text)}.")
    return Path(match["store"]), int(match["index"])
