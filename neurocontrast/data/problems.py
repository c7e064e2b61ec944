"""Collect the problems of a table, so that one error names all of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from neurocontrast.exceptions import DataError, printable

N_SHOWN = 20
"""Largest number of problems that a message shows in full."""


class Problem(NamedTuple):
    """Problem of a table: sentence, column, line, and name of the row; made by `Problems.add`."""

    text: str
    column: str = ""
    line: int | None = None
    name: str = ""

    def __str__(self) -> str:
        places = []
        if self.line is not None:
            places.append(f"line {self.line}")
        if self.name:
            places.append(self.name)
        if self.column:
            places.append(f"column '{self.column}'")
        if not places:
            return printable(self.text)
        return printable(f"{', '.join(places)}: {self.text}")


@dataclass
class Problems:
    """Problems of one table, and hints for the user; the table's name begins the message."""

    source: str
    found: list[Problem] = field(default_factory=list)
    hints: list[str] = field(default_factory=list)

    def add(self, text: str, *, column: str = "", line: int | None = None, name: str = "") -> None:
        """Add a problem to the list: a sentence, and column, line and name of the row if known."""
        self.found.append(Problem(text, column, line, name))

    def hint(self, text: str) -> None:
        """Add a sentence of advice to the end of the message, unless empty or already there."""
        if text and text not in self.hints:
            self.hints.append(text)

    def raise_if_any(self) -> None:
        """Raise a `DataError` with the number of problems and the first ones, if there are any."""
        if self.found:
            raise DataError(self.to_text())

    def pass_on(self, collected: "Problems | None") -> None:
        """Move all problems and hints to `collected`; if None, raise a `DataError` for any problem.

        Hints without a problem raise nothing.
        """
        if collected is None:
            self.raise_if_any()
            return
        collected.found += self.found
        for hint in self.hints:
            collected.hint(hint)
        self.found.clear()
        self.hints.clear()

    def to_text(self, n_shown: int = N_SHOWN) -> str:
        """Return the message: `n_shown` problems of the table at most, by line, and all hints."""
        ordered = sorted(self.found, key=lambda problem: problem.line or 0)
        n_problems = len(ordered)
        if n_problems == 1 and not self.hints:
            return f"{self.source}: {ordered[0]}"
        noun = "problems"
        if n_problems == 1:
            noun = "problem"
        lines = [f"{self.source}: {n_problems} {noun}"]
        lines += [f"  {problem}" for problem in ordered[:n_shown]]
        if n_problems > n_shown:
            lines.append(f"  … and {n_problems - n_shown} more")
        lines += [f"Hint: {hint}" for hint in self.hints]
        return "\n".join(lines)


def shown(value: object, n_max: int = 60) -> str:
    """Return a value in quotes for a message, cut to `n_max` characters."""
    quoted = str(value)
    if len(quoted) > n_max:
        quoted = f"{quoted[: n_max - 1]}…"
    return repr(quoted)


def first_names(names: Sequence[str], n_max: int = 5) -> str:
    """Return text with the first `n_max` of `names`, and the number of further names."""
    listed = ", ".join(names[:n_max])
    if len(names) > n_max:
        return f"{listed} and {len(names) - n_max} more"
    return listed
