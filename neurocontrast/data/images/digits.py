"""scikit-learn's handwritten digits: 1,797 pictures of 8×8 that need no download."""

from __future__ import annotations

import numpy as np

from neurocontrast.data.images.decoding import grey_to_rgb
from neurocontrast.data.images.pictures import Pictures, class_names

__all__ = ["read_digits"]


def read_digits() -> Pictures:
    """Return the digits; their values of 0 to 16 become 0 to 255."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    pixels = ((digits.images.astype(np.int64) * 255 + 8) // 16).astype(np.uint8)
    names = class_names([str(name) for name in digits.target_names], word="digit")
    labels = [names[code] for code in digits.target]
    files = [str(number) for number in range(len(pixels))]
    return Pictures(files, labels, None, lambda number: grey_to_rgb(pixels[number]), origin={"kind": "scikit-learn"})
