"""The commands that run a network: `pretrain`, `embed`, `explain`, `doctor`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from neurocontrast.cli.options import (
    ConfigOption,
    Evaluated,
    ImagesRoot,
    JsonOption,
    OverwriteOption,
    ParticipantsOption,
    QuietOption,
    RunSettings,
    SetOption,
    resolve,
)
from neurocontrast.cli.output import Result, console_progress, show_result
from neurocontrast.cli.results import embeddings_result, explanation_result, run_result

__all__ = ["doctor", "embed", "explain", "pretrain"]


def pretrain(
    out: Annotated[Path, typer.Option(help="Run directory to write.")],
    config: ConfigOption = None,
    overrides: SetOption = None,
    participants: RunSettings = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue a run that was stopped, to the same weights.")
    ] = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Pretrain an encoder with a contrastive objective that knows age, sex, site or any other column."""
    from neurocontrast import stages

    # A run that is resumed knows its own configuration, unless it is given again.
    if resume and config is None and (out / "config.yaml").is_file():
        config = out / "config.yaml"
    nothing = resume and config is None and not overrides and participants is None
    given = {"participants": participants}
    settings = None if nothing else resolve(config, overrides, "data", given, check_objective=True)
    run = stages.pretrain(settings, out=out, resume=resume, progress=console_progress(quiet=quiet))
    show_result(run_result(run), as_json=as_json)


def embed(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run directory of `pretrain`.")],
    participants: ParticipantsOption,
    out: Annotated[Path, typer.Option(metavar="EMB.parquet", help="Embeddings table to write.")],
    images_root: ImagesRoot = None,
    overwrite: OverwriteOption = False,
    config: ConfigOption = None,
    overrides: SetOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Embed scans with a frozen encoder, preprocessed exactly as the run's own scans were."""
    from neurocontrast import stages

    written = stages.embed(
        run,
        participants=participants,
        out=out,
        config=resolve(config, overrides, "data", {"images_root": images_root}),
        overwrite=overwrite,
        progress=console_progress(quiet=quiet),
    )
    show_result(embeddings_result(written), as_json=as_json)


def explain(
    evaluation: Evaluated,
    run: Annotated[Path, typer.Option(metavar="RUN", help="Run directory whose embeddings were evaluated.")],
    participants: ParticipantsOption,
    out: Annotated[
        Path | None, typer.Option(help="Folder to write (default: EVAL/explanation, where `report` looks).")
    ] = None,
    method: Annotated[str | None, typer.Option(metavar="occlusion|gradient", help="How the map is made.")] = None,
    n_subjects: Annotated[int | None, typer.Option(help="Subjects to average over, at most.")] = None,
    patch_mm: Annotated[float | None, typer.Option(help="Side of the occluded cubes.")] = None,
    positive: Annotated[str | None, typer.Option(help="Of several classes, the one to explain.")] = None,
    images_root: ImagesRoot = None,
    overwrite: OverwriteOption = False,
    config: ConfigOption = None,
    overrides: SetOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Map where in the brain a change of the scan changes what the probe says, for `report` to show."""
    from neurocontrast import stages

    written = stages.explain(
        evaluation,
        run=run,
        participants=participants,
        out=out,
        images_root=images_root,
        config=resolve(config, overrides, "explanation", locals()),
        overwrite=overwrite,
        progress=console_progress(quiet=quiet),
    )
    show_result(explanation_result(written), as_json=as_json)


def doctor(
    config: ConfigOption = None,
    overrides: SetOption = None,
    participants: RunSettings = None,
    n_scans: Annotated[
        int | None, typer.Option("--scans", help="Number of scans, where there is no table of them yet.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Where the run directory would be.")] = Path(),
    seconds: Annotated[
        float, typer.Option(help="How long training steps are timed; 0 to only look at the machine.")
    ] = 10.0,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Show versions, devices, memory and disks, and estimate time, memory and disk of a run (writes nothing)."""
    from neurocontrast import stages

    settings = resolve(config, overrides, "data", {"participants": participants}, check_objective=True)
    found = stages.doctor(settings, out=out, n_scans=n_scans, seconds=seconds, progress=console_progress(quiet=quiet))
    show_result(Result(asdict(found), notes=[found.to_text()]), as_json=as_json)
    if found.problems:
        raise typer.Exit(2)
