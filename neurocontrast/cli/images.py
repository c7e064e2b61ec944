"""``neurocontrast images``: a data set of natural images, decoded once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from neurocontrast.cli.options import ConfigOption, OverwriteOption, QuietOption, SetOption, resolve
from neurocontrast.cli.progress import console_progress

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("images")(images)


def images(
    out: Annotated[
        Path, typer.Argument(metavar="OUT", help="Folder to write: images.npy, participants.tsv, images.json.")
    ],
    dataset: Annotated[
        str | None,
        typer.Option("--dataset", help="digits (default), cifar10, cifar100, mnist, fashion-mnist or folder."),
    ] = None,
    source: Annotated[
        Path | None, typer.Option("--source", help="Folder or archive (.tar, .tar.gz, .tar.xz, .zip) of its files.")
    ] = None,
    size: Annotated[int | None, typer.Option("--size", help="Scale and crop every image to so many pixels.")] = None,
    background: Annotated[
        str | None, typer.Option("--background", help="random: ColorMNIST's colours behind grey pictures.")
    ] = None,
    n_train: Annotated[int | None, typer.Option("--n-train", help="Keep so many training images.")] = None,
    n_validation: Annotated[int | None, typer.Option("--n-validation", help="Keep so many for validation.")] = None,
    n_test: Annotated[int | None, typer.Option("--n-test", help="Keep so many test images.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Seed of split, subset, background and clusters.")] = None,
    overwrite: OverwriteOption = False,
    config: ConfigOption = None,
    overrides: SetOption = None,
    quiet: QuietOption = False,
) -> None:
    """Prepare a data set of natural images: one file of bytes and a table with one row an image.

    Splits, attributes and clusters are chosen in the section 'images' of the configuration, or by --set.
    """
    from neurocontrast import stages

    flags = {
        "images.dataset": dataset,
        "images.source": None if source is None else str(source),
        "images.size": size,
        "images.background": background,
        "images.n_train": n_train,
        "images.n_validation": n_validation,
        "images.n_test": n_test,
        "images.seed": seed,
    }
    settings = resolve(config, overrides, flags).images
    participants = stages.prepare_images(out, settings, overwrite=overwrite, progress=console_progress(quiet=quiet))
    typer.echo(participants)
