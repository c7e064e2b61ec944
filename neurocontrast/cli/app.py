"""The Typer application and how it ends: exit codes and messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from neurocontrast.cli.command import command, show_error, show_message, show_unexpected
from neurocontrast.cli.data_commands import (
    check,
    convert,
    copy_recipe,
    images,
    index,
    list_recipes,
    prepare,
    qc,
    show_recipe,
    show_schema,
    simulate,
)
from neurocontrast.cli.evaluation_commands import compare, evaluate, join, predict, report
from neurocontrast.cli.network_commands import (
    bundle,
    doctor,
    embed,
    explain,
    export_weights,
    find_weights,
    finetune,
    import_weights,
    list_weights,
    pretrain,
    verify_weights,
)
from neurocontrast.exceptions import (
    CheckpointError,
    ConfigError,
    NeurocontrastError,
    OtherProcessEnded,
    TrainingSuspended,
)

_INTERRUPTED = 130
_HELP = {"help_option_names": ["-h", "--help"]}

app = typer.Typer(
    name="neurocontrast",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings=_HELP,
    help=(
        "Contrastive pretraining for 3D brain MRI with the metadata that hospitals already record.\n\n"
        "The way through: index or check scans, pretrain an encoder, embed scans, evaluate, report."
    ),
)
_BEFORE_TRAINING = (simulate, convert, index, prepare, qc, images, check)
_FROM_TRAINING_ON = (pretrain, embed, join, evaluate, finetune, predict, explain, report, compare, bundle, doctor)
for function in (*_BEFORE_TRAINING, *_FROM_TRAINING_ON):
    app.command()(command(function))

weights = typer.Typer(
    no_args_is_help=True,
    context_settings=_HELP,
    help="List, find and verify weights; import and export them.",
)
weights.command("import")(command(import_weights))
weights.command("export")(command(export_weights))
weights.command("list")(command(list_weights))
weights.command("path")(command(find_weights))
weights.command("verify")(command(verify_weights))
app.add_typer(weights, name="weights")
recipes = typer.Typer(no_args_is_help=True, context_settings=_HELP, help="List, show and copy the recipes of --config.")
recipes.command("list")(command(list_recipes))
recipes.command("show")(command(show_recipe))
recipes.command("copy")(command(copy_recipe))
recipes.command("schema")(command(show_schema))
app.add_typer(recipes, name="config")


def _show_version(value: bool) -> None:
    if value:
        from neurocontrast.provenance import version

        typer.echo(f"neurocontrast {version()}")
        raise typer.Exit


@app.callback()
def _common(
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Options that go before every command."""


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    0 is success, 1 a failure while running, 2 bad input, 75 a suspension by SIGUSR1, 130 an interruption.
    """
    try:
        app(args=None if arguments is None else list(arguments))
    except SystemExit as end:  # how Typer ends, usage errors (2) and interruptions included
        if end.code == _INTERRUPTED:
            show_message("interrupted")
        return end.code if isinstance(end.code, int) else 0
    except NeurocontrastError as error:
        if not _is_shown_elsewhere(error):
            show_error(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        show_message("interrupted")
        return _INTERRUPTED
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        show_error(f"{place}{error.strerror or error}")
    except Exception as error:  # the last place before a traceback: whatever it is, one message is shown
        # PyTorch raises RuntimeError, and torch must not be imported to compare classes.
        is_full = isinstance(error, RuntimeError) and ("out of memory" in str(error) or "allocate memory" in str(error))
        if is_full or isinstance(error, MemoryError):
            show_error("out of memory: lower the batch size or the number of workers")
        else:
            show_unexpected(error)
    else:
        return 0
    return 1


def _is_shown_elsewhere(error: NeurocontrastError) -> bool:
    """Say whether another process of a distributed run shows this error, or the reason for it."""
    from neurocontrast.parallel.devices import launched

    place = launched()
    if isinstance(error, OtherProcessEnded | TrainingSuspended):
        return place.rank > 0
    return isinstance(error, ConfigError | CheckpointError) and place.local_rank > 0
