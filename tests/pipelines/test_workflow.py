"""The Snakemake workflows: configurations are checked before any job, and they run from nothing to reports."""

import json

import pandas as pd
import pytest
import yaml

from neurocontrast.exceptions import ConfigError
from pipelines.workflow import load_workflow
from tests.pipelines.snakemake_runs import (
    ROOT,
    assert_finished,
    dry_run,
    link_repository,
    run_snakemake,
)

RECIPE = ROOT / "configs" / "brain" / "yaware.yaml"


EMBEDDING_ALONE = {
    "evaluation.voxels": "off",
    "evaluation.confounds": False,
    "evaluation.new_site": False,
    "evaluation.outlyingness": False,
}
"""What a workflow does not look at: further models, and other questions to the embedding."""


def _tiny(**changes):
    cohort = {"n_sites": 2, "spacing_mm": 6, "site_seed": 0}
    small = {
        "data.spacing_mm": 6,
        "data.shape": [32, 32, 32],
        "data.val_fraction": 0.0,
        "data.cache_dir": "cache",
    }
    short = {
        "training.epochs": 1,
        "training.batch_size": 6,
        "evaluation.n_bootstraps": 50,
        "evaluation.n_folds": 2,
    } | EMBEDDING_ALONE
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


@pytest.mark.slow
def test_a_dry_run_plans_every_variant_seed_and_layer(tmp_path):
    repository = link_repository(tmp_path)
    (repository / "cifar10.tar.xz").touch()
    given = ["experiment=sincere", "seeds=[3,4]", "source=cifar10.tar.xz"]
    said, planned = dry_run(repository, "natural.smk", *given)
    rules = ("images", "pretrain", "embed", "evaluate", "probe", "results", "compare")
    assert [planned[name] for name in rules] == [1, 6, 12, 6, 6, 1, 1]
    assert "embedding.layer=head" in said
    assert "--resume" in said


@pytest.mark.slow
def test_a_run_with_milestones_stops_at_each_and_goes_on(tmp_path):
    given = [
        "experiment=linear",
        "dataset=digits",
        "seeds=[0]",
        "variants=[simclr]",
        "milestones=[2,3]",
    ]
    said, counts = dry_run(link_repository(tmp_path), "natural.smk", *given)
    assert (counts["pretrain_until"], counts["classify"], counts["embed"]) == (2, 2, 1)
    assert "pretrain" not in counts
    assert said.index("training.epochs=2") < said.index("training.epochs=3")


@pytest.mark.slow
def test_from_digits_to_a_table_with_simulated_attributes(tmp_path):
    repository = link_repository(tmp_path)
    classes = {
        f"digit {digit}": [int(digit in (0, 6, 8, 9)), int(digit in (1, 4, 7))]
        for digit in range(10)
    }
    supcon = {"objective": {"loss": "supcon", "label": "cluster_2"}}
    content = {
        "title": "Tiny", "question": "Does it run?", "recipe": "configs/natural/fair_cclk_small.yaml",
        "images": {"clusters": {"columns": ["attr_*"], "n_clusters": [2, 3]},
                   "n_train": 200, "n_validation": 60, "n_test": 60},
        "annotation": {"columns": ["attr_round", "attr_line"], "flip": 0.1, "classes": classes},
        "variants": {"infonce": {"label": "InfoNCE", "settings": {"objective": {"loss": "infonce"}}},
                     "clusters": {"label": "Clusters", "settings": supcon}},
        "reference": "infonce", "seeds": [0], "measures": ["accuracy", "sensitive_r2"],
        "settings": {"training.epochs": 1, "evaluation.n_bootstraps": 20, "evaluation.C": [1.0]},
        "figures": ["variants"],
    }  # fmt: skip
    (repository / "tiny.yaml").write_text(json.dumps(content))
    done = run_snakemake(repository, "natural.smk", "file=tiny.yaml")
    folder = repository / "results" / "tiny"
    assert_finished(done, folder)
    table = pd.read_csv(folder / "results.tsv", sep="\t")
    assert table.groupby("variant")["measure"].nunique().to_dict() == {"clusters": 2, "infonce": 2}
    assert table["mean"].notna().all()
    assert "# Tiny" in (folder / "results.md").read_text()
    assert (folder / "figures" / "variants_sensitive_r2.svg").is_file()
    assert "<html" in (folder / "comparison" / "comparison.html").read_text()
    attributes = pd.read_csv(folder / "attributes.tsv", sep="\t")
    assert len(attributes) == 1797, "of all images, whichever are kept"
    assert "200 train, 60 validation, 60 test" in (folder / "results.md").read_text()
    assert "Nothing to be done" in dry_run(repository, "natural.smk", "file=tiny.yaml")[0]
