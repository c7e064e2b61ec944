"""The demo of real brains runs from the sample to reports, and tells what it found."""

import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

ROOT = Path(__file__).resolve().parents[2]
N_OF_SEX = {"train": 17, "test": 7}
"""Most people of a sex and a scanner: more learn than the demo has components, ten are new at each."""
QUICK = {"voxels": "off", "confounds": "false", "outlyingness": "false", "n_bootstraps": "100"}


def write_fewer(path):
    """Write the table of half of the sample."""
    people = pd.read_csv(ROOT / "sample" / "participants.tsv", sep="\t", dtype=str)
    kept = []
    for (_, split, _), group in people.groupby(["site", "split", "sex"]):
        kept.append(group.head(N_OF_SEX[split]))
    fewer = pd.concat(kept)
    for column in ("path", "gm", "wm", "csf"):
        fewer[column] = str(ROOT / "sample") + "/" + fewer[column]
    fewer.to_csv(path, sep="\t", index=False)
    return path


@pytest.mark.slow
def test_the_demo_of_real_brains_compares_four_encoders_at_three_scanners(tmp_path):
    program = tmp_path / "neurocontrast"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m neurocontrast "$@"\n')
    (tmp_path / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    for path in (program, tmp_path / "python"):
        path.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    table = write_fewer(tmp_path / "people.tsv")
    command = ["sh", "pipelines/demo_real.sh", str(tmp_path / "demo"), "1", str(table)]
    for key, value in QUICK.items():
        command += ["--set", f"evaluation.{key}={value}"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    for target in ("age", "sex"):
        for encoder in ("components", "discriminants", "network", "untrained"):
            assert (tmp_path / "demo" / f"{encoder}-{target}" / "report.html").is_file()
        assert (tmp_path / "demo" / target / "comparison.html").is_file()
    told = done.stdout.split("people whom no encoder has seen")[1]
    assert sum(line.split()[1:2] == ["discriminants"] for line in told.splitlines()) == 3
