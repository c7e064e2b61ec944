"""scikit-learn's handwritten digits: 1,797 pictures of 8×8 that need no download."""

from __future__ import annotations

import numpy as np

from neurocontrast.data.natural.pictures import Pictures, class_names, grey_to_rgb

__all__ = ["read_digits"]


def read_digits(_: object = None, __: object = None) -> Pictures:
    """Return the digits; their values of 0 to 16 become 0 to 255."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    pixels = ((digits.images.astype(np.int64) * 255 + 8) // 16).astype(np.uint8)
    names = class_names([str(name) for name in digits.target_names], word="digit")
    return Pictures(
        files=[str(number) for number in range(len(pixels))],
        labels=[names[code] for code in digits.target],
        splits=None,
        read=lambda number: grey_to_rgb(pixels[number]),
        origin={"kind": "scikit-learn"},
    )
