"""Write a data set of natural images as files and a table."""

import os
from pathlib import Path
from typing import Any

from neurocontrast.display import as_progress
from neurocontrast.files import atomic_folder, check_output_folder
from neurocontrast.natural.preparing import write_images
from neurocontrast.natural.settings import ImagesSettings
from neurocontrast.natural.store import RECORD_NAME
from neurocontrast.progress import Progress
from neurocontrast.settings import settings_from


def prepare_images(
    out: str | os.PathLike[str],
    settings: ImagesSettings | None = None,
    *,
    overwrite: bool = False,
    progress: Progress | bool | None = None,
    **changes: Any,
) -> Path:
    """Decode a data set of natural images into a folder, and return its ``participants.tsv``.

    Parameters
    ----------
    out : path
        Folder to make; ``images.json`` in it says what the images were made from.
    settings : ImagesSettings, optional
        Images to prepare; by default scikit-learn's digits.
    overwrite : bool
        Replace an earlier data set in `out`.
    progress : Progress, bool or None
        Receives progress messages; True shows them on standard error, False nothing. With None,
        lines appear in a terminal or notebook alone, and warnings (`NeurocontrastWarning`) always.
    **changes
        Any field of `ImagesSettings`, in place of that of `settings`.

    Examples
    --------
    >>> participants = prepare_images("digits", background="random", size=32)  # doctest: +SKIP
    """
    keys = (settings or ImagesSettings()).model_dump()
    progress = as_progress(progress)
    chosen = settings_from(ImagesSettings, keys | changes, source="images")
    target = Path(out).absolute()
    check_output_folder(
        target, overwrite=overwrite, marker=RECORD_NAME, what="a prepared data set of images"
    )
    with atomic_folder(target) as temporary:
        write_images(chosen, temporary, progress=progress)
    return target / "participants.tsv"
