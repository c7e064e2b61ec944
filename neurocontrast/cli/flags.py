"""Replace parameters of Python by flags of the command line in the messages of a command.

A message is made once, by the function that refuses its input, and names the function's parameters.
A user of Python can pass ``overwrite=True`` to `neurocontrast.evaluate`; a user of the command line
has to type ``--overwrite``. So a command replaces parameters by flags before it shows the message.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from typer.models import OptionInfo

_SECTIONS = {
    "evaluate": "evaluation",
    "finetune": "evaluation",
    "compare": "evaluation",
    "explain": "explanation",
    "embed": "embedding",
}
"""Command → configuration section whose keys messages name without the section."""
_NAMED = re.compile(
    r"""
    # A line about a parameter: 'out: …', 'n_folds must …', 'choose.0: …'. A configuration of flags
    # alone names its section too: 'configuration: evaluation.n_folds: …'.
    ^(?:configuration:\ \w+\.)?(?P<subject>\w+)(?:\.\d+)?(?=:\ |\ must\ )
    |
    # A value to pass: 'overwrite=True', 'Set n_folds=3', 'C=[0.1]'.
    (?:\b(?P<verb>[Ss]et)\ )?(?<![\w.-])(?P<parameter>\w+)=(?P<value>\w+|[\[{])
    """,
    re.MULTILINE | re.VERBOSE,
)


@dataclass(frozen=True)
class Flags:
    """Flags of a command, by the parameters of the Python function that does the command's work."""

    by_parameter: Mapping[str, str]
    """Parameter → flag, such as ``--n-folds``; "" for a positional argument, which has no flag."""
    section: str = ""
    """Section of the configuration, or "", whose keys without a flag are set by ``--set``."""

    @classmethod
    def of(cls, command: str, parameters: Mapping[str, inspect.Parameter]) -> Self:
        """Derive the flags of a command from the annotations of its function's `parameters`."""
        flags = {name: _flag_of(parameter) for name, parameter in parameters.items()}
        return cls(flags, _SECTIONS.get(command, ""))

    def translate(self, message: str) -> str:
        """Replace the parameters that a message names by the flags that set them.

        Parameters
        ----------
        message : str
            Message of a function of the package.

        Returns
        -------
        str
            Message for the command line. A parameter whose flag the message names already stays:
            the message was written for users of Python and of the command line.

        Examples
        --------
        >>> from neurocontrast.cli.flags import Flags
        >>> flags = Flags({"out": "--out", "overwrite": "--overwrite"}, section="evaluation")
        >>> flags.translate("out: 'E' exists. Pass overwrite=True.")
        "--out: 'E' exists. Pass --overwrite."
        >>> flags.translate("Set harmonise=none.")
        'Use --set evaluation.harmonise=none.'
        """
        return _NAMED.sub(self._in_flags, message)

    def _in_flags(self, match: re.Match[str]) -> str:
        """Return the words of the command line for one Python parameter in an error message.

        `match` is a part of the message that names a parameter, with or without a value. The caller
        replaces that part by the returned words, such as ``--overwrite`` for ``overwrite=True``.
        The part's own text is returned if the command has no such parameter, or if the message
        already names the flag.
        """
        name = match["subject"] or match["parameter"]
        flag = self.by_parameter.get(name, "")
        if flag and flag in match.string:
            return match[0]
        if flag and match["subject"]:
            return flag
        typed = ""
        if flag:
            typed = _flag_with_value(flag, match["value"])
        elif match["parameter"] and self._is_key(name):
            typed = f"--set {self.section}.{name}={match['value']}"
        if not typed:
            return match[0]
        if match["verb"]:
            verb = {"Set": "Use", "set": "use"}[match["verb"]]
            return f"{verb} {typed}"
        return typed

    def _is_key(self, name: str) -> bool:
        """Tell whether `name` is a key of the command's section for which no option exists.

        Such a key of the configuration is set by ``--set section.key=value``.
        """
        if not self.section or name in self.by_parameter:
            return False
        from neurocontrast.config import Config

        settings = Config.model_fields[self.section].annotation
        return name in getattr(settings, "model_fields", ())


def _flag_of(parameter: inspect.Parameter) -> str:
    """Return the flag of an option as users type flags, such as ``--n-folds``; "" for an argument.

    Of several flags of the option, the first is returned. Typer's description of the option is an
    annotation of `parameter`.
    """
    for annotation in getattr(parameter.annotation, "__metadata__", ()):
        if not isinstance(annotation, OptionInfo):
            continue
        first, *_ = annotation.param_decls or (f"--{parameter.name.replace('_', '-')}",)
        return first.partition("/")[0]
    return ""


def _flag_with_value(flag: str, value: str) -> str:
    """Return the words that users type for a flag with a Python value: ``--no-x`` for False.

    "" is returned if the value begins a list or mapping, which no flag takes.
    """
    if value in ("True", "true"):
        return flag
    if value in ("False", "false"):
        return f"--no-{flag.removeprefix('--')}"
    if value in ("[", "{"):
        return ""
    return f"{flag} {value}"
