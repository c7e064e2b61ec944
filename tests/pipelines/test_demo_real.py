"""The demo of real brains runs from the sample to reports, and tells what it found."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_the_demo_of_real_brains_compares_four_encoders_at_three_scanners(tmp_path):
    program = tmp_path / "neurocontrast"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m neurocontrast "$@"\n')
    (tmp_path / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    for path in (program, tmp_path / "python"):
        path.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    command = ["sh", "pipelines/demo_real.sh", str(tmp_path / "demo"), "1"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    for target in ("age", "sex"):
        for encoder in ("components", "discriminants", "network", "untrained"):
            assert (tmp_path / "demo" / f"{encoder}-{target}" / "report.html").is_file()
        assert (tmp_path / "demo" / target / "comparison.html").is_file()
    told = done.stdout.split("people whom no encoder has seen")[1]
    assert sum(line.split()[1:2] == ["discriminants"] for line in told.splitlines()) == 3
