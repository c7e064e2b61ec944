from __future__ import annotations

import subprocess
import sys

import matplotlib
import pytest

from neurocontrast.findings import open_folder
from neurocontrast.findings.calibration import draw_curve
from neurocontrast.page.style import distinct_labels, plain_label, shorten


def test_figures_leave_matplotlib_as_it_was(binary_folder):
    before = dict(matplotlib.rcParams)
    picture = draw_curve(open_folder(binary_folder), "roc")
    picture.encode("svg")
    picture.encode("png")
    assert dict(matplotlib.rcParams) == before


def test_figures_do_not_import_pyplot():
    code = (
        "import sys, neurocontrast.findings; import neurocontrast.findings.calibration; "
        "sys.exit('matplotlib.pyplot' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("name", ["plain", "two\nlines", "bell\x07", "x" * 200, ""])
def test_labels_are_one_short_printable_line(name):
    label = shorten(name, length=20)
    assert len(label) <= 20
    assert label.isprintable()
    assert plain_label("cost $5 and $6") == r"cost \$5 and \$6", "no mathematics"


def test_long_names_stay_apart():
    names = [f"University Hospital of Somewhere, department {i}, scanner A" for i in range(12)]
    labels = distinct_labels(names, length=24)
    assert len(set(labels)) == len(names)
    assert all(len(label) <= 24 for label in labels)


def test_names_that_differ_nowhere_near_the_ends_are_numbered():
    names = ["a" * 40 + middle + "b" * 60 for middle in "xyz"] + ["short"]
    labels = distinct_labels(names, length=16)
    assert len(set(labels)) == 4
    assert labels[-1] == "short"
