"""Every figure of a page as files: SVG, PNG, and the numbers behind it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from neurocontrast.files import atomic_path, write_table
from neurocontrast.progress import SILENT, Progress
from neurocontrast.reporting import Picture

__all__ = ["write_figures"]


def write_figures(folder: Path, pictures: Sequence[Picture], *, progress: Progress = SILENT) -> None:
    """Write each figure as ``name.svg`` and ``name.png``, its numbers as ``name.tsv``; list them in ``figures.tsv``.

    Parameters
    ----------
    folder : Path
        Made where it is missing; other files in it stay.
    pictures : sequence of Picture
        What to write.
    progress : Progress
        Told how far the work is.
    """
    with progress.task("Writing figures", len(pictures), "figure") as task:
        for picture in pictures:
            for file_format in ("svg", "png"):
                with atomic_path(folder / f"{picture.name}.{file_format}") as temporary:
                    temporary.write_bytes(picture.encode(file_format))
            if picture.numbers is not None:
                write_table(folder / f"{picture.name}.tsv", picture.numbers)
            task.advance()
    listed = pd.DataFrame(
        [(each.name, each.caption, each.alt) for each in pictures], columns=["name", "caption", "alt"]
    )
    write_table(folder / "figures.tsv", listed)
