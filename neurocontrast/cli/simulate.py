"""``neurocontrast simulate``: a multi-site cohort made from the MNI152 template."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from neurocontrast.cli.options import ConfigOption, OverwriteOption, QuietOption, SetOption, resolve
from neurocontrast.cli.progress import console_progress

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("simulate")(simulate)


def simulate(
    out: Annotated[
        Path, typer.Argument(metavar="OUT", help="Folder to write: participants.tsv, images/, simulation.json.")
    ],
    n_subjects: Annotated[int | None, typer.Option("--n-subjects", help="Number of subjects.")] = None,
    n_sites: Annotated[int | None, typer.Option("--n-sites", help="Number of sites.")] = None,
    spacing_mm: Annotated[float | None, typer.Option("--spacing-mm", help="Voxel size in mm.")] = None,
    patients: Annotated[float | None, typer.Option("--patients", help="Fraction of subjects who are patients.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Seed of every subject and site.")] = None,
    site_seed: Annotated[
        int | None, typer.Option("--site-seed", help="Seed of the sites alone: cohorts that share it share scanners.")
    ] = None,
    overwrite: OverwriteOption = False,
    config: ConfigOption = None,
    overrides: SetOption = None,
    quiet: QuietOption = False,
) -> None:
    """Simulate a multi-site cohort of brains with age, sex, disease and scanner effects (labelled as simulated)."""
    from neurocontrast import stages

    flags = {
        "simulation.n_subjects": n_subjects,
        "simulation.n_sites": n_sites,
        "simulation.spacing_mm": spacing_mm,
        "simulation.patients": patients,
        "simulation.seed": seed,
        "simulation.site_seed": site_seed,
    }
    settings = resolve(config, overrides, flags).simulation
    participants = stages.simulate(out, settings, overwrite=overwrite, progress=console_progress(quiet=quiet))
    typer.echo(participants)
