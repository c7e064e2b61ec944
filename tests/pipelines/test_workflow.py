"""The Snakemake workflow: its configuration is checked, and it runs from nothing to reports."""

import json

import pytest
import yaml

from neurocontrast.exceptions import ConfigError
from pipelines.workflow import load_workflow
from tests.pipelines.snakemake_runs import ROOT, assert_finished, link_repository, run_snakemake

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
        ({"recipes": {"yaware": "no/such.yaml"}}, "no/such.yaml"),
        ({"pretraining": "helthy"}, "helthy"),
        ({"splits": ["random"]}, "leave-site-out"),
        ({"targets": ["../age"]}, "letters, digits"),
    ],
)
def test_a_wrong_configuration_is_named(changes, said):
    with pytest.raises(ConfigError, match=said):
        load_workflow(_tiny(**changes))


@pytest.mark.slow
def test_from_nothing_to_reports(tmp_path):
    (link_repository(tmp_path) / "sweep.yaml").write_text(yaml.safe_dump(_tiny()))
    done = run_snakemake(tmp_path, "Snakefile", flags=["--configfile", "sweep.yaml"])
    assert_finished(done, tmp_path / "results")
    folder = tmp_path / "results" / "yaware" / "diagnosis-stratified"
    assert "<html" in (folder / "report.html").read_text()
    assert json.loads((folder / "evaluation.json").read_text())["target"] == "diagnosis"
    again = run_snakemake(tmp_path, "Snakefile", flags=["--configfile", "sweep.yaml", "--dry-run"])
    assert "Nothing to be done" in again.stdout + again.stderr


def test_an_unknown_key_stops_the_workflow_before_any_job(tmp_path):
    (link_repository(tmp_path) / "sweep.yaml").write_text(yaml.safe_dump(_tiny(targts=["age"])))
    done = run_snakemake(tmp_path, "Snakefile", flags=["--configfile", "sweep.yaml", "--dry-run"])
    assert done.returncode != 0
    assert "targts" in done.stdout + done.stderr
    assert not (tmp_path / "results").exists()
