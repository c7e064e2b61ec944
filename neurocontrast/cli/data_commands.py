"""The commands that make and check tables of scans or images: `simulate`, `images`, `check`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from neurocontrast.cli.options import (
    ConfigOption,
    ImagesRoot,
    JsonOption,
    OverwriteOption,
    QuietOption,
    SetOption,
    resolve,
)
from neurocontrast.cli.output import Result, console_progress, show_result
from neurocontrast.cli.results import cohort_result

__all__ = ["check", "images", "simulate"]


def simulate(
    out: Annotated[
        Path, typer.Argument(metavar="OUT", help="Folder to write: participants.tsv, images/, simulation.json.")
    ],
    n_subjects: Annotated[int | None, typer.Option(help="Number of subjects.")] = None,
    n_sites: Annotated[int | None, typer.Option(help="Number of sites.")] = None,
    spacing_mm: Annotated[float | None, typer.Option(help="Voxel size in mm.")] = None,
    patients: Annotated[float | None, typer.Option(help="Fraction of subjects who are patients.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of every subject and site.")] = None,
    site_seed: Annotated[
        int | None, typer.Option(help="Seed of the sites alone: cohorts with the same one share scanners.")
    ] = None,
    overwrite: OverwriteOption = False,
    config: ConfigOption = None,
    overrides: SetOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Simulate a multi-site cohort of brains with age, sex, disease and scanner effects (labelled as simulated)."""
    from neurocontrast import stages

    settings = resolve(config, overrides, "simulation", locals()).simulation
    participants = stages.simulate(out, settings, overwrite=overwrite, progress=console_progress(quiet=quiet))
    show_result(cohort_result(participants), as_json=as_json)


def images(
    out: Annotated[
        Path, typer.Argument(metavar="OUT", help="Folder to write: images.npy, participants.tsv, images.json.")
    ],
    dataset: Annotated[
        str | None, typer.Option(help="digits (default), cifar10, cifar100, mnist, fashion-mnist or folder.")
    ] = None,
    source: Annotated[
        Path | None, typer.Option(help="Folder or archive (.tar, .tar.gz, .tar.xz, .zip) of its files.")
    ] = None,
    size: Annotated[int | None, typer.Option(help="Scale and crop every image to so many pixels.")] = None,
    background: Annotated[str | None, typer.Option(help="random: ColorMNIST's colours behind grey pictures.")] = None,
    n_train: Annotated[int | None, typer.Option(help="Keep so many training images.")] = None,
    n_validation: Annotated[int | None, typer.Option(help="Keep so many for validation.")] = None,
    n_test: Annotated[int | None, typer.Option(help="Keep so many test images.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of split, subset, background and clusters.")] = None,
    overwrite: OverwriteOption = False,
    config: ConfigOption = None,
    overrides: SetOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Prepare a data set of natural images: one file of bytes and a table with one row an image.

    Splits, attributes and clusters are chosen in the section 'images' of the configuration, or by --set.
    """
    from neurocontrast import stages

    settings = resolve(config, overrides, "images", locals()).images
    participants = stages.prepare_images(out, settings, overwrite=overwrite, progress=console_progress(quiet=quiet))
    show_result(cohort_result(participants), as_json=as_json)


def check(
    participants: Annotated[Path, typer.Argument(metavar="PARTICIPANTS.tsv", help="Table with one row a scan.")],
    images_root: ImagesRoot = None,
    table_only: Annotated[
        bool, typer.Option("--table-only", help="Check the table and that files exist; open no image.")
    ] = False,
    phi: Annotated[
        bool, typer.Option("--phi", help="Also look for what could identify a patient; fields are named, values never.")
    ] = False,
    config: ConfigOption = None,
    overrides: SetOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Check a table of scans, or of images, and every one in it; list all problems at once (exit code 2 if any).

    With --config, or --set of what is done to scans (data.shape, data.normalise …), also whether each scan fits that.
    """
    from neurocontrast import stages
    from neurocontrast.config import DataSettings

    settings = resolve(config, overrides, "data", {"images_root": images_root}).data
    given = {each.partition("=")[0].strip().removeprefix("data.") for each in overrides or ()}
    preprocessing = settings.preprocessing if isinstance(settings, DataSettings) else None
    if preprocessing is not None and config is None and given.isdisjoint(preprocessing.model_dump()):
        preprocessing = None
    found = stages.check(
        participants,
        images_root=settings.images_root,
        channels=getattr(settings, "channels", None),
        preprocessing=preprocessing,
        kind=settings.kind if config is not None or "kind" in given else None,
        n_workers=settings.n_workers,
        deep=not table_only,
        phi=phi,
        progress=console_progress(quiet=quiet),
    )
    show_result(Result(found.facts(), notes=[found.to_text()]), as_json=as_json)
    if not found.passed:
        raise typer.Exit(2)
