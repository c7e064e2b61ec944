"""Figure 3 of Dufumier et al. 2021: experiments and keys checked before any job, results, and a tiny run."""

import itertools
import json

import pandas as pd
import pytest

from neurocontrast.exceptions import ConfigError, DataError
from pipelines.brain.cohort import column_of, draw_subjects, write_draws
from pipelines.brain.experiment import BrainExperiment, load_brain, load_experiment
from pipelines.brain.results import summarise_brain
from tests.pipelines.snakemake_runs import (
    ROOT,
    assert_finished,
    dry_run,
    link_repository,
    run_snakemake,
    settings_of,
)

SHIPPED = ["uniformity_small", "uniformity_full", "subjects_small", "subjects_full"]
RECIPE = "configs/brain/conditional_reference.yaml"


@pytest.fixture(autouse=True)
def _in_the_repository(monkeypatch):
    monkeypatch.chdir(ROOT)


def _table(folder, name="clinical.tsv", n=60):
    people = pd.DataFrame({"participant_id": [f"sub-{i:02d}" for i in range(n)]})
    people["diagnosis"] = ["control", "patient", "control"] * (n // 3)
    people.assign(site="a", path="x.nii.gz").to_csv(folder / name, sep="\t", index=False)
    return str(folder / name)


@pytest.mark.parametrize("name", SHIPPED)
def test_every_variant_of_a_shipped_experiment_is_a_valid_configuration(name):
    experiment = load_experiment(ROOT / "pipelines" / "brain" / f"{name}.yaml")
    for variant in experiment.variants:
        config = settings_of(experiment, variant)
        assert (config.evaluation.n_folds, config.data.val_fraction) == (5, 0.0)
        if name.endswith("_full") and variant != "voxels":
            assert (config.encoder.name, config.data.shape) == ("densenet121", (121, 145, 121))


def test_the_weight_of_uniformity_is_varied_for_both_kinds():
    experiment = load_experiment(ROOT / "pipelines" / "brain" / "uniformity_full.yaml")
    for name, each in experiment.variants.items():
        settings = experiment.settings_of(name)
        weight = settings.get("objective.uniformity_weight")
        assert each.at == (settings["objective"]["weights"]["spread"] if weight is None else weight)
    assert sorted({each.at for each in experiment.variants.values()}) == [0, 0.1, 0.5, 1, 2, 5]
    assert len({(each.series, each.at) for each in experiment.variants.values()}) == 12


def test_draws_are_nested_stratified_and_of_subjects(tmp_path):
    table = pd.DataFrame(
        {"subject_id": [str(i // 2) for i in range(80)], "diagnosis": ["a", "a", "b", "b"] * 20}
    )
    table.loc[:1, "diagnosis"] = "n/a"
    drawn = draw_subjects(table, target="diagnosis", sizes=[10, 20], seed=3)
    assert drawn[10] < drawn[20]
    assert "0" not in draw_subjects(table, target="diagnosis", sizes=[39], seed=3)[39]
    classes = table.drop_duplicates("subject_id").set_index("subject_id")["diagnosis"]
    assert abs((classes[list(drawn[10])] == "b").sum() - 5) <= 1
    assert drawn != draw_subjects(table, target="diagnosis", sizes=[10, 20], seed=4)


def test_a_column_says_who_is_evaluated_at_a_size_and_seed(tmp_path):
    write_draws(
        _table(tmp_path), target="diagnosis", sizes=[12], seeds=[0, 1], out=tmp_path / "out.tsv"
    )
    table = pd.read_csv(tmp_path / "out.tsv", sep="\t")
    assert [(table[column_of(12, seed)] == "yes").sum() for seed in (0, 1)] == [12, 12]
    experiment = load_experiment(ROOT / "pipelines" / "brain" / "subjects_small.yaml")
    assert experiment.rows_of("12", 1) == {column_of(12, 1): ["yes"]}
    assert experiment.rows_of("all", 1) == {}


def test_the_command_line_is_set_over_the_file(tmp_path):
    tables = {"pretraining": _table(tmp_path, "healthy.tsv"), "clinical": _table(tmp_path)}
    asked, experiment = load_brain({
        "figure": "subjects", "size": "full", **tables, "subjects": [20, 50], "seeds": [7], "variants": ["scratch"],
        "settings": {"training.epochs": "2"},
    })  # fmt: skip
    assert asked.table("clinical") == tables["clinical"]
    assert asked.images_of("clinical") == str(tmp_path)
    assert (experiment.sizes, experiment.seeds) == (["20", "50"], (7,))
    assert list(experiment.variants) == ["simclr", "untrained", "scratch"], (
        "the reference, and whose network it is"
    )
    assert experiment.pretrained == ["simclr", "untrained"]
    assert experiment.settings_of("simclr")["training.epochs"] == 2
    assert experiment.settings_of("untrained")["training.epochs"] == 0


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({}, "give uniformity"),
        ({"figure": "subject"}, "did you mean 'subjects'"),
        ({"figure": "subjects", "size": "full"}, "give two tables"),
        (
            {"figure": "subjects", "clinical": "no.tsv", "pretraining": "no.tsv"},
            "there is no table 'no.tsv'",
        ),
        ({"figure": "subjects", "subjects": [60, 20]}, "rising order"),
        ({"figure": "subjects", "variants": ["scrach"]}, "did you mean 'scratch'"),
    ],
)
def test_a_wrong_command_line_is_named(config, said):
    with pytest.raises(ConfigError, match=f"(?i){said}"):
        load_brain(config)


def test_a_table_without_the_target_or_with_too_few_subjects_is_refused(tmp_path):
    tables = {"pretraining": _table(tmp_path, "healthy.tsv"), "clinical": _table(tmp_path)}
    with pytest.raises(DataError, match=r"no column 'diagnos'\. Did you mean 'diagnosis'"):
        load_brain({"figure": "subjects", **tables, "target": "diagnos"})
    with pytest.raises(
        DataError, match="100 are asked for, and 60 of the clinical table have a value"
    ):
        load_brain({"figure": "subjects", **tables, "subjects": [30, 100]})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"images": {"n_train": 3}}, "belong to natural images"),
        (
            {"orderings": [{"higher": "conditonal", "lower": "yaware", "source": "x"}]},
            "there is no 'conditonal'",
        ),
        ({"simulate": {"clinical": {"n_subject": 3}}}, "did you mean 'n_subjects'"),
    ],
)
def test_a_wrong_experiment_is_named(changes, said):
    with pytest.raises(ConfigError, match=f"(?i){said}"):
        load_experiment(ROOT / "pipelines" / "brain" / "subjects_small.yaml", changes)


def test_means_and_orderings_are_over_folds_and_seeds(tmp_path):
    experiment = BrainExperiment.model_validate({
        "title": "Tiny", "question": "Does it run?", "recipe": RECIPE, "reference": "low", "seeds": [0, 1],
        "variants": {"low": {"label": "Low"}, "high": {"label": "High"}}, "figures": ["series"], "subjects": [20, 40],
        "orderings": [{"higher": "high", "lower": "low", "source": "nowhere"}], "published": ["BIOBD 0.66"],
    })  # fmt: skip
    for variant, size, seed in itertools.product(
        ("low", "high"), experiment.sizes, experiment.seeds
    ):
        auc = {"low": 0.6, "high": 0.7}[variant]
        folder = tmp_path / variant / f"seed-{seed}" / f"subjects-{size}"
        folder.mkdir(parents=True)
        folds = pd.DataFrame({"repeat": 0, "fold": [0, 1], "auc": [auc + seed / 100, auc + 0.02]})
        folds.to_csv(folder / "folds.tsv", sep="\t", index=False)
    summary = summarise_brain(tmp_path, experiment=experiment)
    assert summary["n_seeds"].tolist() == [4] * 4
    assert summary.loc[summary["variant"] == "high", "difference"].tolist() == pytest.approx(
        [0.1, 0.1]
    )
    page = (tmp_path / "results.md").read_text()
    assert "| High > Low | nowhere | 20 | +0.100 [+0.100, +0.100] | appears |" in page
    assert "Of 2 published orderings 2 appear, 0 the other way round; 0 are not settled." in page
    assert "- Published: BIOBD 0.66" in page
    drawn = pd.read_csv(tmp_path / "figures" / "series_auc.tsv", sep="\t")
    assert drawn.groupby("series")["at"].apply(list).to_dict() == {
        "High": [20, 40],
        "Low": [20, 40],
    }
    pd.DataFrame({"repeat": [0], "fold": [0]}).to_csv(
        tmp_path / "low/seed-0/subjects-20/folds.tsv", sep="\t"
    )
    with pytest.raises(DataError, match="'diagnosis' is not of two classes"):
        summarise_brain(tmp_path, experiment=experiment)


@pytest.mark.slow
def test_a_dry_run_plans_every_variant_seed_and_size(tmp_path):
    said, planned = dry_run(
        link_repository(tmp_path), "brain.smk", "figure=subjects", "seeds=[3,4]"
    )
    counts = {"simulate": 2, "draws": 1, "pretrain": 12, "embed": 12, "evaluate": 24, "finetune": 4, "results": 1,
              "compare": 1}  # fmt: skip
    assert counts.items() <= planned.items()
    assert "--from-scratch" in said


@pytest.mark.slow
def test_from_simulated_brains_to_a_figure(tmp_path):
    folder = link_repository(tmp_path)
    content = {
        "title": "Tiny", "question": "Does it run?", "recipe": RECIPE, "reference": "conditional", "seeds": [0],
        "subjects": [16, 24], "figures": ["series"],
        "simulate": {"pretraining": {"n_subjects": 12, "n_sites": 2, "spacing_mm": 8.0, "seed": 1, "patients": 0.0},
                     "clinical": {"n_subjects": 30, "n_sites": 2, "spacing_mm": 8.0, "seed": 2}},
        "variants": {"conditional": {"label": "Conditional"},
                     "scratch": {"label": "From scratch", "from_scratch": "conditional"}},
        "settings": {"data.spacing_mm": 10.0, "data.shape": [16, 20, 16], "data.val_fraction": 0.0,
                     "encoder": {"name": "lenet", "projection": [8]}, "training.epochs": 1, "training.batch_size": 6,
                     "finetune.epochs": 1, "evaluation.new_site": False, "evaluation.confounds": False,
                     "evaluation.n_folds": 2, "evaluation.n_bootstraps": 20, "evaluation.C": [1.0]},
    }  # fmt: skip
    (folder / "tiny.yaml").write_text(json.dumps(content))
    done = run_snakemake(folder, "brain.smk", "file=tiny.yaml")
    results = folder / "results" / "tiny"
    assert_finished(done, results)
    table = pd.read_csv(results / "results.tsv", sep="\t")
    assert table["mean"].between(0, 1).all()
    assert set(zip(table["variant"], table["subjects"], strict=True)) == {
        (variant, size) for variant in ("conditional", "scratch") for size in (16, 24)
    }
    n = json.loads(
        (results / "scratch" / "seed-0" / "subjects-16" / "evaluation.json").read_text()
    )["n"]
    assert n["subjects"] == 16
    assert (results / "figures" / "series_auc.svg").is_file()
    assert (
        json.loads(
            (results / "conditional" / "seed-0" / "subjects-16" / "evaluation.json").read_text()
        )["n"]
        == n
    )
    assert "<html" in (results / "comparison" / "comparison.html").read_text()
    assert "Nothing to be done" in dry_run(folder, "brain.smk", "file=tiny.yaml")[0]
