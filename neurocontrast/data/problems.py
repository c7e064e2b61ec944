"""Problems of a table, collected so that one error names all of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from neurocontrast.exceptions import DataError, printable

N_SHOWN = 20


class Problem(NamedTuple):
    """One problem: what was found, what is allowed, and the place."""

    text: str
    column: str = ""
    line: int | None = None
    name: str = ""

    def __str__(self) -> str:
        line = "" if self.line is None else f"line {self.line}"
        where = ", ".join(
            filter(None, [line, self.name, self.column and f"column '{self.column}'"])
        )
        return printable(f"{where}: {self.text}" if where else self.text)


@dataclass
class Problems:
    """The problems of one source, whose name begins the message, and hints."""

    source: str
    found: list[Problem] = field(default_factory=list)
    hints: list[str] = field(default_factory=list)

    def add(self, text: str, *, column: str = "", line: int | None = None, name: str = "") -> None:
        """Note one problem."""
        self.found.append(Problem(text, column, line, name))

    def hint(self, text: str) -> None:
        """Note one sentence that explains a kind of problem; it is shown once, and "" is none."""
        if text and text not in self.hints:
            self.hints.append(text)

    def raise_if_any(self) -> None:
        """Raise a `DataError` with the number of all problems and the first of them, in the order of the file."""
        if self.found:
            raise DataError(self.to_text())

    def pass_on(self, collected: "Problems | None") -> None:
        """Add all problems and hints to others that are collected, or raise them where None are."""
        if collected is None:
            self.raise_if_any()
            return
        collected.found += self.found
        for hint in self.hints:
            collected.hint(hint)
        self.found.clear()
        self.hints.clear()

    def to_text(self, n_shown: int = N_SHOWN) -> str:
        """Return the problems as lines, at most `n_shown` of them in full."""
        ordered = sorted(self.found, key=lambda problem: problem.line or 0)
        n = len(ordered)
        if n == 1 and not self.hints:
            return f"{self.source}: {ordered[0]}"
        lines = [f"{self.source}: {n} problem{'s' if n != 1 else ''}"]
        lines += [f"  {problem}" for problem in ordered[:n_shown]]
        if n > n_shown:
            lines.append(f"  … and {n - n_shown} more")
        return "\n".join(lines + [f"Hint: {text}" for text in self.hints])


def shown(value: object, n_max: int = 60) -> str:
    """Return a value as it is quoted in a message, cut where it is long."""
    text = str(value)
    return repr(text if len(text) <= n_max else text[: n_max - 1] + "…")


def first_names(names: Sequence[str], n_max: int = 5) -> str:
    """Return the first of some names as a message lists them, and the number of the others."""
    listed = ", ".join(names[:n_max])
    if len(names) > n_max:
        return f"{listed} and {len(names) - n_max} more"
    return listed
