"""Views of a whole batch of volumes by a chain of this package's operations."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import torch
from monai.transforms import Compose
from torch import Tensor

from neurocontrast.exceptions import DataError
from neurocontrast.transforms.rand_volumes import RandVolumed
from neurocontrast.transforms.volumes import Drawn, Seeds, Volumes, VolumeTransformd

_VOXELS_AT_ONCE = {"cpu": 2**18}
"""Voxels that an operation changes at once: on a CPU as many as its caches hold, with little more memory."""
_VOXELS_OF_A_GPU = 2**25

MakeViews = Callable[[Tensor, Sequence[int]], Tensor]


def batched(transform: Any, *, key: str) -> MakeViews | None:
    """Return the function that makes views of whole batches, where all of a chain is of this package; else None."""
    chain = [transform]
    if type(transform) is Compose:
        chain = list(transform.flatten().transforms)
    if not all(isinstance(step, VolumeTransformd) and step.keys == (key,) for step in chain):
        return None
    return lambda images, seeds: views_of(chain, images, seeds)


@torch.no_grad()
def views_of(chain: Sequence[VolumeTransformd], images: Tensor, seeds: Seeds) -> Tensor:
    """Return a view of each image (b, channels, D, H, W) as a new float32 tensor, drawn from its seed.

    Numbers are drawn for all at once; a sample's view is the same, bit for bit, in any batch.
    """
    if images.ndim != 5 and chain:
        raise DataError(
            f"views of volumes need images of shape (batch, channels, D, H, W). Got shape {tuple(images.shape)}."
        )
    views = images.to(torch.float32, copy=True)
    if images.dtype == torch.uint8:
        views.div_(255.0)
    drawn = _drawn(chain, seeds, n_channels=images.shape[1])
    most = _VOXELS_AT_ONCE.get(images.device.type, _VOXELS_OF_A_GPU)
    n_at_once = max(1, most // max(1, images[:1].numel()))
    for start in range(0, len(views), n_at_once):
        samples = slice(start, start + n_at_once)
        volumes = Volumes(views[samples])
        for step, numbers in zip(chain, drawn, strict=True):
            step.apply(volumes, None if numbers is None else numbers.of(samples))
        if volumes.x_BCDHW.data_ptr() != views[samples].data_ptr():
            views[samples] = volumes.x_BCDHW
    return views


def _drawn(
    chain: Sequence[VolumeTransformd], seeds: Seeds, *, n_channels: int
) -> list[Drawn | None]:
    """Return the numbers of each operation; a second one of its kind has others than the first."""
    numbers = Counter[str]()
    drawn = []
    for step in chain:
        name = step.operation if isinstance(step, RandVolumed) else ""
        drawn.append(step.draw(seeds, n_channels=n_channels, number=numbers[name]))
        numbers[name] += 1
    return drawn
