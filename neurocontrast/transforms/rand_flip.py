"""Flips."""

from __future__ import annotations

from typing import Any

from neurocontrast.transforms.operation import Axes, Operation

__all__ = ["Flip"]


class Flip(Operation):
    """Mirror along one axis.

    Parameters
    ----------
    probability : float
        How often.
    axes : tuple of int
        Axes of the RAS volume to choose among, each equally likely: 0 swaps left and right, 1 front and back, 2 top
        and bottom.

    Examples
    --------
    >>> Flip(axes=(0,)).axes
    (0,)
    """

    stage = "first"
    axes: Axes = (0, 1, 2)

    def transforms(self, key: str) -> list[Any]:
        """Return MONAI's flips, of which one is taken; then a plain tensor, which what follows changes faster."""
        from monai.transforms import EnsureTyped, OneOf, RandFlipd

        flips = [RandFlipd(key, prob=self.probability, spatial_axis=axis) for axis in self.axes]
        return [OneOf(flips), EnsureTyped(key, track_meta=False)]
