import json
from importlib import metadata

import numpy as np
import pandas as pd
import pytest
import torch
from small_run import metrics, people_of, read_json, weights

import neurocontrast
from neurocontrast.cli import run as run_cli
from neurocontrast.config import load_config
from neurocontrast.data import advice, read_cohort
from neurocontrast.embedding import read_embeddings
from neurocontrast.encoders import load_encoder
from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.provenance import subject_digest

CLASSES_OF = "objective={loss: supervised, error: cross-entropy, column"


def test_run_directory_holds_what_the_design_says(whole, cohort, settings):
    files = "config.yaml provenance.json metrics.csv checkpoints encoder.json encoder.safetensors head.safetensors"
    assert {path.name for path in whole.iterdir()} == {*files.split(), "answer.json"}
    resolved = load_config(whole / "config.yaml")
    assert resolved == settings()
    provenance = read_json(whole / "provenance.json")
    table = read_cohort(cohort).table
    assert provenance["pretraining_subjects"] == sorted(
        subject_digest(s) for s in table["subject_id"].unique()
    )
    assert provenance["simulated"] is True
    assert provenance["simulation"]["settings"]["seed"] == 5
    assert provenance["cohort"]["digest"] == read_cohort(cohort).digest()
    assert provenance["n_training_scans"] + provenance["n_validation_scans"] == len(table)
    assert provenance["categories"] == {"sex": ["F", "M"]}
    assert len(metrics(whole)) == 2
    assert float(metrics(whole)[0]["val_alignment"]) >= 0
    encoder, described = load_encoder(whole)
    contract = described.content()
    grid = {"spacing_mm": 10.0, "shape": [16, 20, 16], "orientation": "RAS"}
    assert contract["preprocessing"] == {"transform_version": 1, "normalise": "zscore", **grid}
    assert contract["batchnorm"]["n_scans"] == contract["n_training_scans"]
    assert (contract["objective"]["loss"], contract["simulated"]) == ("yaware", True)
    assert encoder.n_features == contract["n_features"] == 32


def test_same_configuration_same_bytes_whatever_does_not_matter(whole, settings, tmp_path):
    again = neurocontrast.pretrain(
        settings(
            "data.n_workers=2",
            f"data.cache_dir={tmp_path / 'elsewhere'}",
            "training.keep_checkpoints=1",
        ),
        out=tmp_path / "again",
    )
    assert weights(again) == weights(whole)
    assert metrics(again) == metrics(whole)


@pytest.mark.parametrize(
    "objective",
    [
        "{loss: ntxent}",
        "{loss: conditional, kernel: [{column: age, type: gaussian, sigma: scott}]}",
        "{loss: supervised, column: age, error: squared}",
        "{loss: sum, objectives: {learn: {loss: supcon, label: site}, forget: {loss: ntxent}}, weights: {forget: 0.5}}",
    ],
)
def test_other_objectives_train_and_log_their_terms(settings, tmp_path, objective):
    probes = ("training.probe_every=1", "training.probe_columns=[age, site]")
    run = neurocontrast.pretrain(
        settings(f"objective={objective}", "training.epochs=1", *probes), out=tmp_path / "run"
    )
    row = metrics(run)[0]
    assert float(row["probe_age_r2"]) <= 1
    assert 0 <= float(row["probe_site_balanced_accuracy"]) <= 1
    terms = [float(value) for name, value in row.items() if name.startswith("train_term_")]
    assert terms
    assert float(row["train_loss"]) == pytest.approx(sum(terms), abs=1e-4)


@pytest.mark.parametrize(
    ("overrides", "error", "message"),
    [
        (["data.participants=null"], ConfigError, r"data\.participants: missing"),
        (["data.participants=absent.tsv"], DataError, r"absent\.tsv: there is no such"),
        (
            ["objective={loss: supcon, label: sites}"],
            DataError,
            r"no column 'sites'\. Did you mean 'site'\?",
        ),
        (["objective={loss: supervised, column: sex}"], DataError, r"'sex' holds text"),
        (
            [f"{CLASSES_OF}: diagnosis}}", "data.where.diagnosis=[control]"],
            DataError,
            "'diagnosis' is the same",
        ),
        ([f"{CLASSES_OF}: participant_id}}"], DataError, "only validation"),
        (
            ["training.precision=bf16-mixed"],
            ConfigError,
            r"training\.precision: 'bf16-mixed' is for GPUs",
        ),
        (["data.val_fraction=0.05"], ConfigError, r"leaves a single validation sample"),
        (
            ["training.probe_every=1", "training.probe_columns=[ages]"],
            DataError,
            "probe_columns: .* mean 'age'",
        ),
        (["encoder={name: lenet, n_components: 3}"], ConfigError, "n_components belongs to pca"),
        (
            ["encoder={name: pca, n_components: 10}"],
            ConfigError,
            "below the number of training scans, 10, found 10",
        ),
        (
            ["encoder={name: pca}", "training.devices=2"],
            ConfigError,
            "'pca' is fitted by one process",
        ),
    ],
)
def test_wrong_input_is_named_before_anything_is_written(
    settings, tmp_path, overrides, error, message
):
    with pytest.raises(error, match=message):
        neurocontrast.pretrain(settings(*overrides), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_missing_metadata_are_refused_by_name_or_marginalised(settings, cohort, tmp_path):
    table = pd.read_csv(cohort, sep="\t", dtype=str, keep_default_na=False)
    table.loc[[2, 4], "age"] = "n/a"
    path = cohort.parent / "missing.tsv"
    table.to_csv(path, sep="\t", index=False)
    with pytest.raises(DataError, match="Column 'age' is missing for 2 rows") as caught:
        neurocontrast.pretrain(settings(f"data.participants={path}"), out=tmp_path / "refused")
    assert table.loc[2, "participant_id"] in str(caught.value)
    assert not (tmp_path / "refused").exists()
    marginal = "objective={loss: yaware, kernel: [{column: age, type: gaussian, sigma: 5, missing: marginal}]}"
    config = settings(f"data.participants={path}", marginal, "training.epochs=1")
    run = neurocontrast.pretrain(config, out=tmp_path / "kept")
    assert np.isfinite(float(metrics(run)[0]["train_loss"]))


def test_selection_leaves_the_others_out_of_the_run(settings, cohort, tmp_path):
    site = read_cohort(cohort).table["site"].value_counts().index[0]
    run = neurocontrast.pretrain(
        settings(f"data.where={{site: [{site}]}}", "training.epochs=0"), out=tmp_path / "run"
    )
    chosen = read_cohort(cohort).select({"site": [site]})
    provenance = read_json(run / "provenance.json")
    assert provenance["pretraining_subjects"] == chosen.subject_digests()


def test_a_table_in_memory_trains_and_is_embedded_as_its_file_does(
    whole, cohort, settings, cached, tmp_path, capsys
):
    table = people_of(cohort)
    config = settings("data.participants=null")
    run = neurocontrast.pretrain(config, participants=table, out=tmp_path / "run", progress=True)
    assert "epoch 2/2" in capsys.readouterr().err
    assert weights(run) == weights(whole)
    with pytest.raises(ConfigError, match=r"data\.participants: missing"):
        neurocontrast.pretrain(config, out=tmp_path / "run", resume=True)
    neurocontrast.pretrain(config, participants=table, out=tmp_path / "run", resume=True)
    by_file = neurocontrast.embed(
        run, participants=cohort, out=tmp_path / "file.parquet", config=cached
    )
    by_frame = neurocontrast.embed(
        run, participants=table, out=tmp_path / "frame.parquet", config=cached
    )
    assert (read_embeddings(by_file).features == read_embeddings(by_frame).features).all()
    with pytest.raises(DataError, match="DataFrame: needs at least one row"):
        neurocontrast.pretrain(config, participants=table[:0], out=tmp_path / "none")
    again = neurocontrast.pretrain(config, participants=str(cohort), out=tmp_path / "by_path")
    assert weights(again) == weights(whole)


def test_an_unknown_site_is_refused_with_all_rows_before_a_scan_is_read(tmp_path, cohort, settings):
    table = people_of(cohort)
    bad = table["participant_id"][[1, 4]].tolist()
    table.loc[[1, 4], "site"] = "n/a"
    config = settings(
        "data.participants=null", "data.val_fraction=0", "training.sampling=site-balanced"
    )
    with pytest.raises(DataError, match=f"'site' is missing for '{bad[0]}', '{bad[1]}'"):
        neurocontrast.pretrain(config, participants=table, out=tmp_path / "run")
    with pytest.raises(DataError, match="sampling: site-balanced: DataFrame has no column 'site'"):
        neurocontrast.pretrain(
            config, participants=table.drop(columns="site"), out=tmp_path / "run"
        )
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("many", "said"), [(1000, "small"), (5, "yaware")])
def test_it_says_which_recipe_suits_the_table(settings, monkeypatch, many, said):
    monkeypatch.setattr(advice, "MANY_PEOPLE", many)
    assert f"Recipe for this table: {said} (" in neurocontrast.doctor(settings()).to_text()


def test_a_wrong_table_or_shape_is_refused_as_by_pretrain(settings):
    with pytest.raises(DataError, match="there is no such file"):
        neurocontrast.doctor(settings("data.participants=nowhere.tsv"))
    with pytest.raises(ConfigError, match="needs at least 32 voxels"):
        neurocontrast.doctor(settings("data.participants=null", "encoder.name=densenet121"))


def test_a_machine_that_cannot_train_the_run_is_a_problem(settings):
    diagnosis = neurocontrast.doctor(settings("training.accelerator=cuda", "training.devices=1000"))
    assert diagnosis.run is None
    assert len(diagnosis.problems) == 1
    assert list(diagnosis.content()) == ["machine", "run", "problems"]
    assert f"problem: {diagnosis.problems[0]}" in diagnosis.to_text()


ARGUMENTS = [
    *(
        "--set",
        "encoder.name=lenet",
        "--set",
        "data.spacing_mm=8",
        "--set",
        "data.shape=[24,28,24]",
    ),
    *("--set", "training.batch_size=4", "--set", "data.val_fraction=0.3", "--quiet"),
]


def test_the_command_tells_the_facts_and_json_is_for_programs(cohort, capsys):
    assert run_cli(["doctor", *ARGUMENTS, "--participants", str(cohort)]) == 0
    shown = capsys.readouterr().out
    torch_version = f"torch {metadata.version('torch')}"
    for fact in (
        "Python 3.",
        torch_version,
        "cores usable",
        "GPU ",
        "This run: lenet on ",
        "24×28×24",
    ):
        assert fact in shown, fact
    assert run_cli(["doctor", *ARGUMENTS, "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)) == {"machine", "run", "problems"}


def test_a_configuration_that_is_refused_here_ends_with_2_after_the_facts(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert run_cli(["doctor", *ARGUMENTS, "--set", "training.precision=16-mixed"]) == 2
    shown = capsys.readouterr().out
    assert "cores usable" in shown
    assert "problem: training.precision: '16-mixed' is for GPUs" in shown
