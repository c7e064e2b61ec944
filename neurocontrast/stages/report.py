"""The report of an evaluation, as one file that can be mailed, printed and archived."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from neurocontrast.exceptions import ConfigError
from neurocontrast.files import atomic_path, check_writable, write_table, write_text
from neurocontrast.progress import SILENT, Progress
from neurocontrast.reporting import (
    SECTIONS,
    EvaluationFiles,
    Picture,
    list_pictures,
    read_evaluation,
    render_page,
)

__all__ = ["report", "write_figures"]


def report(
    evaluation: str | os.PathLike[str],
    *,
    out: str | os.PathLike[str] | None = None,
    show_ids: bool = False,
    figures_dir: str | os.PathLike[str] | None = None,
    figures: bool = True,
    progress: Progress = SILENT,
) -> Path:
    """Make one self-contained HTML report from an evaluation folder; an older one is replaced once it is whole.

    Parameters
    ----------
    evaluation : path
        Folder written by `evaluate`.
    out : path, optional
        Where the page goes; ``report.html`` in the evaluation folder by default.
    show_ids : bool, default=False
        Whether identifiers of participants may appear in the page.
    figures_dir : path, optional
        Folder for every figure as SVG and PNG, with the numbers behind it as a table; by default
        ``figures`` beside ``report.html``, ``NAME_figures`` beside a page ``NAME.html``.
    figures : bool, default=True
        Whether the figures are written as files too.
    progress : Progress
        Receives progress messages.

    Returns
    -------
    Path
        The page, which loads nothing from the network and runs no script.
    """
    files = read_evaluation(evaluation, show_ids=show_ids)
    page = _page_path(out, files)
    check_writable(page)
    folder = _figures_folder(figures_dir, page) if figures else None
    sections = []
    with progress.task("Building the report", len(SECTIONS), "section") as task:
        for build in SECTIONS:
            section = build(files, SECTIONS)
            sections += [] if section is None else [section]
            task.advance()
    write_text(page, render_page(files, sections))
    if folder is not None:
        write_figures(folder, list_pictures(sections), progress=progress)
    return page


def _page_path(out: str | os.PathLike[str] | None, files: EvaluationFiles) -> Path:
    if out is None:
        return files.folder / "report.html"
    page = Path(out)
    if page.is_dir():
        raise ConfigError(f"out: must be a file, but '{page}' is a folder. Give for instance '{page / 'report.html'}'.")
    if page.suffix.lower() not in (".html", ".htm"):
        raise ConfigError(f"out: must end in .html, got '{page}'. Give for instance '{page.with_suffix('.html')}'.")
    return page


def _figures_folder(given: str | os.PathLike[str] | None, page: Path) -> Path:
    beside = "figures" if page.stem == "report" else f"{page.stem}_figures"
    folder = page.with_name(beside) if given is None else Path(given)
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"figures_dir: must be a folder, but '{folder}' is a file. Give another.")
    check_writable(folder, parameter="figures_dir")
    return folder


def write_figures(folder: Path, pictures: Sequence[Picture], *, progress: Progress = SILENT) -> None:
    """Write each figure as ``name.svg`` and ``name.png``, its numbers as ``name.tsv``; list them in ``figures.tsv``."""
    with progress.task("Writing figures", len(pictures), "figure") as task:
        for picture in pictures:
            for file_format in ("svg", "png"):
                with atomic_path(folder / f"{picture.name}.{file_format}") as temporary:
                    temporary.write_bytes(picture.encode(file_format))
            if picture.numbers is not None:
                write_table(folder / f"{picture.name}.tsv", picture.numbers)
            task.advance()
    listed = [(each.name, each.caption, each.alt) for each in pictures]
    write_table(folder / "figures.tsv", pd.DataFrame(listed, columns=["name", "caption", "alt"]))
