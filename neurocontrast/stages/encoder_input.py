"""What an encoder is given of each scan, as rows of numbers: the input of the linear encoder, whatever was trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from neurocontrast.config import DataSettings
from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.progress import Progress
from neurocontrast.stages.sources import BrainVolumes

__all__ = ["read_encoder_input"]


def read_encoder_input(
    scans: Sequence[tuple[str, ...]], run: Mapping[str, Any], *, max_bytes: int, n_workers: int, progress: Progress
) -> tuple[npt.NDArray[np.float32], dict[str, Any]]:
    """Preprocess scans as a run does, or read them from the user's cache.

    Parameters
    ----------
    scans : sequence of tuple of str
        Paths of each scan, one a channel.
    run : mapping
        What ``encoder.json`` of the run says.
    max_bytes : int
        Memory that the voxels of all scans may take.
    n_workers : int
        Processes that preprocess.
    progress : Progress
        Receives progress messages.

    Returns
    -------
    values : array (n_scans, n_voxels)
        Voxels of all channels.
    about : dict
        How they were made, for ``voxels_about`` of ``evaluation.json``.
    """
    try:
        cache = BrainVolumes(DataSettings()).as_in_run(run).cache
    except ConfigError as error:
        raise DataError(f"voxels=input: {error}") from error
    n_voxels = int(np.prod(cache.shape))
    n_bytes = 4 * n_voxels * len(scans) + 8 * len(scans) ** 2
    if n_bytes > max_bytes:
        raise DataError(
            f"voxels=input: {len(scans)} scans of {n_voxels} voxels take {n_bytes / 1024**3:.1f} GiB of memory, more "
            f"than {max_bytes / 1024**3:g}. Evaluate fewer scans (where), or set voxels=on, which reads them at 4 mm."
        )
    files = [scan[0] if len(scan) == 1 else scan for scan in scans]
    cache.prepare(files, n_workers=n_workers, progress=progress)
    values = np.empty((len(scans), n_voxels), dtype=np.float32)
    for row, scan in zip(values, files, strict=True):
        row[:] = cache.read(scan).ravel()
    made = run["preprocessing"]
    spacing = made.get("spacing_mm")
    about = {
        "spacing_mm": spacing if isinstance(spacing, int | float) else None,
        "mask": "all that the encoder is given",
        "n_voxels": n_voxels,
        "smooth_mm": made.get("smooth_mm"),
        "standardised": made.get("normalise"),
    }
    return values, about
