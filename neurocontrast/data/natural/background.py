"""Coloured backgrounds behind grey pictures: ColorMNIST."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from neurocontrast.exceptions import DataError
from neurocontrast.seeds import derive_generator

__all__ = ["BACKGROUND_COLUMNS", "draw_backgrounds", "paint"]

BACKGROUND_COLUMNS = ("background_red", "background_green", "background_blue")

_PALETTE = np.array(
    [
        *([31, 119, 180], [255, 127, 14], [44, 160, 44], [214, 39, 40], [148, 103, 189]),
        *([140, 86, 75], [227, 119, 194], [127, 127, 127], [188, 189, 34], [23, 190, 207]),
    ],
    dtype=np.int64,
)
"""The ten colours of the paper's released code: Tableau's, as of matplotlib's "tab10"."""


def draw_backgrounds(names: Sequence[str], *, sd: float, seed: int) -> npt.NDArray[np.uint8]:
    """Draw a colour (red, green, blue) for each image, from (seed, name) alone: a subset has the colours of the whole.

    Tsai et al. (ICLR 2022), section 4.2, take a continuous colour as the sensitive variable of ColorMNIST. Their
    released code draws one of ten colours for each image, of any class, adds normal noise of deviation 40 to each
    channel, rounded towards zero, and clips to 0-255.
    """
    colours = np.empty((len(names), 3), dtype=np.uint8)
    for row, name in enumerate(names):
        generator = derive_generator("background", seed, name)
        colour = _PALETTE[generator.integers(len(_PALETTE))]
        noise = np.trunc(sd * generator.standard_normal(3)).astype(np.int64)
        colours[row] = np.clip(colour + noise, 0, 255)
    return colours


def paint(image: npt.NDArray[np.uint8], colour: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Lay a grey picture (3, H, W), bright on black, as black on a colour: (255 - x)·c/255, rounded down."""
    if not (np.array_equal(image[0], image[1]) and np.array_equal(image[0], image[2])):
        raise DataError("a background is laid behind grey pictures, and this one has colours; leave out background")
    shade = 255 - image.astype(np.uint16)
    return (shade * colour.astype(np.uint16)[:, np.newaxis, np.newaxis] // 255).astype(np.uint8)
