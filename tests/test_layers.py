"""What must work without torch does."""

import subprocess
import sys

import pytest

PROGRAM = """
import importlib.abc, sys

class Refuse(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "monai", "lightning", "lightning_fabric"):
            raise ImportError(f"{name} is refused")

sys.meta_path.insert(0, Refuse())
import neurocontrast
import neurocontrast.data.cohort, neurocontrast.evaluation, neurocontrast.reporting
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


@pytest.mark.parametrize("package", ["stages", "data", "embedding", "config", "augment", "encoders", "training"])
def test_importing_a_package_does_not_load_torch(package):
    program = f"import sys, neurocontrast.{package}; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
