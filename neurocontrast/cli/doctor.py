"""``neurocontrast doctor``: what this machine has, and what a configured run would cost on it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from neurocontrast.cli.options import ConfigOption, QuietOption, SetOption, resolve
from neurocontrast.cli.progress import console_progress
from neurocontrast.machine import as_size

if TYPE_CHECKING:
    from neurocontrast.stages.doctor import Diagnosis

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("doctor")(doctor)


def doctor(
    config: ConfigOption = None,
    overrides: SetOption = None,
    participants: Annotated[
        Path | None,
        typer.Option("--participants", metavar="PARTICIPANTS.tsv", help="Same as --set data.participants=..."),
    ] = None,
    n_scans: Annotated[
        int | None, typer.Option("--scans", help="Number of scans, where there is no table of them yet.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="Where the run directory would be.")] = Path(),
    seconds: Annotated[
        float, typer.Option("--seconds", help="How long training steps are timed; 0 to only look at the machine.")
    ] = 10.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON, for programs.")] = False,
    quiet: QuietOption = False,
) -> None:
    """Show versions, devices, memory and disks, and estimate time, memory and disk of a run (writes nothing)."""
    from neurocontrast import stages

    settings = resolve(config, overrides, {"data.participants": None if participants is None else str(participants)})
    found = stages.doctor(settings, out=out, n_scans=n_scans, seconds=seconds, progress=console_progress(quiet=quiet))
    if as_json:
        typer.echo(json.dumps(asdict(found), indent=2, ensure_ascii=False))
    else:
        typer.echo("\n".join(_lines(found)))
    if found.problems:
        raise typer.Exit(2)


def _lines(found: Diagnosis) -> Iterator[str]:
    machine, software = found.machine, found.machine["software"]
    git, processor, memory = software["git"], machine["processor"], machine["memory"]
    revision = "" if git is None else f" (commit {git['commit'][:8]}{', modified' if git['modified'] else ''})"
    packages = ", ".join(f"{name} {version}" for name, version in software["packages"].items() if version)
    gpus = "; ".join(f"{each['name']}, {_free(each, 'available_bytes')}" for each in machine["gpus"])
    yield f"neurocontrast  {software['neurocontrast']}{revision}, Python {software['python']}, {software['platform']}"
    yield f"packages       {packages}"
    yield "optional       " + ", ".join(
        f"{name} {'yes' if there else 'no'}" for name, there in machine["extras"].items()
    )
    yield f"processor      {processor['name']}, {processor['n_usable']} of {processor['n_cores']} cores usable"
    yield f"threads        PyTorch computes with {machine['threads']}"
    yield f"GPU            {gpus or 'none that PyTorch sees'}"
    yield f"memory         {_free(memory, 'available_bytes')}"
    yield f"cache disk     {_free(machine['cache'], 'free_bytes')} at {machine['cache']['folder']}"
    yield f"run disk       {_free(machine['out'], 'free_bytes')} at {machine['out']['folder']}"
    if found.run is not None:
        yield ""
        yield from _run(found.run)
    if found.problems or found.warnings:
        yield ""
    yield from (f"problem: {text}" for text in found.problems)
    yield from (f"warning: {text}" for text in found.warnings)


def _free(place: dict[str, Any], key: str) -> str:
    return f"{as_size(place[key])} of {as_size(place['total_bytes'])} free"


def _run(run: dict[str, Any]) -> Iterator[str]:
    samples = "images" if run["kind"] == "images" else "scans"
    speed, memory = f"{run['samples_per_second']:.3g} samples/s", f"{as_size(run['memory_bytes'])} of memory"
    if run["n_scans"] is None:
        yield f"This configuration: {speed} on this machine; {memory}"
        yield "  For the time of a run give --participants PARTICIPANTS.tsv, or --scans N."
    else:
        epochs = f"{run['epochs']} epoch{'' if run['epochs'] == 1 else 's'}"
        yield f"This run: {epochs} ≈ {_duration(run['seconds'])} on this machine; {speed}; {memory}"
        yield f"  {run['n_training_scans']} {samples} to learn from, {run['n_validation_scans']} to measure on"
        if n := run["n_scans_to_preprocess"]:
            spent = run["preprocessing_seconds"]
            before = f" ≈ {_duration(spent)}, before training;" if spent else ""
            yield f"  {n} {samples} to preprocess:{before} {as_size(run['cache_bytes'])} of cache"
    micro = "" if run["micro_batch_size"] is None else f", {run['micro_batch_size']} at a time"
    yield f"  {run['batch_size']} {samples} of {_shape(run['shape'])} a step{micro}"
    yield f"  checkpoints take up to {as_size(run['run_bytes'])}"
    timed = run["timed"]
    if not timed["as_configured"]:
        yield (
            f"  Extrapolated from steps of {timed['n_scans']} {samples} of {_shape(timed['shape'])}: more --seconds "
            "would measure closer to the configured step."
        )


def _shape(shape: list[int]) -> str:
    return "×".join(map(str, shape)) + (" voxels" if len(shape) == 3 else " pixels")


def _duration(seconds: float) -> str:
    """Return a time with its unit: seconds, minutes or hours."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
