"""How the package reads: sizes, folders, circles of imports, and ratchets of style that only turn down.

``python tests/test_house.py`` prints the table, and with names of files the counts of each. A
ratchet holds today's count and the limit to come; it is lowered in the commit that lowers the
count, and never raised.
"""

import ast
import graphlib
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import neurocontrast

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "neurocontrast"

MAX_FILES_IN_FOLDER = 32
MAX_COLUMNS = 100
MAX_STATEMENTS_IN_FUNCTION = 30
MAX_STATEMENTS_IN_FILE = 250
MAX_BRANCHES = 8
MAX_PARAMETERS = 7
"""Parameters of a function.

A command of typer and its twin in Python, which declare each option as a parameter, may have more,
and so may a scikit-learn estimator, whose settings are the parameters of its constructor.
"""
GENERIC_NAMES = {
    *("found", "each", "given", "known", "own", "place", "about", "what", "part", "text", "said"),
    *("other", "here", "there", "made"),
}
"""Names that fit anything, and so say nothing: ``scan``, ``metric``, ``column`` say what is held."""
VAGUE_WORDS = ("what", "those", "these", "it", "otherwise")
"""Words by which the first line of a docstring needs another sentence to be understood."""
ESTIMATOR = "neurocontrast/embedding/scan_embedder.py"
NOT_VERBS = frozenset(("a", "an", "the", "all", "this", "every", "one", "how", "which", "whether"))


@dataclass(frozen=True)
class Ratchet:
    """A count that may only fall: at most `today`, and in the end at most `limit`."""

    name: str
    today: int
    limit: int


RATCHETS = (
    Ratchet("lines over 100 columns", 0, 0),
    Ratchet("functions over 30 statements", 0, 0),
    Ratchet("files over 250 statements", 0, 0),
    Ratchet("functions over 8 branches", 0, 0),
    Ratchet("functions over 7 parameters", 0, 0),
    Ratchet("mappings of any value", 50, 60),
    Ratchet("generic stored names", 17, 150),
    Ratchet("double assignments", 0, 16),
    Ratchet("conditional expressions", 350, 550),
    Ratchet("comprehensions", 783, 880),
    Ratchet("fmt: skip", 0, 0),
    Ratchet("first lines of docstrings that need another", 0, 0),
)
"""Limits by the thousand statements (6, 25 and 40) are given for 22,000 statements."""


@dataclass(frozen=True)
class Module:
    """A Python file of the package."""

    name: str
    source: str
    tree: ast.Module

    @property
    def folder(self) -> str:
        """Folder relative to the repository."""
        return str(Path(self.name).parent)

    @property
    def n_statements(self) -> int:
        """Number of statements, docstrings included."""
        return sum(isinstance(node, ast.stmt) for node in ast.walk(self.tree))


@cache
def modules() -> tuple[Module, ...]:
    """Read every Python file of the package."""
    paths = sorted(PACKAGE.rglob("*.py"))
    return tuple(read_module(path.relative_to(ROOT).as_posix(), path.read_text()) for path in paths)


def read_module(name: str, source: str) -> Module:
    """Parse a Python file."""
    return Module(name, source, ast.parse(source))


Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(module: Module) -> Iterator[Function]:
    """Give every function and method of a module."""
    for node in ast.walk(module.tree):
        if isinstance(node, Function):
            yield node


def n_statements_within(function: Function) -> int:
    """Count the statements of a function's body, inner functions included, without its docstring."""
    n_statements = sum(isinstance(node, ast.stmt) for node in ast.walk(function)) - 1
    return n_statements - (ast.get_docstring(function) is not None)


def n_parameters(function: Function) -> int:
    """Count a function's parameters, ``self`` and ``cls`` apart."""
    parameters = function.args
    names = [*parameters.posonlyargs, *parameters.args, *parameters.kwonlyargs]
    return sum(parameter.arg not in ("self", "cls") for parameter in names)


def declares_options(module: Module, function: Function) -> bool:
    """Tell whether a function's parameters are the options of a command or of an estimator."""
    if "/cli/" in module.name:
        return True
    if "/commands/" in module.name:
        is_named_as_file = function.name == Path(module.name).stem
        return is_named_as_file or function.name in neurocontrast.__all__
    return module.name == ESTIMATOR and function.name == "__init__"


def needs_another(first_line: str) -> bool:
    """Tell whether a docstring's first line has a vague word."""
    return any(re.search(rf"\b{word}\b", first_line, re.IGNORECASE) for word in VAGUE_WORDS)


def lacks_verb(first_line: str) -> bool:
    """Tell whether a function's docstring begins with a word that is no verb."""
    return first_line.split(maxsplit=1)[0].lower() in NOT_VERBS


def is_property(function: Function) -> bool:
    """Tell whether a function is a property, whose docstring names a thing."""
    return any("property" in ast.unparse(decorator) for decorator in function.decorator_list)


def first_lines_that_need_another(module: Module) -> list[str]:
    """List the first lines of docstrings that have no verb, or a word that points elsewhere."""
    lines = []
    for node in ast.walk(module.tree):
        if not isinstance(node, Function | ast.ClassDef | ast.Module):
            continue
        docstring = ast.get_docstring(node)
        if not docstring:
            continue
        first_line = docstring.splitlines()[0]
        verbless = isinstance(node, Function) and not is_property(node) and lacks_verb(first_line)
        if verbless or needs_another(first_line):
            lines.append(f"{module.name}: {first_line}")
    return lines


def n_of(module: Module, *kinds: type[ast.AST]) -> int:
    """Count the nodes of these kinds in a module."""
    return sum(isinstance(node, kinds) for node in ast.walk(module.tree))


def n_double_assignments(module: Module) -> int:
    """Count the statements that assign two values to two names: ``a, b = x, y``."""
    return sum(
        isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Tuple)
        and isinstance(node.value, ast.Tuple)
        for node in ast.walk(module.tree)
    )


def n_generic_names(module: Module) -> int:
    """Count the stored names that fit anything."""
    return sum(
        isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in GENERIC_NAMES
        for node in ast.walk(module.tree)
    )


def counts(package: tuple[Module, ...]) -> dict[str, int]:
    """Measure each ratchet but branches, which ruff counts."""
    bodies = [(module, function) for module in package for function in functions(module)]
    working = [function for module, function in bodies if not declares_options(module, function)]
    lines = [line for module in package for line in module.source.splitlines()]
    any_value = re.compile(r"(?:dict|Mapping)\[str, Any\]")
    sizes = [n_statements_within(function) for _, function in bodies]
    comprehensions = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
    return {
        "lines over 100 columns": sum(len(line) > MAX_COLUMNS for line in lines),
        "functions over 30 statements": sum(n > MAX_STATEMENTS_IN_FUNCTION for n in sizes),
        "files over 250 statements": sum(
            module.n_statements > MAX_STATEMENTS_IN_FILE for module in package
        ),
        "functions over 7 parameters": sum(
            n_parameters(function) > MAX_PARAMETERS for function in working
        ),
        "mappings of any value": sum(len(any_value.findall(module.source)) for module in package),
        "generic stored names": sum(n_generic_names(module) for module in package),
        "double assignments": sum(n_double_assignments(module) for module in package),
        "conditional expressions": sum(n_of(module, ast.IfExp) for module in package),
        "comprehensions": sum(n_of(module, *comprehensions) for module in package),
        "fmt: skip": sum("# fmt: skip" in line for line in lines),
        "first lines of docstrings that need another": sum(
            len(first_lines_that_need_another(module)) for module in package
        ),
    }


def n_branching(limit: int = MAX_BRANCHES) -> int:
    """Count the functions with more branches than the limit, as ruff counts them (C901)."""
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--select=C901"]
    options = [f"--config=lint.mccabe.max-complexity={limit}", "--output-format=concise"]
    done = subprocess.run(
        [*command, *options, str(PACKAGE)], capture_output=True, text=True, check=False
    )
    return done.stdout.count(" C901 ")


def imports_of(node: ast.AST, *, types: bool) -> Iterator[str]:
    """Give the modules that are imported anywhere in a file, for type checking too if `types`.

    A package names for type checkers the modules that it loads lazily, which is no import of its
    own.
    """
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            yield from (f"{child.module}.{alias.name}" for alias in child.names)
        elif types or not (
            isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
        ):
            yield from imports_of(child, types=types)


def circle(graph: dict[str, set[str]]) -> list[str]:
    """Return modules that import one another in a circle, the first one again at the end."""
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return list(error.args[1])
    return []


def import_graph() -> dict[str, set[str]]:
    """Return the modules of the package that each module imports."""
    by_name = {
        module.name.removesuffix(".py").removesuffix("/__init__").replace("/", "."): module
        for module in modules()
    }
    graph: dict[str, set[str]] = {}
    for name, module in by_name.items():
        types = not module.name.endswith("__init__.py")
        imported = imports_of(module.tree, types=types)
        named = {path if path in by_name else path.rpartition(".")[0] for path in imported}
        graph[name] = {path for path in named & by_name.keys() if path != name}
    return graph


def files_in_folders() -> dict[str, int]:
    """Return the number of files of each folder of the package, templates too."""
    paths = [path for path in PACKAGE.rglob("*") if path.is_file()]
    folders = [
        path.parent.relative_to(ROOT).as_posix()
        for path in paths
        if "__pycache__" not in path.parts
    ]
    return {folder: folders.count(folder) for folder in sorted(set(folders))}


def test_no_folder_is_too_full():
    assert {folder for folder, n in files_in_folders().items() if n > MAX_FILES_IN_FOLDER} == set()


def test_no_count_of_the_style_grows():
    measured = {**counts(modules()), "functions over 8 branches": n_branching()}
    assert measured.keys() == {ratchet.name for ratchet in RATCHETS}
    grown = {
        ratchet.name: (ratchet.today, measured[ratchet.name])
        for ratchet in RATCHETS
        if measured[ratchet.name] > ratchet.today
    }
    assert grown == {}, (
        "name: (ratchet, measured); `python tests/test_house.py FILE…` counts the files that you "
        "changed; read CONTRIBUTING.md, Habits"
    )


def test_only_packages_list_their_public_names():
    """A name elsewhere is public unless it begins with an underscore; a second list would go stale."""
    listed = {module.name for module in modules() if "__all__ =" in module.source}
    single = {name for name in listed if not name.endswith("__init__.py")}
    assert single == {"neurocontrast/datasets.py", "neurocontrast/exceptions.py"}


def test_no_modules_import_one_another_in_a_circle():
    assert not circle(import_graph())


SPECIMEN = '''
"""Return what it was."""
def long(a, b, c, d, e, f, g, h) -> dict[str, Any]:
    """The specimen."""
    found, each = 1, 2
    x = [1 if y else 2 for y in z]  # fmt: skip
'''


def test_each_fault_of_style_is_counted():
    lines = "\n".join(f"    x{number} = {number}" for number in range(40))
    wide = f"\n    wide = 1  # {'x' * 100}"
    specimen = read_module("neurocontrast/specimen.py", SPECIMEN + lines + wide)
    assert counts((specimen,)) == {
        "lines over 100 columns": 1,
        "functions over 30 statements": 1,
        "files over 250 statements": 0,
        "functions over 7 parameters": 1,
        "mappings of any value": 1,
        "generic stored names": 2,
        "double assignments": 1,
        "conditional expressions": 1,
        "comprehensions": 1,
        "fmt: skip": 1,
        "first lines of docstrings that need another": 2,
    }
    assert n_branching(limit=1) > n_branching(limit=8)


def test_circles_are_found():
    assert set(circle({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": set()})) == {"a", "b", "c"}
    tree = ast.parse("if TYPE_CHECKING:\n    import a\ndef f():\n    from b import c\nimport d")
    assert list(imports_of(tree, types=False)) == ["b.c", "d"]
    assert list(imports_of(tree, types=True)) == ["a", "b.c", "d"]


def print_files(names: list[str]) -> None:
    """Print the counts of some files, and their lines of more columns than the limit."""
    for name in names:
        module = read_module(name, Path(name).read_text())
        print(name)
        for ratchet, figure in counts((module,)).items():
            if figure:
                print(f"  {ratchet:<46}{figure:>9}")
        for number, line in enumerate(module.source.splitlines(), start=1):
            if len(line) > MAX_COLUMNS:
                print(f"  line {number} has {len(line)} columns")


def main() -> None:
    """Print statements of every folder, and each ratchet beside the count measured now."""
    print(f"{'folder':<36}{'files':>7}{'statements':>12}")
    for folder in sorted({module.folder for module in modules()}):
        inside = [module for module in modules() if module.folder == folder]
        n_statements = sum(module.n_statements for module in inside)
        print(f"{folder:<36}{len(inside):>7}{n_statements:>12}")
    n_statements = sum(module.n_statements for module in modules())
    print(f"{'all':<36}{len(modules()):>7}{n_statements:>12}\n")
    measured = {**counts(modules()), "functions over 8 branches": n_branching()}
    print(f"{'ratchet':<48}{'measured':>9}{'today':>7}{'limit':>7}")
    for ratchet in RATCHETS:
        figure = measured[ratchet.name]
        print(f"{ratchet.name:<48}{figure:>9}{ratchet.today:>7}{ratchet.limit:>7}")
    print(f"circles of imports: {' -> '.join(circle(import_graph())) or 0}")


if __name__ == "__main__":
    if sys.argv[1:]:
        print_files(sys.argv[1:])
    else:
        main()
