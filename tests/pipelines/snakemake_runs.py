"""Runs of a workflow of the repository in another folder."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def link_repository(folder):
    """Give a folder the recipes and the workflows, so that nothing is written to the repository itself."""
    for name in ("neurocontrast", "pipelines"):
        (folder / name).symlink_to(ROOT / name)
    return folder


def run_snakemake(folder, snakefile, *config, flags=()):
    """Run a workflow with keys of ``--config``, by the command of the environment that runs the tests."""
    command = [sys.executable, "-m", "snakemake", "--snakefile", f"pipelines/{snakefile}"]
    command += ["--profile", "pipelines/profiles/local", *flags, "--config", *config]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env=os.environ | {"PATH": path})


def planned(said):
    """Return how many jobs of each rule a dry run plans."""
    lines = [line.split() for line in said.splitlines()]
    return {line[0]: int(line[1]) for line in lines if len(line) == 2 and line[1].isdecimal()}
