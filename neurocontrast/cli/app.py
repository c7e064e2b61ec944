"""The Typer application, exit codes, and messages at the end of a command."""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated

import typer

from neurocontrast.cli import data_commands as data
from neurocontrast.cli import evaluation_commands as evaluation
from neurocontrast.cli import network_commands as network
from neurocontrast.cli.command import (
    Result,
    accept_any_character,
    command,
    show_error,
    show_message,
    show_unexpected,
)
from neurocontrast.exceptions import (
    CheckpointError,
    ConfigError,
    NeurocontrastError,
    OtherProcessEnded,
    TrainingSuspended,
)

_INTERRUPTED = 130


def _group(name: str, help: str, commands: Mapping[str, Callable[..., Result]]) -> typer.Typer:
    """Return a Typer application in which `commands`, word → function, are below a name.

    The help of the group is also shown if no command is typed.
    """
    group = typer.Typer(
        name=name,
        help=help,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    for word, function in commands.items():
        group.command(word)(command(function))
    return group


_BEFORE_TRAINING = (
    data.simulate,
    data.index,
    data.prepare,
    data.qc,
    data.images,
    data.check,
)
_FROM_TRAINING_ON = (
    network.pretrain,
    network.embed,
    evaluation.join,
    evaluation.evaluate,
    network.finetune,
    evaluation.predict,
    network.explain,
    evaluation.report,
    evaluation.compare,
    network.bundle,
    network.doctor,
)
_WEIGHTS: dict[str, Callable[..., Result]] = {
    "import": network.import_weights,
    "export": network.export_weights,
    "list": network.list_weights,
    "path": network.find_weights,
    "verify": network.verify_weights,
}
_RECIPES: dict[str, Callable[..., Result]] = {
    "list": data.list_recipes,
    "show": data.show_recipe,
    "copy": data.copy_recipe,
    "schema": data.show_schema,
}
app = _group(
    "neurocontrast",
    "Contrastive pretraining for 3D brain MRI with the metadata that hospitals already record.\n\n"
    "The way through: index or check scans, pretrain an encoder, embed scans, evaluate, report.",
    {function.__name__: function for function in (*_BEFORE_TRAINING, *_FROM_TRAINING_ON)},
)
app.add_typer(_group("weights", "List, find and verify weights; import and export them.", _WEIGHTS))
app.add_typer(_group("config", "List, show and copy the recipes of --config.", _RECIPES))


def _show_version(is_asked: bool) -> None:
    """Print the version and end, if ``--version`` is typed."""
    if is_asked:
        from neurocontrast.provenance import version

        typer.echo(f"neurocontrast {version()}")
        raise typer.Exit


@app.callback()
def _common(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Declare the options that go before a command's name, such as ``--version``."""


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    Parameters
    ----------
    arguments : sequence of str, optional
        Words after ``neurocontrast``; by default the words of this process's command line.

    Returns
    -------
    int
        0 is success, 1 a failure while running, 2 bad input, 75 a suspension by SIGUSR1, 130 an
        interruption.
    """
    accept_any_character()
    try:
        app(args=None if arguments is None else list(arguments))
    except SystemExit as end:  # how Typer ends, usage errors (2) and interruptions included
        if end.code == _INTERRUPTED:
            show_message("interrupted")
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except NeurocontrastError as error:
        if not _is_shown_elsewhere(error):
            show_error(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        show_message("interrupted")
        return _INTERRUPTED
    except Exception as error:
        _show_unforeseen(error)
        return 1
    return 0


def _show_unforeseen(error: Exception) -> None:
    """Print one message for an error that the package did not foresee, such as a full disk."""
    if isinstance(error, OSError):
        message = error.strerror or f"{error}"
        if error.filename:
            message = f"{error.filename}: {message}"
        show_error(message)
    elif _is_out_of_memory(error):
        show_error("out of memory: lower the batch size or the number of workers")
    else:
        show_unexpected(error)


def _is_out_of_memory(error: Exception) -> bool:
    """Tell whether an error says that memory of the machine, or of a GPU, was too small."""
    # PyTorch raises RuntimeError, and torch must not be imported to compare classes.
    message = str(error)
    is_of_torch = "out of memory" in message or "allocate memory" in message
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and is_of_torch)


def _is_shown_elsewhere(error: NeurocontrastError) -> bool:
    """Tell whether another process of a distributed run shows this error or its cause."""
    from neurocontrast.parallel.devices import launched

    process = launched()
    if isinstance(error, OtherProcessEnded | TrainingSuspended):
        return process.rank > 0
    return isinstance(error, ConfigError | CheckpointError) and process.local_rank > 0
