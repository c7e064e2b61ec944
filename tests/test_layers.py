"""What must work without torch does."""

import subprocess
import sys

import pytest

PROGRAM = """
import sys
sys.modules["torch"] = None
sys.modules["monai"] = None
import neurocontrast
import neurocontrast.data.cohort, neurocontrast.evaluation, neurocontrast.reporting
import neurocontrast.embedding.table, neurocontrast.cli
from neurocontrast import evaluate, report
print("ok")
"""


def test_evaluation_reporting_and_the_command_line_load_without_torch():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.stdout.strip() == "ok", done.stderr


@pytest.mark.parametrize("package", ["stages", "data", "embedding"])
def test_importing_a_package_does_not_load_torch(package):
    program = f"import sys, neurocontrast.{package}; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
