"""The report of an evaluation: one page that can be mailed, printed and archived."""

from __future__ import annotations

import os
from pathlib import Path

from neurocontrast.exceptions import ConfigError
from neurocontrast.files import check_writable, write_text
from neurocontrast.findings import build_sections, open_folder, render_report
from neurocontrast.page.blocks import list_pictures
from neurocontrast.page.style import write_figures
from neurocontrast.progress import SILENT, Progress

__all__ = ["report"]


def report(
    evaluation: str | os.PathLike[str],
    *,
    out: str | os.PathLike[str] | None = None,
    show_ids: bool = False,
    figures_dir: str | os.PathLike[str] | None = None,
    figures: bool = True,
    progress: Progress = SILENT,
) -> Path:
    """Write one self-contained HTML report of an evaluation, and return its path.

    Parameters
    ----------
    evaluation : path
        Folder written by `evaluate`.
    out : path, optional
        Page to write; ``report.html`` in the evaluation folder by default.
    show_ids : bool, default=False
        Whether identifiers of participants may appear in the page.
    figures_dir : path, optional
        Folder for every figure as SVG and PNG, and its numbers as a table; by default ``figures`` next to
        ``report.html``, ``NAME_figures`` next to a page ``NAME.html``.
    figures : bool, default=True
        Whether the figures are written as files too.
    progress : Progress
        Receives progress messages.
    """
    files = open_folder(evaluation, show_ids=show_ids)
    page = files.folder / "report.html" if out is None else Path(out)
    if page.is_dir():
        raise ConfigError(f"out: must be a file, but '{page}' is a folder. Give for instance '{page / 'report.html'}'.")
    if page.suffix.lower() not in (".html", ".htm"):
        raise ConfigError(f"out: must end in .html, got '{page}'. Give for instance '{page.with_suffix('.html')}'.")
    check_writable(page)
    default = page.with_name("figures" if page.stem == "report" else f"{page.stem}_figures")
    folder = default if figures_dir is None else Path(figures_dir)
    if figures:
        if folder.exists() and not folder.is_dir():
            raise ConfigError(f"figures_dir: must be a folder, but '{folder}' is a file. Give another.")
        check_writable(folder, parameter="figures_dir")
    sections = build_sections(files, progress=progress)
    write_text(page, render_report(files, sections))
    if figures:
        write_figures(folder, list_pictures(sections), progress=progress)
    return page
