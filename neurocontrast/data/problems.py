"""Everything that is wrong with a table, collected before anything is said."""

from __future__ import annotations

from dataclasses import dataclass, field

from neurocontrast.exceptions import DataError

__all__ = ["Problem", "Problems"]

N_SHOWN = 20


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong: where it stands, what was found and what is allowed."""

    text: str
    column: str = ""
    line: int | None = None
    name: str = ""

    def __str__(self) -> str:
        place = [
            f"line {self.line}" if self.line is not None else "",
            self.name,
            self.column and f"column '{self.column}'",
        ]
        where = ", ".join(part for part in place if part)
        return f"{where}: {self.text}" if where else self.text


@dataclass
class Problems:
    """The problems of one source, with hints that help with several of them.

    Parameters
    ----------
    source : str
        Name of the file the problems are in, as the message begins with it.
    """

    source: str
    found: list[Problem] = field(default_factory=list)
    hints: list[str] = field(default_factory=list)

    def add(self, text: str, *, column: str = "", line: int | None = None, name: str = "") -> None:
        """Note one problem."""
        self.found.append(Problem(text, column, line, name))

    def hint(self, text: str) -> None:
        """Note one sentence that explains a kind of problem; the same sentence is told once."""
        if text not in self.hints:
            self.hints.append(text)

    def raise_if_any(self) -> None:
        """Raise one error that tells all problems, or return where there is none.

        Raises
        ------
        DataError
            With the number of all problems and the first of them, in the order of the file.
        """
        if self.found:
            raise DataError(self.to_text())

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
