"""Words that readers stumble over are in no docstring, comment, help text, recipe or page."""

import ast
import re
import subprocess
import sys
import tokenize
from io import StringIO
from pathlib import Path

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
    names = subprocess.run(
        ["git", "ls-files", *PLACES], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    return [
        name for name in names.splitlines() if Path(name).suffix in KINDS and name != "CHANGELOG.md"
    ]


def found_in(text: str) -> list[str]:
    """Return turns of phrase with their lines."""
    return [
        f"line {number}: '{match.group()}' ({advice})"
        for number, line in enumerate(text.splitlines(), 1)
        for turn, advice in TURNS.items()
        for match in re.finditer(rf"\b{turn}(?!\w)", line, re.IGNORECASE)
    ]


def test_no_page_has_such_turns() -> None:
    problems = [
        f"{name}, {turn}"
        for name in pages()
        for turn in found_in((ROOT / name).read_text(encoding="utf-8"))
    ]
    assert not problems, "\n".join(problems)


def prose_of(path: Path) -> str:
    """Return a Python file with its docstrings, texts and comments alone, each in its line."""
    text = path.read_text(encoding="utf-8")
    kept = {token.start[0] for token in tokenize.generate_tokens(StringIO(text).readline)
            if token.type == tokenize.COMMENT}  # fmt: skip
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            kept |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return "\n".join(
        line if number in kept else "" for number, line in enumerate(text.splitlines(), 1)
    )


def linted(*paths: Path) -> str:
    """Return what proselint finds, one line each, without the checks that tests/proselint.json turns off."""
    command = [
        sys.executable,
        "-m",
        "proselint",
        "check",
        "--config",
        ROOT / "tests" / "proselint.json",
        *paths,
    ]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def test_a_linter_for_prose_has_no_complaint(tmp_path: Path) -> None:
    for name in pages():
        if name.endswith(".py"):
            (tmp_path / name.replace("/", "-")).write_text(prose_of(ROOT / name), encoding="utf-8")
    assert not linted(
        *tmp_path.iterdir(), *(ROOT / name for name in pages() if name.endswith(".md"))
    )


def test_a_linter_for_prose_finds_faults(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text(
        "At the end of the day it is very good, and an added bonus.", encoding="utf-8"
    )
    assert "redundancy" in linted(tmp_path / "page.md")
    assert len(found_in("So many stand for it, as of `x`.\nWhence? None where there is none.")) == 5
