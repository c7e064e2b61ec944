"""The sizes of the package: lines, files, folders, functions and circles of imports stay within their limits.

``python tests/test_house.py`` prints the table. A limit is lowered in the commit that makes the package smaller, and
raised only in the commit that needs it, with the reason in its message.
"""

import ast
import graphlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "neurocontrast"

MAX_LINES = 37_418
MAX_FILES = 213
"""Lines of all Python files, and their number; the target is 34,000 lines in 215 files."""
MAX_FILES_IN_FOLDER = 32
MAX_LINES_IN_FILE = 400
MAX_LINES_IN_FUNCTION = 50
"""Lines from ``def`` to the end, without the docstring."""

FOLDERS_TOO_FULL: dict[str, int] = {}
"""Folders over the limit today, with their files: a number may be lowered, never raised."""


@dataclass(frozen=True)
class File:
    """A Python file of the package: its sizes, and what it imports."""

    name: str
    lines: int
    code: int
    docstrings: int
    functions: dict[str, int]
    imports: tuple[str, ...]

    @property
    def folder(self) -> str:
        """Folder relative to the repository."""
        return str(Path(self.name).parent)


@cache
def files() -> tuple[File, ...]:
    """Return every Python file of the package, measured."""
    return tuple(_measured(path) for path in sorted(PACKAGE.rglob("*.py")))


def _measured(path: Path) -> File:
    text = path.read_text(encoding="utf-8")
    lines, tree, name = text.splitlines(), ast.parse(text), path.relative_to(ROOT).as_posix()
    strings: set[int] = set()
    functions = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            strings |= set(range(node.lineno, node.end_lineno + 1))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            n_docstring = node.body[0].end_lineno - node.body[0].lineno + 1 if ast.get_docstring(node) else 0
            functions[f"{name}:{node.lineno} {node.name}"] = node.end_lineno - node.lineno + 1 - n_docstring
    code = [line.strip() for number, line in enumerate(lines, 1) if number not in strings]
    n_code = sum(bool(line) and not line.startswith("#") for line in code)
    return File(
        name, len(lines), n_code, len(strings), functions, tuple(_imports(tree, types=path.name != "__init__.py"))
    )


def _imports(node: ast.AST, *, types: bool) -> Iterator[str]:
    """Give the modules that are imported anywhere in a file, for type checking too if `types`.

    A package names for type checkers what it loads when it is asked for, which is no import of its own.
    """
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            yield from (f"{child.module}.{alias.name}" for alias in child.names)
        elif types or not (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)):
            yield from _imports(child, types=types)


def circle(graph: dict[str, set[str]]) -> list[str]:
    """Return modules that import one another in a circle, the first one again at the end; empty where none do."""
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return list(error.args[1])
    return []


def import_graph() -> dict[str, set[str]]:
    """Return the modules of the package that each module imports."""
    modules = {file.name.removesuffix(".py").removesuffix("/__init__").replace("/", "."): file for file in files()}
    graph: dict[str, set[str]] = {}
    for module, file in modules.items():
        found = {name if name in modules else name.rpartition(".")[0] for name in file.imports}
        graph[module] = {name for name in found & modules.keys() if name != module}
    return graph


def files_in_folders() -> dict[str, int]:
    """Return the number of files of each folder of the package, templates too."""
    paths = [path for path in PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    folders = [path.parent.relative_to(ROOT).as_posix() for path in paths]
    return {folder: folders.count(folder) for folder in sorted(set(folders))}


def beyond(sizes: dict[str, int], limit: int, exceptions: Mapping[str, int] = MappingProxyType({})) -> list[str]:
    """Return what is over the limit or over its own exception, and exceptions that are not needed any more."""
    over = [f"{name}: {size}, at most {exceptions.get(name, limit)}"
            for name, size in sizes.items() if size > exceptions.get(name, limit)]  # fmt: skip
    return over + [f"{name}: no exception is needed any more" for name in exceptions if sizes.get(name, 0) <= limit]


def test_the_package_is_no_larger_than_its_limits():
    assert sum(file.lines for file in files()) <= MAX_LINES
    assert len(files()) <= MAX_FILES


def test_no_folder_file_or_function_is_too_large():
    assert not beyond(files_in_folders(), MAX_FILES_IN_FOLDER, FOLDERS_TOO_FULL)
    assert not beyond({file.name: file.lines for file in files()}, MAX_LINES_IN_FILE)
    functions = {name: size for file in files() for name, size in file.functions.items()}
    assert not beyond(functions, MAX_LINES_IN_FUNCTION)


def test_only_packages_list_their_public_names():
    """Elsewhere a name is public unless it begins with an underscore; a second list would go stale."""
    listed = {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py") if "__all__ =" in path.read_text()}
    assert {name for name in listed if not name.endswith("__init__.py")} == {"datasets.py", "exceptions.py"}


def test_no_modules_import_one_another_in_a_circle():
    assert not circle(import_graph())


def test_what_is_too_large_or_circular_is_found():
    assert beyond({"a": 51, "b": 60, "c": 9}, 50, {"b": 60, "c": 51}) == [
        "a: 51, at most 50",
        "c: no exception is needed any more",
    ]
    assert beyond({"b": 61}, 50, {"b": 60}) == ["b: 61, at most 60"]
    assert set(circle({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": set()})) == {"a", "b", "c"}
    tree = ast.parse("if TYPE_CHECKING:\n    import a\ndef f():\n    from b import c\nimport d")
    assert list(_imports(tree, types=False)) == ["b.c", "d"]
    assert list(_imports(tree, types=True)) == ["a", "b.c", "d"]


def main() -> None:
    """Print files and lines of every folder, and what is near or over a limit."""
    print(f"{'folder':<36}{'files':>7}{'lines':>8}{'code':>8}{'docstrings':>12}")
    for folder in [*sorted({file.folder for file in files()}), ""]:
        chosen = [file for file in files() if file.folder == folder or not folder]
        sums = [sum(getattr(file, key) for file in chosen) for key in ("lines", "code", "docstrings")]
        print(f"{folder or 'all':<36}{len(chosen):>7}{sums[0]:>8}{sums[1]:>8}{sums[2]:>12}")
    print(
        f"limits: {MAX_LINES} lines, {MAX_FILES} files; circles of imports: {' -> '.join(circle(import_graph())) or 0}"
    )


if __name__ == "__main__":
    main()
