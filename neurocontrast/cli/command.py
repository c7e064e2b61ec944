"""What commands share: their options, and how a function that returns a result becomes a command."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.models import OptionInfo

from neurocontrast.cli.output import Result, show_result
from neurocontrast.display import console_progress, sign_of_life
from neurocontrast.exceptions import NeurocontrastError
from neurocontrast.parallel.devices import launched

if TYPE_CHECKING:
    from neurocontrast.config import Config
    from neurocontrast.progress import Progress

__all__ = [
    "Configured",
    "Evaluated",
    "Evaluating",
    "Given",
    "ImagesRoot",
    "Overwrite",
    "Participants",
    "Table",
    "argument",
    "command",
    "in_flags",
    "option",
]


def option(help: str, *names: str, metavar: str | None = None) -> Any:
    """Return what Typer shows of an option."""
    return typer.Option(*names, help=help, metavar=metavar)


def argument(metavar: str, help: str) -> Any:
    """Return what Typer shows of an argument."""
    return typer.Argument(help=help, metavar=metavar)


_SECTIONS = {"evaluate": "evaluation", "finetune": "evaluation", "compare": "evaluation", "explain": "explanation",
             "embed": "embedding"}  # fmt: skip
"""The section of the configuration whose keys a command's messages name without it."""
Overwrite = Annotated[bool, option("Replace what an earlier call of this command wrote.", "--overwrite")]
Table = Annotated[Path, argument("PARTICIPANTS.tsv", "Table with one row per scan.")]
Participants = Annotated[Path, option("Table with one row per scan.", metavar="PARTICIPANTS.tsv")]
ImagesRoot = Annotated[Path | None, option("Folder that relative image paths start from (default: of the table).")]
Evaluated = Annotated[Path, argument("EVAL", "Evaluation directory of `evaluate`.")]


@dataclass(frozen=True)
class Given:
    """The options of every command."""

    as_json: Annotated[bool, option("Print the result as JSON, for programs.", "--json")] = False
    quiet: Annotated[bool, option("Show no progress: errors and the result only.", "--quiet", "-q")] = False
    options: Mapping[str, Any] = field(default_factory=dict)
    """The command's own options by name: the arguments of the function of Python that does its work."""

    @property
    def progress(self) -> Progress:
        """A progress for a terminal, a log, or nowhere."""
        return console_progress(quiet=self.quiet)


@dataclass(frozen=True)
class Configured(Given):
    """The options of every command, and those of a configuration."""

    config: Annotated[
        Path | None, option("YAML file, or the name of a recipe (`config list`).", "--config", metavar="FILE")
    ] = None
    overrides: Annotated[
        list[str] | None,
        option("Override one key, e.g. training.epochs=10; may be repeated.", "--set", metavar="KEY=VALUE"),
    ] = None

    def resolve(self, *, check_objective: bool = False, **sections: Mapping[str, Any]) -> Config:
        """Return the configuration: the file, then ``--set``, then the command's own options.

        Each section has the values of its keys as Typer gives them; None is an option that was not given.
        """
        from neurocontrast.config import load_config

        return load_config(self.config, self.overrides or (), sections=sections, check_objective=check_objective)


@dataclass(frozen=True)
class Evaluating(Configured):
    """The options of commands that evaluate: what is predicted, and in which folds."""

    target: Annotated[str | None, option("Column to predict: diagnosis, age, sex, site ...")] = None
    splits: Annotated[str | None, option("How folds are made.", metavar="stratified|leave-site-out")] = None
    n_folds: Annotated[int | None, option("Number of folds of stratified splits.")] = None
    n_repeats: Annotated[int | None, option("Number of times that stratified splits are drawn.")] = None
    seed: Annotated[int | None, option("Seed of splits and bootstrap.")] = None
    positive: Annotated[str | None, option("Class that counts as positive.")] = None
    split_file: Annotated[Path | None, option("Use the folds of another evaluation: its splits.tsv.")] = None
    threshold: Annotated[
        str | None,
        option("Score from which a scan is positive: half, prevalence, or a probability.", metavar="RULE"),
    ] = None
    allow_overlap: Annotated[bool | None, option("Evaluate people of the pretraining too.", "--allow-overlap")] = None
    overwrite: Overwrite = False

    def resolve_evaluation(self, **others: Any) -> Config:
        """Return the configuration with the keys of its section ``evaluation`` that these options, and others, give."""
        own = set(Evaluating.__dataclass_fields__) - set(Configured.__dataclass_fields__) - {"overwrite"}
        return self.resolve(evaluation={name: getattr(self, name) for name in own} | others)


def command(function: Callable[..., Result]) -> Callable[..., None]:
    """Return a command that has the options of `function` and of its argument `given`, and prints its result."""
    own = dict(inspect.signature(function, eval_str=True).parameters)
    kind = own.pop("given").annotation
    shared = dict(inspect.signature(kind, eval_str=True).parameters)
    del shared["options"]
    last = Configured.__dataclass_fields__

    def run(**options: Any) -> None:
        given = kind(**{name: options.pop(name) for name in shared}, options=options)
        try:
            with nullcontext() if given.quiet or launched().rank else sign_of_life():
                result = function(given, **options)
        except NeurocontrastError as error:
            error.args = (in_flags(str(error), own | shared, _SECTIONS.get(function.__name__, "")), *error.args[1:])
            raise
        show_result(result, as_json=given.as_json)
        if result.exit_code:
            raise typer.Exit(result.exit_code)

    run.__name__, run.__doc__ = function.__name__, function.__doc__
    options = [*own.values(), *sorted(shared.values(), key=lambda each: each.name in last)]
    run.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    return run


def in_flags(message: str, parameters: Mapping[str, inspect.Parameter], section: str = "") -> str:
    """Return a message that names parameters as Python does, with the flags of a command in their place.

    ``out: …`` at the beginning of a line becomes ``--out: …``, ``overwrite=True`` becomes ``--overwrite``, and
    ``n_workers=1`` becomes ``--n-workers 1``. A key of the command's `section` of the configuration that has no flag,
    such as ``harmonise=none``, becomes ``--set evaluation.harmonise=none``. A flag that the message names already is
    left alone.
    """
    for name, parameter in parameters.items():
        options = [each for each in getattr(parameter.annotation, "__metadata__", ()) if isinstance(each, OptionInfo)]
        flag = [*(options[0].param_decls or () if options else ()), f"--{name.replace('_', '-')}"][0].partition("/")[0]
        if options and flag not in message:
            # Without a file and --set, a value of the configuration was given by its flag.
            message = re.sub(rf"^(configuration: \w+\.)?{name}(?=: )", flag, message, flags=re.MULTILINE)
            message = re.sub(rf"(?<![\w.]){name}=[Tt]rue\b", flag, message)
            message = re.sub(rf"(?<![\w.]){name}=[Ff]alse\b", f"--no-{flag[2:]}", message)
            message = re.sub(rf"(?<![\w.]){name}=(?=\w)", f"{flag} ", message)
    for name in _keys_of(section) - parameters.keys():
        message = re.sub(rf"(?<![\w.-]){name}=(?=[\w\[{{])", f"--set {section}.{name}=", message)
    return re.sub(r"\b([Ss])et (?=--)", lambda found: {"s": "use ", "S": "Use "}[found[1]], message)


def _keys_of(section: str) -> set[str]:
    """Return the keys of a section of the configuration; none for ""."""
    from neurocontrast.config import Config

    return set(Config.model_fields[section].annotation.model_fields) if section else set()  # type: ignore[union-attr]
