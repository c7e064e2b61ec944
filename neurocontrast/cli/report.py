"""``neurocontrast report``: one HTML file that can be put before a reviewer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from neurocontrast.cli.options import ConfigOption, QuietOption, SetOption, resolve
from neurocontrast.cli.progress import console_progress
from neurocontrast.exceptions import ConfigError

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("report")(report)


def report(
    evaluation: Annotated[Path, typer.Argument(metavar="EVAL", help="Evaluation directory of `evaluate`.")],
    out: Annotated[
        Path | None, typer.Option("--out", help="HTML file to write (default: report.html in the directory).")
    ] = None,
    figures: Annotated[
        Path | None,
        typer.Option(
            "--figures", help="Folder for every figure as SVG, PNG and TSV (default: figures, beside the page)."
        ),
    ] = None,
    no_figures: Annotated[bool, typer.Option("--no-figures", help="Write the page alone.")] = False,
    show_ids: Annotated[
        bool | None, typer.Option("--show-ids/--hide-ids", help="Show participant identifiers.")
    ] = None,
    config: ConfigOption = None,
    overrides: SetOption = None,
    quiet: QuietOption = False,
) -> None:
    """Make one self-contained HTML report of an evaluation."""
    from neurocontrast import stages

    if no_figures and figures is not None:
        raise ConfigError("--figures and --no-figures exclude each other. Give one of them.")
    settings = resolve(config, overrides, {"report.show_ids": show_ids}).report
    written = stages.report(
        evaluation,
        out=out,
        show_ids=settings.show_ids,
        figures_dir=figures,
        figures=not no_figures,
        progress=console_progress(quiet=quiet),
    )
    typer.echo(written)
