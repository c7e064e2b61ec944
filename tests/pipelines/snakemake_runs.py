"""Runs of a workflow of the repository in another folder, and the configurations of its experiments."""

import os
import subprocess
import sys
from pathlib import Path

import yaml

from neurocontrast.config import load_config

ROOT = Path(__file__).resolve().parents[2]


def link_repository(folder):
    """Give a folder the recipes and the workflows, so that nothing is written to the repository itself."""
    for name in ("neurocontrast", "configs", "pipelines"):
        (folder / name).symlink_to(ROOT / name)
    return folder


def run_snakemake(folder, snakefile, *config, flags=()):
    """Run a workflow with keys of ``--config``, by the command of the environment that runs the tests."""
    command = [sys.executable, "-m", "snakemake", "--snakefile", f"pipelines/{snakefile}"]
    command += [
        "--profile",
        "pipelines/profiles/local",
        *flags,
        *(["--config", *config] if config else []),
    ]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, env=os.environ | {"PATH": path}
    )


def dry_run(folder, snakefile, *config):
    """Plan a workflow that has nothing wrong; return what is said, and how many jobs of each rule are planned."""
    done = run_snakemake(folder, snakefile, *config, flags=["--dry-run"])
    said = done.stdout + done.stderr
    assert done.returncode == 0, said[-2000:]
    assert not (folder / "results").exists() or "Nothing to be done" in said
    lines = [line.split() for line in said.splitlines()]
    return said, {line[0]: int(line[1]) for line in lines if len(line) == 2 and line[1].isdecimal()}


def settings_of(experiment, variant):
    """Return the whole configuration of a variant of an experiment."""
    chosen = experiment.settings_of(variant).items()
    overrides = [f"{key}={yaml.safe_dump(value, default_flow_style=True)}" for key, value in chosen]
    return load_config(experiment.recipe_of(variant), overrides)


def assert_finished(done, results):
    """Assert that a workflow ended well; a failure shows the ends of its rules' logs."""
    logs = [f"{log}:\n{log.read_text()[-2000:]}" for log in results.rglob("*.log")]
    assert done.returncode == 0, "\n".join([done.stderr[-3000:], *logs])
