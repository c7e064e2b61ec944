"""The Typer application and how it ends: exit codes and messages."""

from __future__ import annotations

import os
import traceback
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from neurocontrast.cli import (
    check,
    compare,
    doctor,
    embed,
    evaluate,
    explain,
    images,
    index,
    predict,
    pretrain,
    report,
    simulate,
)
from neurocontrast.exceptions import ConfigError, NeurocontrastError, OtherProcessEnded, TrainingSuspended

__all__ = ["app", "run"]

_INTERRUPTED = 130
_OUT_OF_MEMORY = "out of memory: lower the batch size or the number of workers"

app = typer.Typer(
    name="neurocontrast",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help=(
        "Contrastive pretraining for 3D brain MRI with the metadata that hospitals already record.\n\n"
        "The way through: simulate or check a table of scans, pretrain an encoder, embed scans, evaluate, report."
    ),
)


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


simulate.register(app)
index.register(app)
images.register(app)
check.register(app)
pretrain.register(app)
embed.register(app)
evaluate.register(app)
predict.register(app)
explain.register(app)
report.register(app)
compare.register(app)
doctor.register(app)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    Returns
    -------
    int
        0 on success, 1 on a failure while running, 2 on bad input, 75 when suspended by SIGUSR1 (to be
        started again), 130 when interrupted.
    """
    console = Console(stderr=True, highlight=False)
    try:
        app(args=None if arguments is None else list(arguments))
    except SystemExit as end:  # how Typer ends, usage errors (2) and interruptions included
        if end.code == _INTERRUPTED:
            console.print("interrupted")
        return end.code if isinstance(end.code, int) else 0
    except NeurocontrastError as error:
        if not _is_told_elsewhere(error):
            _show_error(console, str(error))
        return error.exit_code
    except KeyboardInterrupt:
        console.print("interrupted")
        return _INTERRUPTED
    except MemoryError:
        _show_error(console, _OUT_OF_MEMORY)
        return 1
    except OSError as error:
        _show_error(console, _explain(error))
        return 1
    except Exception as error:
        if isinstance(error, RuntimeError) and _tells_of_memory(str(error)):
            _show_error(console, _OUT_OF_MEMORY)
            return 1
        _show_unexpected(console, error)
        return 1
    return 0


def _show_error(console: Console, message: str) -> None:
    console.print(Text("error: ", style="bold red") + Text(message), soft_wrap=True)


def _is_told_elsewhere(error: NeurocontrastError) -> bool:
    """Say whether another process of a distributed run shows this error, or the reason for it."""
    from neurocontrast.training.launched import launched

    place = launched()
    return (isinstance(error, OtherProcessEnded | TrainingSuspended) and place.rank > 0) or (
        isinstance(error, ConfigError) and place.local_rank > 0
    )


def _tells_of_memory(message: str) -> bool:
    # PyTorch raises RuntimeError, and torch must not be imported to compare classes.
    return "out of memory" in message or "can't allocate memory" in message


def _explain(error: OSError) -> str:
    place = f"{error.filename}: " if error.filename else ""
    return f"{place}{error.strerror or error}"


def _show_unexpected(console: Console, error: Exception) -> None:
    if os.environ.get("NEUROCONTRAST_TRACEBACK"):
        traceback.print_exception(error)
    _show_error(
        console,
        f"unexpected {type(error).__name__}: {error}\n"
        "This is a defect of neurocontrast. Please report it with the traceback, which "
        "NEUROCONTRAST_TRACEBACK=1 before the command shows.",
    )
