"""``neurocontrast pretrain``: train an encoder on healthy scans."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from neurocontrast.cli.options import ConfigOption, QuietOption, SetOption, resolve
from neurocontrast.cli.progress import console_progress

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("pretrain")(pretrain)


def pretrain(
    out: Annotated[Path, typer.Option("--out", help="Run directory to write.")],
    config: ConfigOption = None,
    overrides: SetOption = None,
    participants: Annotated[
        Path | None,
        typer.Option("--participants", metavar="PARTICIPANTS.tsv", help="Same as --set data.participants=..."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue a run that was stopped, to the same weights.")
    ] = False,
    quiet: QuietOption = False,
) -> None:
    """Pretrain an encoder with a contrastive objective that knows age, sex, site or any other column."""
    from neurocontrast import stages
    from neurocontrast.training.launched import launched

    flags = {"data.participants": None if participants is None else str(participants)}
    # A run that is resumed knows its own configuration, unless it is given again.
    if resume and config is None and (out / "config.yaml").is_file():
        config = out / "config.yaml"
    nothing = resume and config is None and not overrides and participants is None
    settings = None if nothing else resolve(config, overrides, flags)
    run = stages.pretrain(settings, out=out, resume=resume, progress=console_progress(quiet=quiet))
    if launched().rank == 0:
        typer.echo(run)
