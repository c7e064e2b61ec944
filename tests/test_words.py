"""Words that readers stumble over are in no docstring, help text, recipe or page."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TURNS = {
    "so many": "name the number",
    "stands? (for|in|under|beside|at|on|twice)": "say is, means, or is kept",
    "none where there is none": "say when it is None",
    "as of (?=[`'])": "say see, or like",
    "(there|where)(of|upon|in|unto)": "say of it, on it",
    "(whence|whilst|amongst|upon|heretofore)": "use the plain word",
}
KINDS = {".py", ".md", ".yaml", ".rst"}
PLACES = ("neurocontrast", "docs", "examples", "pipelines", "*.md", "benchmarks/README.md")


def pages() -> list[str]:
    names = subprocess.run(["git", "ls-files", *PLACES], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [name for name in names.splitlines() if Path(name).suffix in KINDS and name != "CHANGELOG.md"]


def found_in(text: str) -> list[str]:
    """Return turns of phrase with their lines."""
    return [
        f"line {number}: '{match.group()}' ({advice})"
        for number, line in enumerate(text.splitlines(), 1)
        for turn, advice in TURNS.items()
        for match in re.finditer(rf"\b{turn}(?!\w)", line, re.IGNORECASE)
    ]


CASES = [("It stands for both.", 1), ("Settings, as of `it`, so many.", 2), ("standard, outstanding", 0)]


@pytest.mark.parametrize(("text", "n"), CASES)
def test_turns_are_found(text: str, n: int) -> None:
    assert len(found_in(text)) == n


def test_no_page_has_such_turns() -> None:
    problems = [f"{name}, {turn}" for name in pages() for turn in found_in((ROOT / name).read_text(encoding="utf-8"))]
    assert not problems, "\n".join(problems)
