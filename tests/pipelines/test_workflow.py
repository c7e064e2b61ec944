"""The Snakemake workflow: its configuration is checked, and it runs from nothing to reports."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from neurocontrast.exceptions import ConfigError
from pipelines.workflow import load_workflow
from tests.pipelines.snakemake_runs import ROOT, assert_finished

RECIPE = ROOT / "neurocontrast" / "recipes" / "brain" / "yaware.yaml"


def _tiny(**changes):
    cohort = {"n_sites": 2, "spacing_mm": 6, "site_seed": 0}
    small = {"data.spacing_mm": 6, "data.shape": [32, 32, 32], "data.val_fraction": 0.0, "data.cache_dir": "cache"}
    short = {"training.epochs": 1, "training.batch_size": 6, "evaluation.n_bootstraps": 50, "evaluation.n_folds": 2}
    return {
        "simulate": {
            "healthy": cohort | {"n_subjects": 12, "seed": 0, "patients": 0.0},
            "clinical": cohort | {"n_subjects": 24, "seed": 1, "patients": 0.5},
        },
        "pretraining": "healthy",
        "evaluation": "clinical",
        "recipes": {"yaware": str(RECIPE)},
        "settings": small | short,
        "targets": ["diagnosis"],
    } | changes


def test_the_example_is_valid_and_complete(monkeypatch):
    monkeypatch.chdir(ROOT)
    sweep = load_workflow(yaml.safe_load((ROOT / "pipelines" / "example.yaml").read_text()))
    assert sweep.participants("healthy") == "results/cohorts/healthy/participants.tsv"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"recipies": {}}, "recipes"),
        ({"recipes": {}}, "recipes"),
        ({"recipes": {"yaware": "no/such.yaml"}}, "no/such.yaml"),
        ({"pretraining": "helthy"}, "helthy"),
        ({"splits": ["random"]}, "leave-site-out"),
        ({"targets": ["../age"]}, "letters, digits"),
    ],
)
def test_a_wrong_configuration_is_named(changes, said):
    with pytest.raises(ConfigError, match=said):
        load_workflow(_tiny(**changes))


def _snakemake(folder, *arguments):
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "pipelines" / "Snakefile")]
    command += ["--profile", str(ROOT / "pipelines" / "profiles" / "local"), *arguments]
    # The rules call the command of the environment that runs the tests, activated or not.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env=os.environ | {"PATH": path})


@pytest.mark.slow
def test_from_nothing_to_reports(tmp_path):
    (tmp_path / "sweep.yaml").write_text(yaml.safe_dump(_tiny()))
    done = _snakemake(tmp_path, "--configfile", "sweep.yaml")
    assert_finished(done, tmp_path / "results")
    folder = tmp_path / "results" / "yaware" / "diagnosis-stratified"
    assert "<html" in (folder / "report.html").read_text()
    assert json.loads((folder / "evaluation.json").read_text())["target"] == "diagnosis"
    again = _snakemake(tmp_path, "--configfile", "sweep.yaml", "--dry-run")
    assert "Nothing to be done" in again.stdout + again.stderr


def test_an_unknown_key_stops_the_workflow_before_any_job(tmp_path):
    (tmp_path / "sweep.yaml").write_text(yaml.safe_dump(_tiny(targts=["age"])))
    done = _snakemake(tmp_path, "--configfile", "sweep.yaml", "--dry-run")
    assert done.returncode != 0
    assert "targts" in done.stdout + done.stderr
    assert not (tmp_path / "results").exists()
