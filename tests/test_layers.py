"""What must work without torch does; what trains knows no kind of images, in its imports and once it is loaded."""

import ast
import importlib.util
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

from tests.commands.small_run import embedded_people

PACKAGE = Path(__file__).parents[1] / "neurocontrast"

PROGRAM = """
import importlib.abc, sys

class Refuse(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "monai", "lightning", "lightning_fabric"):
            raise ImportError(f"{name} is refused")

sys.meta_path.insert(0, Refuse())
import neurocontrast as nc
import neurocontrast.data.cohort, neurocontrast.evaluation, neurocontrast.reporting.findings
import neurocontrast.documents.embeddings, neurocontrast.reporting.scan_quality
assert "matplotlib.pyplot" not in sys.modules, "figures are drawn without pyplot"
from neurocontrast import commands, config, data, embedding, encoders, runs, training, transforms, weights
from neurocontrast.cli import run
transforms.Preprocessing()
weights.load("brain-maps-lda")
code = run(["report", "no-such-folder", "--set", "report.show_ids=true"])
code += run(["evaluate", "no-such-file.parquet", "--out", "x", "--target", "age"])
fast = {"n_bootstraps": 0, "confounds": False, "new_site": False, "outlyingness": False, "C": (1.0,)}
learned, others, out = sys.argv[1:]
evaluation = nc.evaluate(learned, out=f"{out}/e", n_folds=2, **fast)
nc.predict(evaluation, others, out=f"{out}/p.tsv")
print("ok", code)
"""


def test_all_but_training_and_embedding_works_without_torch(tmp_path):
    tables = []
    for name, first in (("learned", 0), ("others", 60)):
        path = embedded_people(tmp_path / f"{name}.parquet", n=40, first=first)
        tables.append(str(path))
    command = [sys.executable, "-c", PROGRAM, *tables, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1:] == ["ok 4"], done.stderr


LIGHT = """
import sys
import neurocontrast
heavy = ("numpy", "pandas", "pydantic", "torch", "yaml")
natural = [name for name in sys.modules if name.startswith("neurocontrast.natural.")]
print(natural, [name for name in heavy if name in sys.modules])
"""


def test_the_package_registers_natural_images_and_loads_nothing_of_them():
    done = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['neurocontrast.natural.registration'] []"


KNOWN_TO_SOURCES_ALONE = """
import importlib, pkgutil, sys

open_runs = {f"neurocontrast.embedding.{name}" for name in ("readers", "scan_embedder")}
for name in ("losses", "kernels", "training", "embedding", "evaluation"):
    package = importlib.import_module(f"neurocontrast.{name}")
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if module.name not in open_runs:  # these build a run's network by its name
            importlib.import_module(module.name)
kinds = ("cache", "datasets", "simulation", "sources")
forbidden = [f"neurocontrast.data.{kind}" for kind in kinds]
forbidden += ["neurocontrast.commands", "neurocontrast.runs", "kornia", "monai", "nibabel"]
forbidden += [f"neurocontrast.encoders.{name}" for name in ("building", "networks")]
forbidden += ["neurocontrast.transforms"]
in_natural = {name for name in sys.modules if name.startswith("neurocontrast.natural.")}
forbidden += in_natural - {"neurocontrast.natural.registration"}
print(len(sys.modules) > 500, "torch" in sys.modules, [name for name in forbidden if name in sys.modules])
"""


def test_all_that_trains_embeds_and_evaluates_loads_without_any_kind_of_images():
    done = subprocess.run(
        [sys.executable, "-c", KNOWN_TO_SOURCES_ALONE], capture_output=True, text=True
    )
    assert done.stdout.strip() == "True True []", done.stderr


def test_the_package_keeps_every_contract_and_a_planted_import_is_caught(tmp_path):
    pytest.importorskip("importlinter")
    shutil.copytree(PACKAGE, tmp_path / PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(PACKAGE.parent / "pyproject.toml", tmp_path)
    with (tmp_path / PACKAGE.name / "kernels" / "base.py").open("a") as module:
        module.write("\nimport neurocontrast.data.cohort\n")
    program = "import sys; sys.argv = ['lint-imports']; from importlinter.cli import lint_imports_command as c; c()"
    kept, planted = (
        subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True)
        for folder in (PACKAGE.parent, tmp_path)
    )
    assert kept.returncode == 0, kept.stdout
    assert planted.returncode == 1
    for contract in ("Imports point down only", "Losses and kernels know no data"):
        assert f"{contract} BROKEN" in planted.stdout
    assert "neurocontrast.kernels.base -> neurocontrast.data.cohort" in planted.stdout


# --- strings that name modules of higher layers, which import-linter would not see
# -----------------------------------
@cache
def ranks() -> dict[str, int]:
    """Return the height of each layer of pyproject.toml by the name of its folder or file."""
    contracts = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text())["tool"][
        "importlinter"
    ]["contracts"]
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
                yield importlib.util.resolve_name(
                    f".{place}", package
                )  # from the parent, as `lazy_exports` reads it


def height_of(parts: Sequence[str]) -> int | None:
    """Return the rank of a module by its name below the package: of its folder, or its own."""
    height = ranks()
    return height.get(parts[0], height.get(".".join(parts[:2])))


def parts_of(name: str) -> tuple[str, ...]:
    """Return the name of a module by its file below the package."""
    return Path(name.removesuffix(".py").removesuffix("/__init__")).parts


def upward(text: str, name: str) -> list[str]:
    """Return the modules of higher layers that a file's strings name; `name` is the file's, below the package."""
    package = ".".join(["neurocontrast", *Path(name).parent.parts])
    own = height_of(parts_of(name))
    return [
        module
        for module in modules_named(text, package)
        if (height_of(module.split(".")[1:]) or 0) > own
    ]


def test_no_string_names_a_module_of_a_higher_layer():
    files = [path.relative_to(PACKAGE).as_posix() for path in sorted(PACKAGE.rglob("*.py"))]
    layered = [name for name in files if height_of(parts_of(name)) is not None]
    assert len(layered) > 100
    found = {name: upward((PACKAGE / name).read_text(encoding="utf-8"), name) for name in layered}
    assert {name: modules for name, modules in found.items() if modules} == {}


def test_every_file_has_a_layer():
    files = {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py")}
    # Of documents every module has a layer: an encoder's is read by what the embeddings' reads.
    without = {name for name in files if height_of(parts_of(name)) is None}
    assert without == {"__init__.py", "__main__.py", "documents/__init__.py"}


def test_strings_that_point_up_are_found():
    text = 'places = {".cli.app": ["run"], "extract": ["f"]}\nload("neurocontrast.cli.app:run")\n"neurocontrast.files"'
    assert upward(text, "embedding/__init__.py") == [
        "neurocontrast.cli.app",
        "neurocontrast.cli.app",
    ]


def test_no_private_module_or_function_of_scikit_learn_is_used():
    """A private door closes at any release."""
    private = re.compile(
        r"from sklearn[\w.]* import [^(#\n]*\b_\w"
        r"|from sklearn[\w.]* import \([^)]*\b_\w"
        r"|\bsklearn\.[\w.]*\b_\w"
    )
    uses = []
    for path in sorted(PACKAGE.rglob("*.py")):
        uses += [f"{path.name}: {match[0]}" for match in private.finditer(path.read_text())]
    assert uses == []
    assert private.search("from sklearn.utils._param_validation import StrOptions")
    assert private.search("from sklearn.utils.validation import (\n    _check_feature_names_in,\n)")
