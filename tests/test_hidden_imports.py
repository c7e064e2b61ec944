"""No string of the package names a module of a layer above its own, which import-linter would not see."""

import ast
import importlib.util
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "neurocontrast"


def ranks() -> dict[str, int]:
    """Return the height of each layer of pyproject.toml by the name of its folder or file."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(each["layers"] for each in contracts if each["type"] == "layers")
    return {
        name.strip(" ()").removeprefix("neurocontrast."): len(layers) - place
        for place, layer in enumerate(layers)
        for name in layer.split("|")
    }


def modules_named(text: str, package: str) -> Iterator[str]:
    """Give the modules of neurocontrast that the strings of a source text name; `package` is where it is from."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            place = node.value.partition(":")[0]
            if re.fullmatch(r"neurocontrast(\.\w+)+", place):
                yield place
            elif re.fullmatch(r"\.\w+(\.\w+)*", place) and "." in package:
                yield importlib.util.resolve_name(f".{place}", package)  # from the parent, as `lazy_exports` reads it


def upward(text: str, name: str) -> list[str]:
    """Return the modules of higher layers that a file's strings name; `name` is the file's, below the package."""
    height, package = ranks(), ".".join(["neurocontrast", *Path(name).parent.parts])
    own = height[Path(name).parts[0].removesuffix(".py")]
    return [module for module in modules_named(text, package) if height.get(module.split(".")[1], 0) > own]


def test_no_string_names_a_module_of_a_higher_layer():
    files = [path.relative_to(PACKAGE).as_posix() for path in sorted(PACKAGE.rglob("*.py"))]
    layered = [name for name in files if Path(name).parts[0].removesuffix(".py") in ranks()]
    assert len(layered) > 100
    found = {name: upward((PACKAGE / name).read_text(encoding="utf-8"), name) for name in layered}
    assert {name: modules for name, modules in found.items() if modules} == {}


def test_every_file_has_a_layer():
    tops = {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in PACKAGE.rglob("*.py")}
    assert tops - {"__init__", "__main__"} <= set(ranks())


def test_strings_that_point_up_are_found():
    text = 'places = {".cli.app": ["run"], "extract": ["f"]}\nload("neurocontrast.cli.app:run")\n"neurocontrast.files"'
    assert upward(text, "embedding/__init__.py") == ["neurocontrast.cli.app", "neurocontrast.cli.app"]
