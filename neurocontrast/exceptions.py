"""Errors for users, and suggestions for misspelt names."""

import difflib
from collections.abc import Iterable
from unicodedata import category

__all__ = [
    "CheckpointError",
    "ConfigError",
    "DataError",
    "LeakageError",
    "MissingDependencyError",
    "NeurocontrastError",
    "NeurocontrastWarning",
    "OtherProcessEnded",
    "TrainingError",
    "TrainingInterrupted",
    "TrainingSuspended",
    "one_of",
    "printable",
    "said",
    "suggestion",
]

_N_NAMES = 30
"""Largest number of names that a message lists."""
_N_OF_NAME = 120
"""Largest number of characters of a name in a message."""
_N_SAID = 300
"""Largest number of characters quoted from the message of another package."""
_N_OF_LINE = 2_900
"""Largest number of characters in a line of a message."""
_UNSHOWN = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Unicode categories of characters that messages escape: control and format characters, line
ends.
"""


class NeurocontrastError(Exception):
    """Base of every error this package raises on purpose."""

    exit_code = 2
    """Exit code of the command line: 2 for bad input, 1 for a failure while running."""

    def __str__(self) -> str:
        """Return the message with control characters escaped and long lines cut."""
        lines = []
        for line in printable(super().__str__()).split("\n"):
            lines.append(_cut(line, _N_OF_LINE))
        return "\n".join(lines)


class NeurocontrastWarning(UserWarning):
    """Category of the warnings of the Python API, which a program can silence or turn to errors."""


class ConfigError(NeurocontrastError):
    """A wrong key or value in a configuration, an option or an argument."""


class DataError(NeurocontrastError):
    """A table, image or column that cannot be used."""


class LeakageError(NeurocontrastError):
    """A person would be tested from whom pretraining or training has learned."""


class CheckpointError(NeurocontrastError):
    """A run directory, checkpoint or weight file that cannot be used."""


class MissingDependencyError(NeurocontrastError):
    """An optional package is needed and not installed."""


class TrainingError(NeurocontrastError):
    """Training had to stop, for example on a non-finite loss."""

    exit_code = 1


class TrainingInterrupted(TrainingError):
    """Training was asked to stop, has saved the state of the run, and can be resumed."""


class TrainingSuspended(TrainingInterrupted):
    """Training was asked by the signal SIGUSR1 to make room, and is to be started again later."""

    exit_code = 75
    """Exit code 75, by which a scheduler knows to start the job again."""


class OtherProcessEnded(TrainingError):
    """Training had to stop because another process of a distributed run has ended."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def suggestion(name: str, allowed: Iterable[str]) -> str:
    """Return " Did you mean 'x'?" if an allowed name resembles an unknown one; "" if none does."""
    by_lower_case = {}
    for candidate in map(str, allowed):
        by_lower_case[candidate.lower()] = candidate
    close = difflib.get_close_matches(str(name).lower(), list(by_lower_case), n=1, cutoff=0.6)
    if not close:
        return ""
    return f" Did you mean '{by_lower_case[close[0]]}'?"


def one_of(allowed: Iterable[str]) -> str:
    """Return names in quotes for a message, at most 30 of them: ``'a', 'b', 'c'``."""
    names = list(allowed)
    quoted = []
    for name in names[:_N_NAMES]:
        quoted.append(f"'{_cut(str(name), _N_OF_NAME)}'")
    listed = ", ".join(quoted)
    if len(names) > _N_NAMES:
        return f"{listed} and {len(names) - _N_NAMES} more"
    return listed


def said(error: object) -> str:
    """Return the message of another package's `error` on one line, cut to 300 characters.

    An error without a message is named by its class.
    """
    return _cut(" ".join(str(error).split()), _N_SAID) or type(error).__name__


def _cut(text: str, n_max: int) -> str:
    """Return `text` cut to `n_max` characters, the last an ellipsis; a shorter text unchanged."""
    if len(text) <= n_max:
        return text
    return f"{text[: n_max - 1]}…"


def printable(text: str) -> str:
    """Return `text` with control characters, and bytes of a path that are not UTF-8, escaped."""
    if text.isprintable():
        return text
    return "".join(map(_escaped, text))


def _escaped(character: str) -> str:
    """Return a character, or its escape if a terminal would take the character for a command.

    The end of a line is not escaped.
    """
    if category(character) in _UNSHOWN and character != "\n":
        return character.encode("unicode_escape", "backslashreplace").decode("ascii")
    return character
