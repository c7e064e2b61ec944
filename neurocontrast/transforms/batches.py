"""Make random views of a whole batch of volumes at once, by a sequence of augmentations."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from monai.transforms import Compose
from torch import Tensor

from neurocontrast.exceptions import DataError
from neurocontrast.transforms.rand_volumes import RandVolumed, draw_all
from neurocontrast.transforms.volumes import Drawn, Seeds, Volumes, VolumeTransformd

_VOXELS_OF_A_CPU = 2**20
"""Number of voxels changed in one call on a CPU; larger calls need more memory and are no
faster."""
_VOXELS_OF_A_GPU = 2**25
"""Number of voxels changed in one call on a GPU."""

MakeViews = Callable[[Tensor, Sequence[int]], Tensor]
"""Function of a batch of images and one seed per image, which returns a random view of each
image."""


def batched(transform: Any, *, key: str) -> MakeViews | None:
    """Return a function that makes views of whole batches at once by `transform`, if possible.

    Possible are this package's operations on volumes, alone or in a `Compose`, which change the
    item `key` of a dictionary and no other. For any other transform the result is None, and views
    are made image by image.
    """
    chain = [transform]
    if type(transform) is Compose:
        chain = list(transform.flatten().transforms)
    for step in chain:
        if not isinstance(step, VolumeTransformd) or step.keys != (key,):
            return None
    return lambda images, seeds: views_of(chain, images, seeds)


@torch.no_grad()
def views_of(chain: Sequence[VolumeTransformd], images: Tensor, seeds: Seeds) -> Tensor:
    """Return a random view of each image (b, channels, D, H, W), as a new float32 tensor.

    The transforms of `chain` are applied in order, with a seed for each image in `seeds`. Random
    numbers of all samples are drawn at once; a sample's view is the same, bit for bit, in any
    batch.
    """
    if images.ndim != 5 and chain:
        raise DataError(
            "views of volumes need images of shape (batch, channels, D, H, W). Got shape "
            f"{tuple(images.shape)}."
        )
    views = images.to(torch.float32, copy=True)
    if images.dtype == torch.uint8:
        views.div_(255.0)
    numbers = _numbers(chain, seeds, n_channels=images.shape[1])
    for samples in _portions(images):
        volumes = Volumes(views[samples])
        for step, drawn in zip(chain, numbers, strict=True):
            step.apply(volumes, None if drawn is None else drawn.of(samples))
        if volumes.x_BCDHW.data_ptr() != views[samples].data_ptr():
            views[samples] = volumes.x_BCDHW
    return views


def _numbers(
    chain: Sequence[VolumeTransformd], seeds: Seeds, *, n_channels: int
) -> list[Drawn | None]:
    """Draw the random numbers of each transform in `chain`, for all samples of a batch.

    `seeds` has the seed of each sample, by which the numbers of the sample are drawn. The list has
    an entry for each transform, in the order of the chain: the numbers of all samples, or None for
    a transform without randomness.
    """
    operations = [step for step in chain if isinstance(step, RandVolumed)]
    drawn = iter(draw_all(operations, seeds, n_channels=n_channels))
    numbers: list[Drawn | None] = []
    for step in chain:
        if isinstance(step, RandVolumed):
            numbers.append(next(drawn))
        else:
            numbers.append(None)
    return numbers


def _portions(images: Tensor) -> Iterator[slice]:
    """Yield slices that divide a batch of images, each with few enough voxels for one call.

    Slices are of nearly equal size. The limit depends on the images' device.
    """
    n_samples = len(images)
    most = _VOXELS_OF_A_GPU
    if images.device.type == "cpu":
        most = _VOXELS_OF_A_CPU
    n_at_once = max(1, most // max(1, images[:1].numel()))
    n_portions = -(-n_samples // n_at_once)
    for number in range(n_portions):
        start = number * n_samples // n_portions
        yield slice(start, (number + 1) * n_samples // n_portions)
