"""Write the HTML page of an evaluation, or of a comparison of several evaluations."""

import os
from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

import pandas as pd

from neurocontrast.commands.written import WrittenFigures
from neurocontrast.data.listing import read_table
from neurocontrast.display import as_progress
from neurocontrast.documents.comparison import FILE, ComparisonRecord, read_comparison
from neurocontrast.exceptions import ConfigError
from neurocontrast.files import (
    atomic_folder,
    check_output_folder,
    check_writable,
    write_json,
    write_table,
    write_text,
)
from neurocontrast.progress import Progress
from neurocontrast.provenance import describe_environment
from neurocontrast.reporting.blocks import list_pictures
from neurocontrast.reporting.compared import compare_tables, describe_comparison, load_evaluations
from neurocontrast.reporting.comparison import (
    Comparison,
    build_comparison,
    render_comparison,
)
from neurocontrast.reporting.findings import build_sections, open_folder, render_report
from neurocontrast.reporting.style import write_figures
from neurocontrast.reporting.viewer import render_viewer
from neurocontrast.reporting.wording import estimate_text, level_text

_N_ROWS = 20


class ComparisonResult(WrittenFigures):
    """Folder that `compare` wrote; property `table` has the differences between evaluations.

    The table has, for each metric, the difference of each evaluation's model from that of the
    first, which is the reference.
    """

    @property
    def table(self) -> pd.DataFrame:
        """Differences of each evaluation from the first, by metric, with interval and p-values."""
        return read_table(self.location / "differences.tsv", na_values=["", "n/a"])

    @property
    def record(self) -> ComparisonRecord:
        """Content of ``comparison.json``: target, models and settings."""
        return read_comparison(self.location)

    def summary(self) -> str:
        """Return lines of text: the evaluations' differences from the first, with intervals."""
        record = self.record
        table = self.table
        title = f"difference [{level_text(record.confidence_level)} interval]"
        shown = table[["metric", "model"]].assign(
            **{title: table.apply(_difference, axis=1), "p (Holm)": table["p_adjusted"]}
        )
        lines = [
            f"{record.target}: differences from {record.reference}",
            shown.head(_N_ROWS).to_string(index=False, float_format="{:.3g}".format, na_rep="–"),
        ]
        if len(shown) > _N_ROWS:
            lines.append(f"… {len(shown) - _N_ROWS} more rows")
        return "\n".join(lines)


def _difference(row: "pd.Series[Any]") -> str:
    """Return the difference in a row of ``differences.tsv``, with its interval, as text."""
    return estimate_text(row["difference"], (row["low"], row["high"]), digits=3, signed=True)


def report(
    evaluation: str | os.PathLike[str],
    *,
    out: str | os.PathLike[str] | None = None,
    show_ids: bool = False,
    figures: bool = True,
    viewer: bool = False,
    progress: Progress | bool | None = None,
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
    figures : bool, default=True
        Whether every figure is written as SVG and PNG too, and its numbers as a table: into
        ``figures`` next to ``report.html``, ``NAME_figures`` next to a page ``NAME.html``.
    viewer : bool, default=False
        Whether an interactive map of the embedding is written next to the page: ``map.html``,
        ``NAME_map.html`` next to a page ``NAME.html``. The map holds participants' data and is not
        to be shared. The table of evaluated embeddings must lie in one of the two folders above the
        evaluation or in the working directory, at most two subfolders deep.
    progress : Progress, bool or None
        Receives progress messages; True shows them on standard error, False nothing. With None,
        lines appear in a terminal or notebook alone, and warnings (`NeurocontrastWarning`) always.
    """
    progress = as_progress(progress)
    files = open_folder(evaluation, show_ids=show_ids)
    page = files.folder / "report.html" if out is None else Path(out)
    if page.is_dir():
        raise ConfigError(
            f"out: must be a file, but '{page}' is a folder. "
            f"Give for instance '{page / 'report.html'}'."
        )
    if page.suffix.lower() not in (".html", ".htm"):
        raise ConfigError(
            f"out: must end in .html, got '{page}'. "
            f"Give for instance '{page.with_suffix('.html')}'."
        )
    check_writable(page)
    folder = page.with_name("figures" if page.stem == "report" else f"{page.stem}_figures")
    if figures and folder.exists() and not folder.is_dir():
        raise ConfigError(
            f"out: figures are written into '{folder}', which is a file. Give another place."
        )
    viewer_page = render_viewer(files, progress=progress) if viewer else None
    sections = build_sections(files, progress=progress)
    write_text(page, render_report(files, sections))
    if viewer_page is not None:
        path = page.with_name("map.html" if page.stem == "report" else f"{page.stem}_map.html")
        write_text(path, viewer_page)
        progress.warning(
            f"{path} holds participants' data: identifiers, ages, slices. Do not share it."
        )
    if figures:
        write_figures(folder, list_pictures(sections), progress=progress)
    return page


def compare(
    evaluations: Sequence[str | os.PathLike[str]],
    *,
    out: str | os.PathLike[str],
    names: Sequence[str] | None = None,
    n_bootstraps: int = 2000,
    confidence_level: float = 0.95,
    seed: int = 0,
    overwrite: bool = False,
    progress: Progress | bool | None = None,
) -> ComparisonResult:
    """Compare evaluations of the same scans in the same folds; return the comparison's folder.

    Parameters
    ----------
    evaluations : sequence of path
        Folders written by `evaluate`; the first is the reference, whose ``splits.tsv`` the others
        use.
    out : path
        Folder to write: ``comparison.html``, its tables and figures, and ``comparison.json``.
    names : sequence of str, optional
        Names of the models; those of the folders by default.
    n_bootstraps, confidence_level, seed
        Resamples, coverage and seed of the intervals.
    overwrite : bool, default=False
        Whether a comparison already at `out` is replaced.
    progress : Progress, bool or None
        Receives progress messages; True shows them on standard error, False nothing. With None,
        lines appear in a terminal or notebook alone, and warnings (`NeurocontrastWarning`) always.
    """
    progress = as_progress(progress)
    folder = Path(out)
    check_output_folder(folder, overwrite=overwrite, marker=FILE, what="a comparison")
    if n_bootstraps < 1 or not 0 < confidence_level < 1:
        raise ConfigError(
            "n_bootstraps must be 1 or more and confidence_level between 0 and 1; "
            f"got {n_bootstraps} and {confidence_level}."
        )
    if names is not None and len(names) != len(evaluations):
        raise ConfigError(
            f"names: one for each of the {len(evaluations)} evaluations is needed, "
            f"got {len(names)}."
        )
    names = names or list(map(attrgetter("name"), map(Path, evaluations)))
    loaded = load_evaluations(evaluations, names=names)
    progress.message(f"Comparing {len(loaded)} evaluations")
    tables = compare_tables(loaded, n_bootstraps=n_bootstraps, level=confidence_level, seed=seed)
    record = describe_comparison(
        loaded,
        n_bootstraps=n_bootstraps,
        level=confidence_level,
        seed=seed,
        environment=describe_environment(),
    )
    with atomic_folder(folder) as new:
        for name, table in tables.items():
            if len(table):
                write_table(new / f"{name}.tsv", table)
        write_json(new / FILE, record.content())
        files = Comparison(record, **tables)
        sections = build_comparison(files)
        write_text(new / "comparison.html", render_comparison(files, sections))
        write_figures(new / "figures", list_pictures(sections), progress=progress)
    return ComparisonResult(folder)
