"""``neurocontrast doctor``: what this machine has, and what a configured run would cost on it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from neurocontrast.cli.options import ConfigOption, QuietOption, SetOption, resolve
from neurocontrast.cli.progress import console_progress
from neurocontrast.machine import as_size

if TYPE_CHECKING:
    from neurocontrast.stages.doctor import Diagnosis

__all__ = ["register"]

_NOUNS = {"volumes": ("scans", "voxels"), "images": ("images", "pixels")}


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
        typer.echo(json.dumps(found.to_json(), indent=2, ensure_ascii=False))
    else:
        typer.echo("\n".join(_lines(found)))
    if found.problems:
        raise typer.Exit(2)


def _lines(found: Diagnosis) -> Iterator[str]:
    yield from _machine(found.machine)
    if found.run is not None:
        yield ""
        yield from _run(found.run)
    if found.problems or found.warnings:
        yield ""
    yield from (f"problem: {text}" for text in found.problems)
    yield from (f"warning: {text}" for text in found.warnings)


def _machine(machine: dict[str, Any]) -> Iterator[str]:
    software, processor, threads = machine["software"], machine["processor"], machine["threads"]
    git = software["git"]
    revision = "" if git is None else f" (commit {git['commit'][:8]}{', modified' if git['modified'] else ''})"
    yield f"neurocontrast  {software['neurocontrast']}{revision}, Python {software['python']}, {software['platform']}"
    yield "packages       " + ", ".join(
        f"{name} {version}" for name, version in software["packages"].items() if version
    )
    extras = machine["extras"]
    yield "optional       " + ", ".join(f"{name} {'yes' if there else 'no'}" for name, there in extras.items())
    named = "".join(f", {name}={value}" for name, value in threads["environment"].items())
    yield f"processor      {processor['name']}, {processor['n_usable']} of {processor['n_cores']} cores usable"
    yield f"threads        PyTorch computes with {threads['n_torch']}{named}"
    gpus = [
        f"{gpu['name']}, {as_size(gpu['available_bytes'])} of {as_size(gpu['total_bytes'])} free"
        for gpu in machine["gpus"]
    ]
    yield "GPU            " + ("; ".join(gpus) or "none that PyTorch sees")
    memory = machine["memory"]
    yield f"memory         {as_size(memory['available_bytes'])} of {as_size(memory['total_bytes'])} free"
    for name, label in (("cache", "cache disk"), ("out", "run disk")):
        disk = machine[name]
        yield f"{label:<15}{as_size(disk['free_bytes'])} of {as_size(disk['total_bytes'])} free at {disk['folder']}"


def _run(run: dict[str, Any]) -> Iterator[str]:
    samples, grains = _NOUNS[run["kind"]]
    memory = as_size(run["memory_bytes"])
    if run["n_scans"] is None:
        yield f"This configuration: {run['samples_per_second']:.3g} samples/s on this machine; {memory}"
        yield "  For the time of a run give --participants PARTICIPANTS.tsv, or --scans N."
    else:
        epochs = f"{run['epochs']} epoch{'' if run['epochs'] == 1 else 's'}"
        yield f"This run: {epochs} ≈ {_duration(run['seconds'])} on this machine; {memory}"
        yield (
            f"  {run['n_training_scans']} {samples} to learn from, {run['n_validation_scans']} to measure on; "
            f"{run['samples_per_second']:.3g} samples/s"
        )
        yield _first(run, samples)
    micro = "" if run["micro_batch_size"] is None else f", {run['micro_batch_size']} at a time"
    shape = "×".join(map(str, run["shape"]))
    cache = f"; {as_size(run['volume_bytes'])} of cache a scan" if run["volume_bytes"] else ""
    yield f"  {run['batch_size']} {samples} of {shape} {grains} a step{micro}{cache}"
    yield f"  checkpoints take up to {as_size(run['run_bytes'])}"
    timed = run["timed"]
    if not timed["as_configured"]:
        yield (
            f"  Extrapolated from steps of {timed['n_scans']} {samples} of {'×'.join(map(str, timed['shape']))} "
            f"{grains}: more --seconds would measure closer to the configured step."
        )


def _first(run: dict[str, Any], samples: str) -> str:
    if not run["n_scans_to_preprocess"]:
        return f"  All {samples} are preprocessed already."
    spent, needed = run["preprocessing_seconds"], as_size(run["cache_bytes"])
    time = "" if spent is None else f" ≈ {_duration(spent)}, before training;"
    return f"  {run['n_scans_to_preprocess']} scans to preprocess:{time} {needed} of cache"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes:02d}"
    days, hours = divmod(round(seconds / 3600), 24)
    return f"{days} days {hours} h"
