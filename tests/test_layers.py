"""What must work without torch does; what trains knows no kind of images, in its imports and once it is loaded."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "neurocontrast"

PROGRAM = """
import importlib.abc, sys

class Refuse(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "monai", "lightning", "lightning_fabric"):
            raise ImportError(f"{name} is refused")

sys.meta_path.insert(0, Refuse())
import neurocontrast
import neurocontrast.data.cohort, neurocontrast.evaluation, neurocontrast.findings
import neurocontrast.embedding.table
from neurocontrast import evaluate, report
from neurocontrast.cli import run
code = run(["report", "no-such-folder", "--set", "report.show_ids=true"])
code += run(["evaluate", "no-such-file.parquet", "--out", "x", "--target", "age"])
print("ok", code)
"""


def test_evaluation_reporting_and_the_command_line_load_without_torch():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.stdout.strip() == "ok 4", done.stderr


@pytest.mark.parametrize(
    "package", ["commands", "runs", "data", "embedding", "config", "transforms", "encoders", "training"]
)
def test_importing_a_package_does_not_load_torch(package):
    program = f"import sys, neurocontrast.{package}; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


KNOWN_TO_SOURCES_ALONE = """
import importlib, pkgutil, sys

for name in ("losses", "kernels", "training", "embedding", "evaluation"):
    package = importlib.import_module(f"neurocontrast.{name}")
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if module.name != "neurocontrast.embedding.scan_embedder":  # opens the scans of a run
            importlib.import_module(module.name)
kinds = ("cache", "datasets", "natural", "simulation", "sources")
forbidden = [f"neurocontrast.data.{kind}" for kind in kinds]
forbidden += ["neurocontrast.commands", "neurocontrast.runs", "kornia", "monai", "nibabel"]
forbidden += [f"neurocontrast.encoders.{name}" for name in ("building", "networks")]
forbidden += ["neurocontrast.transforms"]
print(len(sys.modules) > 500, "torch" in sys.modules, [name for name in forbidden if name in sys.modules])
"""


def test_all_that_trains_embeds_and_evaluates_loads_without_any_kind_of_images():
    done = subprocess.run([sys.executable, "-c", KNOWN_TO_SOURCES_ALONE], capture_output=True, text=True)
    assert done.stdout.strip() == "True True []", done.stderr


PLANTED = {
    "training/session.py": ("from neurocontrast.transforms.compose import load_volume", "neurocontrast.transforms"),
    "training/loop.py": ("from neurocontrast.transforms.views import TwoViews", "neurocontrast.transforms.views"),
    "losses/core.py": ("from neurocontrast.encoders.networks import build_network", "neurocontrast.encoders.networks"),
    "embedding/extract.py": ("from neurocontrast.data.datasets import ImageDataset", "neurocontrast.data.datasets"),
    "evaluation/metrics.py": ("from neurocontrast.data import CohortDataset", "neurocontrast.data"),
    "training/steps.py": ("from neurocontrast.encoders import build_model", "neurocontrast.encoders"),
    # By way of something that is allowed.
    "data/batches.py": ("from neurocontrast.data.cache import VolumeCache", "neurocontrast.data.cache"),
}


@pytest.fixture(scope="module")
def refused(tmp_path_factory):
    """What import-linter says of a copy of the package with an import of a kind of images in each of these modules."""
    pytest.importorskip("importlinter")
    folder = tmp_path_factory.mktemp("planted")
    shutil.copytree(PACKAGE, folder / "neurocontrast", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(PACKAGE.parent / "pyproject.toml", folder)
    for name, (statement, _) in PLANTED.items():
        path = folder / "neurocontrast" / name
        before, after = path.read_text().split("from __future__ import annotations\n", 1)
        path.write_text(f"{before}from __future__ import annotations\n{statement}\n{after}")
    command = ["lint-imports", "--no-cache"]
    program = f"import sys; sys.argv = {command}; from importlinter.cli import lint_imports_command as c; c()"
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout.replace("\n", " ")


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_import_of_a_kind_of_images_is_refused(refused, name):
    source = f"neurocontrast.{name.removesuffix('.py').replace('/', '.')}"
    found = refused.split("Broken contracts")[-1]
    assert f"{source} -> {PLANTED[name][1]}" in found


def test_both_contracts_about_kinds_of_images_are_broken_by_what_was_planted(refused):
    assert "What trains, embeds and evaluates knows no kind of images BROKEN" in refused
    assert "What trains, embeds and evaluates asks no lazy package for a kind of images BROKEN" in refused


def test_the_package_itself_keeps_every_contract():
    pytest.importorskip("importlinter")
    program = "import sys; sys.argv = ['lint-imports']; from importlinter.cli import lint_imports_command as c; c()"
    done = subprocess.run([sys.executable, "-c", program], cwd=PACKAGE.parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
