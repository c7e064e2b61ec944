"""Extract the brain with deepbet's networks (Fisch et al. 2024), from the installed package."""

import hashlib
from functools import cache
from importlib import metadata
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from scipy.ndimage import binary_fill_holes, label
from torch.nn.functional import interpolate

from neurocontrast.exceptions import DataError, MissingDependencyError

STRIPPED_SHARE = 0.5
"""Share of voxels that are 0 above which a volume counts as skull-stripped."""
MARGIN = 0.1
"""Margin on each side of the box around a brain, as a share of the box's size."""

_DIGESTS = {
    "bbox_model.pt": "39a7b2b5f799faa1391ea97bfcdc0b9299f20d84f2316a4ff8918dc4685e40aa",
    "model.pt": "de8ee7c69654d0dd3935dc4a5d84571d8ecf4637a6bfc01df399c4c2bc86e0fd",
}
"""File of a network → SHA-256 of deepbet 1.0.2's file."""
_SMALL = (128, 128, 128)
_LARGE = (256, 256, 256)
"""Input shape of deepbet's second network, in voxels; `_SMALL` is the first network's."""

Mask = npt.NDArray[np.bool_]


def is_stripped(voxels: npt.NDArray[np.float32]) -> bool:
    """Tell whether a volume is skull-stripped: more than half of its voxels are 0."""
    return float(np.mean(voxels == 0)) > STRIPPED_SHARE


def extract_brain(voxels: npt.NDArray[np.float32]) -> Mask:
    """Return a mask of the brain in a T1-weighted head, with voxels in RAS order.

    One network finds the box of the brain, and a second network the brain in the box; the largest
    connected piece is kept without holes.
    """
    image = torch.nan_to_num(torch.from_numpy(np.ascontiguousarray(voxels)))
    small = interpolate(image[None, None], _SMALL, mode="nearest-exact")
    low = small.quantile(0.005)
    high = small.quantile(0.995)
    with torch.inference_mode():
        coarse = _largest(
            (_network("bbox_model.pt")(_scaled(small, low, high))[0, 1] > 0.5).numpy()
        )
        box = _box(coarse, image.shape)
        large = interpolate(image[box][None, None], _LARGE, mode="nearest-exact")
        inside = _network("model.pt")(_scaled(large, low, high))[:1, 1:2]
        brain = interpolate(inside, image[box].shape, mode="nearest-exact")[0, 0] > 0.5
    mask = np.zeros(voxels.shape, dtype=bool)
    mask[box] = binary_fill_holes(_largest(brain.numpy()))
    return mask


@cache
def _network(name: str) -> torch.jit.ScriptModule:
    """Load one of deepbet's networks by the `name` of the network's file.

    A file is refused if absent, or if the digest is not that of deepbet 1.0.2.
    """
    try:
        files = metadata.files("deepbet") or []
    except metadata.PackageNotFoundError as error:
        raise MissingDependencyError(
            "Brain extraction needs deepbet: pip install 'neurocontrast[prepare]'; or give masks "
            "(column mask_path)."
        ) from error
    path = next((Path(str(file.locate())) for file in files if file.name == name), None)
    if path is None or not path.is_file():
        raise MissingDependencyError(
            f"deepbet is installed without '{name}'; install it again: deepbet==1.0.2."
        )
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if digest != _DIGESTS[name]:
        raise MissingDependencyError(
            f"{path}: the weights are not those of deepbet 1.0.2 (SHA-256 {digest[:12]}…); "
            "install deepbet==1.0.2."
        )
    return torch.jit.load(str(path), map_location="cpu").eval()


def _scaled(image: torch.Tensor, low: torch.Tensor, high: torch.Tensor) -> torch.Tensor:
    """Return a head's intensities for deepbet's networks: clipped to [`low`, `high`], then scaled.

    After clipping, intensities are shifted and scaled to mean 0.449 and standard deviation 0.226.
    """
    clipped = ((image - low) / (high - low)).clamp(0, 1)
    return 0.226 * (clipped - clipped.mean()) / clipped.std() + 0.449


def _largest(mask: Mask) -> Mask:
    """Return the largest connected piece of a brain mask; refuse an empty mask."""
    pieces, n_pieces = label(mask)
    if not n_pieces:
        raise DataError("no brain was found; is this a T1-weighted head, in the right orientation?")
    sizes = np.bincount(pieces.ravel())
    sizes[0] = 0
    largest: Mask = pieces == sizes.argmax()
    return largest


def _box(mask: Mask, shape: torch.Size) -> tuple[slice, ...]:
    """Return the box of a brain, with a margin on each side, as slices of the full volume.

    `mask` is the brain on a coarse grid over the same volume; `shape` is the volume's shape. A mask
    without brain is refused.
    """
    box = []
    for axis, n in enumerate(shape):
        across = tuple(set(range(3)) - {axis})
        inside = np.flatnonzero(mask.mean(axis=across) > 0.02)
        if not len(inside):
            raise DataError(
                "no brain was found; is this a T1-weighted head, in the right orientation?"
            )
        scale = n / mask.shape[axis]
        centre = round(scale * (inside[0] + inside[-1] + 1) / 2)
        half = round(scale * (1 + 2 * MARGIN) * (inside[-1] + 1 - inside[0])) / 2
        box.append(slice(max(0, int(centre - half)), min(n, int(centre + half))))
    return tuple(box)
