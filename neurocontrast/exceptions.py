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
_N_OF_NAME = 120
_N_SAID = 300
_N_OF_LINE = 2_900
_UNSHOWN = ("Cc", "Cf", "Cs", "Zl", "Zp")


class NeurocontrastError(Exception):
    """Base of every error this package raises on purpose."""

    exit_code = 2  # of the command line: 2 for bad input, 1 for a failure while running

    def __str__(self) -> str:
        """Return the message with escapes for what no terminal should be sent, and lines that end."""
        return "\n".join(
            _cut(line, _N_OF_LINE) for line in printable(super().__str__()).split("\n")
        )


class NeurocontrastWarning(UserWarning):
    """Category of the Python API's warnings, which a pipeline can silence or raise."""


class ConfigError(NeurocontrastError):
    """A wrong key or value in a configuration, an option or an argument."""


class DataError(NeurocontrastError):
    """A table, image or column that cannot be used as it is."""


class LeakageError(NeurocontrastError):
    """The same person would be on both sides of a split."""


class CheckpointError(NeurocontrastError):
    """A run directory, checkpoint or weight file that cannot be used."""


class MissingDependencyError(NeurocontrastError):
    """An optional package is needed and not installed."""


class TrainingError(NeurocontrastError):
    """Training had to stop, for example on a non-finite loss."""

    exit_code = 1


class TrainingInterrupted(TrainingError):
    """Training was asked to stop, saved its state, and can be resumed."""


class TrainingSuspended(TrainingInterrupted):
    """Training was asked by SIGUSR1 to make room, and is to be started again; its exit code says so to a scheduler."""

    exit_code = 75


class OtherProcessEnded(TrainingError):
    """Another process of a distributed run has ended, and this one with it."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def suggestion(name: str, allowed: Iterable[str]) -> str:
    """Return " Did you mean 'x'?" for a near-miss, else an empty string."""
    by_lower_case = {str(candidate).lower(): str(candidate) for candidate in allowed}
    close = difflib.get_close_matches(str(name).lower(), list(by_lower_case), n=1, cutoff=0.6)
    return f" Did you mean '{by_lower_case[close[0]]}'?" if close else ""


def one_of(allowed: Iterable[str]) -> str:
    """Return the names as they are shown in a message, at most 30 of them: ``'a', 'b', 'c'``."""
    names = list(allowed)
    more = f" and {len(names) - _N_NAMES} more" if len(names) > _N_NAMES else ""
    return ", ".join(f"'{_cut(str(name), _N_OF_NAME)}'" for name in names[:_N_NAMES]) + more


def said(error: object) -> str:
    """Return what the error of another package says, as part of a sentence: on one line, and not without end."""
    return _cut(" ".join(str(error).split()), _N_SAID) or type(error).__name__


def _cut(text: str, n_max: int) -> str:
    return text if len(text) <= n_max else f"{text[: n_max - 1]}…"


def printable(text: str) -> str:
    """Return a text with escapes for control characters, and for bytes of a path that are not UTF-8."""
    if text.isprintable():
        return text
    return "".join(
        each.encode("unicode_escape", "backslashreplace").decode("ascii")
        if category(each) in _UNSHOWN and each != "\n"
        else each
        for each in text
    )
