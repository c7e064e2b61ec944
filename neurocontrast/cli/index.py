"""``neurocontrast index``: from a folder of scans to one table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from neurocontrast.cli.options import OverwriteOption, QuietOption
from neurocontrast.cli.progress import console_progress

__all__ = ["register"]

LayoutName = Literal["auto", "bids", "fmriprep", "cat12", "freesurfer", "caps", "openbhb", "brainprep", "ixi"]


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("index")(index)


def index(
    root: Annotated[Path, typer.Argument(metavar="ROOT", help="Folder of the scans.")],
    out: Annotated[Path, typer.Option("--out", help="Table to write; index.json beside it.")] = Path("participants.tsv"),
    layout: Annotated[LayoutName, typer.Option("--layout", help="How the scans lie in the folder.")] = "auto",
    phenotype: Annotated[
        list[Path] | None, typer.Option("--phenotype", help="Table of people (.tsv, .csv, .xlsx); may be repeated.")
    ] = None,
    id_column: Annotated[
        str | None, typer.Option("--id-column", help="Column of identifiers in the tables of --phenotype.")
    ] = None,
    site_from: Annotated[
        Literal["column", "folder", "scanner"], typer.Option("--site-from", help="Where the site is read.")
    ] = "column",
    choose: Annotated[
        list[str] | None,
        typer.Option("--choose", help="Of several images: run=first, run=all, acq=mprage, space=…; may be repeated."),
    ] = None,
    keep: Annotated[
        list[str] | None, typer.Option("--keep", help="Further column of the tables to take over; may be repeated.")
    ] = None,
    check_headers: Annotated[bool, typer.Option("--check-headers", help="Read the header of every image.")] = False,
    skip: Annotated[bool, typer.Option("--skip", help="Leave out what has a problem; index.json says what.")] = False,
    overwrite: OverwriteOption = False,
    quiet: QuietOption = False,
) -> None:
    """Find the scans of a BIDS tree, fMRIPrep, CAT12, FreeSurfer, Clinica, OpenBHB, brainprep or IXI; write one table.

    Ages, sex, site and diagnosis are joined from scans.tsv, sessions.tsv, phenotype/ and participants.tsv, decoded by the
    JSON files beside them. All problems are listed at once (exit code 2), and nothing is written then.
    """
    from neurocontrast import stages

    found = stages.index(
        root,
        out,
        layout=layout,
        phenotypes=phenotype or (),
        id_column=id_column,
        site_from=site_from,
        choose=choose or (),
        keep=keep or (),
        check_headers=check_headers,
        skip=skip,
        overwrite=overwrite,
        progress=console_progress(quiet=quiet),
    )
    table = found.index.table
    known = ", ".join(f"{name} {(table[name] != '').sum()}" for name in ("age", "sex", "site", "diagnosis"))
    typer.echo(
        f"{len(table)} scans of {table['subject_id'].nunique()} people ({found.index.layout}), "
        f"{len(found.index.left_out)} left out; known: {known}"
    )
    typer.echo(found.path)
