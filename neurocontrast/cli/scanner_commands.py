"""The commands that begin at the scanner: `index`, `prepare` and `qc`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from neurocontrast.cli.options import ImagesRoot, JsonOption, OverwriteOption, QuietOption
from neurocontrast.cli.output import Result, console_progress, show_result

__all__ = ["index", "prepare", "qc"]


def index(
    root: Annotated[Path, typer.Argument(metavar="ROOT", help="Folder of the scans.")],
    out: Annotated[Path, typer.Option(help="Table to write; index.json beside it.")] = Path("participants.tsv"),
    layout: Annotated[
        str,
        typer.Option(help="auto, bids, fmriprep, cat12, freesurfer, caps, openbhb, brainprep or ixi."),
    ] = "auto",
    phenotype: Annotated[
        list[Path] | None, typer.Option(help="Table of people (.tsv, .csv, .xlsx); may be repeated.")
    ] = None,
    id_column: Annotated[str | None, typer.Option(help="Column of identifiers in the tables of --phenotype.")] = None,
    site_from: Annotated[
        Literal["column", "folder", "scanner"], typer.Option(help="Where the site is read.")
    ] = "column",
    choose: Annotated[
        list[str] | None,
        typer.Option(help="Of several images: run=first, run=all, acq=mprage, space=…; may be repeated."),
    ] = None,
    keep: Annotated[
        list[str] | None, typer.Option(help="Further column of the tables to take over; may be repeated.")
    ] = None,
    check_headers: Annotated[bool, typer.Option("--check-headers", help="Read the header of every image.")] = False,
    skip: Annotated[bool, typer.Option("--skip", help="Leave out what has a problem; index.json says what.")] = False,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Find the scans of a BIDS tree, fMRIPrep, CAT12, FreeSurfer, Clinica, OpenBHB, brainprep or IXI; write one table.

    Ages, sex, site and diagnosis are joined from scans.tsv, sessions.tsv, phenotype/ and participants.tsv, decoded by
    the JSON files beside them. All problems are listed at once (exit code 2), and nothing is written then.
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
    table, left_out = found.index.table, found.index.left_out
    facts = {"scans": len(table), "people": int(table["subject_id"].nunique()), "left_out": len(left_out)}
    facts |= {f"with_{name}": int((table[name] != "").sum()) for name in ("age", "sex", "site", "diagnosis")}
    title = f"{len(table)} scans of {facts['people']} people ({found.index.layout}); {len(left_out)} left out"
    known = ", ".join(f"{name} {facts[f'with_{name}']}" for name in ("age", "sex", "site", "diagnosis"))
    show_result(Result(facts, title, notes=[f"Scans with: {known}."], path=found.path), as_json=as_json)


def prepare(
    participants: Annotated[Path, typer.Argument(metavar="PARTICIPANTS.tsv", help="Table with one row a scan.")],
    out: Annotated[Path, typer.Option(help="Folder of brains, tissue maps and the new participants.tsv.")],
    images_root: ImagesRoot = None,
    spacing_mm: Annotated[float, typer.Option(help="Voxel size of the results in mm.")] = 1.5,
    bias: Annotated[bool, typer.Option(help="Correct the bias field by N4.")] = True,
    tissue: Annotated[bool, typer.Option(help="Make maps of grey matter, white matter and fluid.")] = True,
    skip: Annotated[bool, typer.Option(help="Leave out scans that cannot be prepared.")] = False,
    n_workers: Annotated[int, typer.Option(help="Processes.")] = 2,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Prepare raw heads: brain extraction, N4, affine registration to MNI152, tissue maps. Continues where it stopped.

    Raw inputs hold faces; only stripped images are written. Needs pip install 'neurocontrast[prepare]'.
    """
    from neurocontrast import stages

    table = stages.prepare(
        participants,
        out,
        images_root=images_root,
        spacing_mm=spacing_mm,
        bias=bias,
        tissue=tissue,
        skip=skip,
        n_workers=n_workers,
        progress=console_progress(quiet=quiet),
    )
    show_result(Result({"participants": str(table)}, "Brains in MNI space.", path=table), as_json=as_json)


def qc(
    participants: Annotated[Path, typer.Argument(metavar="PARTICIPANTS.tsv", help="Table with one row a scan.")],
    out: Annotated[Path, typer.Option(help="Folder of qc.tsv and qc.html.")],
    images_root: ImagesRoot = None,
    n_workers: Annotated[int, typer.Option(help="Processes.")] = 2,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Measure brains in MNI space, flag those unlike the template or their site, and drop none.

    qc.html shows every scan, the worst first, with its measures and flags. An interrupted call continues.
    """
    from neurocontrast import stages

    found = stages.qc(
        participants, out, images_root=images_root, n_workers=n_workers, progress=console_progress(quiet=quiet)
    )
    flagged = found.table[found.table["n_flags"] > 0]
    facts = {"n_scans": len(found.table), "n_flagged": len(flagged), "flagged": flagged["participant_id"].tolist()}
    title = f"{len(flagged)} of {len(found.table)} scans are flagged."
    shown = [f"{name}: {flags}" for name, flags in zip(flagged["participant_id"], flagged["flags"], strict=True)]
    more = [f"… and {len(shown) - 20} more"] if len(shown) > 20 else []
    show_result(Result(facts, title, notes=[*shown[:20], *more], path=found.page), as_json=as_json)
