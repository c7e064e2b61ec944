import csv
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import neurocontrast
from neurocontrast.config import load_config
from neurocontrast.data import read_cohort
from neurocontrast.embedding import read_embeddings
from neurocontrast.encoders import load_encoder
from neurocontrast.exceptions import CheckpointError, ConfigError, DataError, TrainingInterrupted
from neurocontrast.progress import SILENT
from neurocontrast.provenance import subject_digest
from neurocontrast.stages import run_lock
from neurocontrast.stages.run_folder import check_can_continue

TIMING = ("seconds", "volumes_per_second")


@pytest.fixture(scope="module")
def cohort(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cohort")
    return neurocontrast.simulate(folder / "simulated", n_subjects=14, n_sites=2, spacing_mm=8.0, seed=5)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def settings(cohort, cache):
    def make(*overrides):
        return load_config(
            None,
            [
                f"data.participants={cohort}",
                f"data.cache_dir={cache}",
                "data.spacing_mm=10",
                "data.shape=[16,20,16]",
                "data.val_fraction=0.3",
                "data.n_workers=1",
                "encoder={name: lenet, projection: [8, 4]}",
                "training={epochs: 2, batch_size: 4, learning_rate: 1e-2, accelerator: cpu}",
                *overrides,
            ],
        )

    return make


@pytest.fixture(scope="module")
def whole(tmp_path_factory, cohort, cache):
    """The uninterrupted run that others are compared with."""
    out = tmp_path_factory.mktemp("runs") / "whole"
    config = {
        "data": {
            "participants": str(cohort),
            "cache_dir": str(cache),
            "spacing_mm": 10,
            "shape": [16, 20, 16],
            "val_fraction": 0.3,
            "n_workers": 1,
        },
        "encoder": {"name": "lenet", "projection": [8, 4]},
        "training": {"epochs": 2, "batch_size": 4, "learning_rate": 1e-2, "accelerator": "cpu"},
    }
    return neurocontrast.pretrain(config, out=out)


def weights(run):
    return (run / "encoder.safetensors").read_bytes()


def metrics(run):
    with open(run / "metrics.csv", newline="") as stream:
        return [{k: v for k, v in row.items() if k not in TIMING} for row in csv.DictReader(stream)]


class Listening(type(SILENT)):
    def __init__(self):
        self.said = []

    def message(self, text):
        self.said.append(text)

    def warning(self, text):
        self.said.append(text)


def test_run_directory_holds_what_the_design_says(whole, cohort, settings):
    assert {path.name for path in whole.iterdir()} == {
        "config.yaml",
        "provenance.json",
        "metrics.csv",
        "checkpoints",
        "tensorboard",
        "encoder.safetensors",
        "encoder.json",
    }
    resolved = load_config(whole / "config.yaml")
    assert resolved == settings()
    provenance = json.loads((whole / "provenance.json").read_text())
    table = read_cohort(cohort).table
    assert provenance["pretraining_subjects"] == sorted(subject_digest(s) for s in table["subject_id"].unique())
    assert provenance["simulated"] is True
    assert provenance["simulation"]["settings"]["seed"] == 5
    assert provenance["cohort"]["digest"] == read_cohort(cohort).digest()
    assert provenance["n_training_scans"] + provenance["n_validation_scans"] == len(table)
    assert provenance["categories"] == {"sex": ["F", "M"]}
    assert len(metrics(whole)) == 2
    assert float(metrics(whole)[0]["val_alignment"]) >= 0


def test_encoder_carries_the_preprocessing_contract(whole):
    encoder, contract = load_encoder(whole)
    assert contract["preprocessing"] == {
        "transform_version": 1,
        "spacing_mm": 10.0,
        "shape": [16, 20, 16],
        "normalise": "zscore",
        "orientation": "RAS",
    }
    assert contract["batchnorm"]["n_scans"] == contract["n_training_scans"]
    assert contract["objective"]["loss"] == "yaware"
    assert contract["simulated"] is True
    assert encoder.n_features == contract["n_features"] == 32


def test_same_configuration_same_bytes_whatever_does_not_matter(whole, settings, tmp_path):
    again = neurocontrast.pretrain(
        settings("data.n_workers=2", f"data.cache_dir={tmp_path / 'elsewhere'}", "training.keep_checkpoints=1"),
        out=tmp_path / "again",
    )
    assert weights(again) == weights(whole)
    assert metrics(again) == metrics(whole)


def test_zero_epochs_give_the_untrained_encoder(settings, tmp_path):
    run = neurocontrast.pretrain(settings("training.epochs=0"), out=tmp_path / "untrained")
    _, contract = load_encoder(run)
    assert contract["epochs"] == 0
    assert contract["batchnorm"]["n_scans"] > 0
    assert metrics(run) == []


@pytest.mark.parametrize(
    "objective",
    [
        "{loss: ntxent}",
        "{loss: conditional, kernel: [{column: age, type: gaussian, sigma: scott}]}",
        "{loss: sum, objectives: {learn: {loss: supcon, label: site}, forget: {loss: ntxent}}, weights: {forget: 0.5}}",
    ],
)
def test_other_objectives_train_and_log_their_terms(settings, tmp_path, objective):
    run = neurocontrast.pretrain(settings(f"objective={objective}", "training.epochs=1"), out=tmp_path / "run")
    row = metrics(run)[0]
    terms = [float(value) for name, value in row.items() if name.startswith("train_term_")]
    assert terms
    assert float(row["train_loss"]) == pytest.approx(sum(terms), abs=1e-4)


def test_probe_columns_are_scored(settings, tmp_path):
    run = neurocontrast.pretrain(
        settings("training.epochs=1", "training.probe_every=1", "training.probe_columns=[age, site]"),
        out=tmp_path / "run",
    )
    assert float(metrics(run)[0]["probe_age_r2"]) <= 1
    assert 0 <= float(metrics(run)[0]["probe_site_balanced_accuracy"]) <= 1


PROGRAM = """
import os, signal, sys
import torch, neurocontrast, neurocontrast.training.checkpoints as checkpoints

torch.set_num_threads(1)
if sys.argv[3] == "die":
    save = checkpoints.save_checkpoint

    def save_and_die(*given, **options):
        save(*given, **options)
        os.kill(os.getpid(), signal.SIGKILL)

    checkpoints.save_checkpoint = save_and_die
neurocontrast.pretrain(sys.argv[1], out=sys.argv[2], resume=True)
"""


def program(config, out, then="finish"):
    """The command of a process that begins or continues a run."""
    return [sys.executable, "-c", PROGRAM, str(config), str(out), then]


@pytest.fixture(scope="module")
def whole_apart(whole, tmp_path_factory):
    """The run that was never killed, made by a process of its own as those that are."""
    out = tmp_path_factory.mktemp("apart") / "whole"
    subprocess.run(program(whole / "config.yaml", out), check=True)
    return out


def test_killed_run_resumes_to_the_same_bytes(whole_apart, tmp_path):
    out, config = tmp_path / "run", whole_apart / "config.yaml"
    done = subprocess.run(program(config, out, "die"), check=False)
    assert done.returncode == -signal.SIGKILL
    assert not (out / "encoder.json").exists()
    (out / "checkpoints/.tmp-left-epoch-0002.pt").write_text("half")
    subprocess.run(program(config, out), check=True)
    assert weights(out) == weights(whole_apart)
    assert metrics(out) == metrics(whole_apart)
    assert not list(out.rglob(".tmp-*"))


@pytest.mark.parametrize("lost", [["encoder.json"], ["encoder.json", "encoder.safetensors"], ["metrics.csv"]])
def test_killed_while_the_last_files_were_written(whole, settings, tmp_path, lost):
    shutil.copytree(whole, tmp_path / "run")
    for name in {*lost, "encoder.json"}:
        (tmp_path / "run" / name).unlink()
    neurocontrast.pretrain(settings(), out=tmp_path / "run", resume=True)
    assert weights(tmp_path / "run") == weights(whole)
    assert metrics(tmp_path / "run") == metrics(whole)


def test_damaged_checkpoint_is_passed_over_for_the_one_before(whole, settings, tmp_path):
    out, progress = tmp_path / "run", Listening()
    shutil.copytree(whole, out)
    (out / "encoder.json").unlink()
    newest = out / "checkpoints/epoch-0002.pt"
    newest.write_bytes(newest.read_bytes()[:-1000])
    neurocontrast.pretrain(settings(), out=out, resume=True, progress=progress)
    assert any(
        "epoch-0002.pt: damaged, and kept as epoch-0002.pt.damaged; continuing" in text for text in progress.said
    )
    assert weights(out) == weights(whole)
    assert metrics(out) == metrics(whole)


def test_weights_of_the_last_epochs_can_be_embedded_with(whole, settings, tmp_path):
    for epoch in (1, 2):
        half, contract = load_encoder(whole / f"checkpoints/epoch-000{epoch}")
        assert contract["epochs"] == epoch
        assert contract["batchnorm"] == {"statistics": "running averages of training"}
    final, _ = load_encoder(whole)
    trained, other = dict(final.named_parameters()), dict(half.named_parameters())
    assert all(torch.equal(trained[name], other[name]) for name in trained)
    table = settings().data.participants
    out = neurocontrast.embed(
        whole / "checkpoints/epoch-0001", participants=table, out=tmp_path / "half.parquet", config=settings()
    )
    info = read_embeddings(out).info
    assert info["pretraining_subjects"] == json.loads((whole / "provenance.json").read_text())["pretraining_subjects"]


def test_a_run_can_become_longer(whole, settings, tmp_path):
    out, progress = tmp_path / "run", Listening()
    shutil.copytree(whole, out)
    longer = settings("training.epochs=3")
    neurocontrast.pretrain(longer, out=out, resume=True, progress=progress)
    assert f"{out}: now 3 epochs, in place of 2." in progress.said
    neurocontrast.pretrain(longer, out=tmp_path / "straight")
    assert weights(out) == weights(tmp_path / "straight")
    assert metrics(out) == metrics(tmp_path / "straight")
    assert load_config(out / "config.yaml") == load_config(tmp_path / "straight/config.yaml")
    with pytest.raises(CheckpointError, match=r"training\.epochs: was 3, is 1, and 3 are done"):
        neurocontrast.pretrain(settings("training.epochs=1"), out=out, resume=True)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (["training.epochs=5", "training.schedule=cosine"], r"training\.epochs: was 2, is 5, and a cosine schedule"),
        (
            ["training.devices=2", "training.sync_batchnorm=false"],
            r"devices × training\.num_nodes: was 1, is 2, and each",
        ),
        (
            ["training.devices=2", "training.micro_batch_size=2"],
            r"devices × training\.num_nodes: was 1, is 2, and each",
        ),
        (["data.val_fraction=0.2"], r"data\.val_fraction: was 0\.3, is 0\.2\n.*What may change: .*training\.devices"),
    ],
)
def test_what_would_change_the_weights_is_refused(whole, settings, changes, told):
    with pytest.raises(CheckpointError, match=f"(?s){told}"):
        check_can_continue(whole, settings(*changes), None)


def test_what_changes_no_weight_may_change(whole, settings):
    free = ["training.devices=2", "training.checkpoint_minutes=1", "training.accelerator=auto", "data.n_workers=3"]
    check_can_continue(whole, settings(*free), None)


def test_a_run_in_use_is_refused(whole, settings, monkeypatch):
    monkeypatch.setattr(run_lock, "_PATIENCE", 0.1)
    with (
        run_lock.hold(whole, SILENT),
        pytest.raises(CheckpointError, match=rf"another process is training .*process {os.getpid()} on "),
    ):
        neurocontrast.pretrain(settings("training.epochs=3"), out=whole, resume=True)
    assert load_config(whole / "config.yaml").training.epochs == 2


def test_sigterm_saves_and_resume_without_configuration_continues(whole, settings, tmp_path):
    out = tmp_path / "run"

    class Terminating(type(SILENT)):
        def message(self, text):
            if text.startswith("epoch 1/"):
                os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(TrainingInterrupted, match="stopped by SIGTERM after 1 of 2 epochs"):
        neurocontrast.pretrain(settings(), out=out, progress=Terminating())
    neurocontrast.pretrain(out=out, resume=True)
    assert weights(out) == weights(whole)


def test_resume_of_a_finished_run_says_so(whole, settings):
    before = weights(whole), (whole / "encoder.json").stat().st_mtime_ns
    progress = Listening()
    assert neurocontrast.pretrain(settings(), out=whole, resume=True, progress=progress) == whole
    assert progress.said == [f"{whole}: this run is finished; there is nothing to continue."]
    assert (weights(whole), (whole / "encoder.json").stat().st_mtime_ns) == before


def test_another_configuration_is_refused_with_the_differences(whole, settings):
    changed = settings("training.learning_rate=0.02", "objective.temperature=0.2", "data.n_workers=2")
    with pytest.raises(CheckpointError) as caught:
        neurocontrast.pretrain(changed, out=whole, resume=True)
    message = str(caught.value)
    assert "training.learning_rate: was 0.01, is 0.02" in message
    assert "objective.temperature: was 0.1, is 0.2" in message
    assert "n_workers: was" not in message


def test_another_cohort_is_refused(settings, cohort, tmp_path):
    out = tmp_path / "run"

    class Stopping(type(SILENT)):
        def message(self, text):
            if text.startswith("epoch 1/"):
                os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(TrainingInterrupted):
        neurocontrast.pretrain(settings(), out=out, progress=Stopping())
    table = pd.read_csv(cohort, sep="\t", dtype=str, keep_default_na=False)
    table.loc[0, "age"] = "33.3"
    changed = cohort.parent / "changed.tsv"
    table.to_csv(changed, sep="\t", index=False)
    with pytest.raises(
        CheckpointError, match=r"cohort: was participants\.tsv \(14 scans, .*is changed\.tsv \(14 scans"
    ):
        neurocontrast.pretrain(settings(f"data.participants={changed}"), out=out, resume=True)


def test_a_folder_in_use_is_refused_untouched(whole, settings, tmp_path):
    with pytest.raises(ConfigError, match=r"already holds a run\. Continue it with --resume"):
        neurocontrast.pretrain(settings(), out=whole)
    (tmp_path / "notes.txt").write_text("mine")
    for resume in (False, True):
        with pytest.raises(ConfigError, match="is not empty and is not a run directory"):
            neurocontrast.pretrain(settings(), out=tmp_path, resume=resume)
    with pytest.raises(ConfigError, match=r"must be a directory, but .* is a file"):
        neurocontrast.pretrain(settings(), out=tmp_path / "notes.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_resume_where_nothing_began_begins(whole, settings, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run/.tmp-x-config.yaml").write_text("half")
    neurocontrast.pretrain(settings(), out=tmp_path / "run", resume=True)
    assert weights(tmp_path / "run") == weights(whole)


@pytest.mark.parametrize(
    ("overrides", "error", "message"),
    [
        (["data.participants=null"], ConfigError, r"data\.participants: missing"),
        (["data.participants=absent.tsv"], DataError, r"absent\.tsv: there is no such"),
        (["data.shape=[16,20,8]", "encoder.name=densenet121"], ConfigError, r"needs at least 32 voxels"),
        (["objective={loss: supcon, label: sites}"], DataError, r"no column 'sites'\. Did you mean 'site'\?"),
        (
            ["objective={loss: yaware, kernel: [{column: sex, type: gaussian, sigma: 1}]}"],
            DataError,
            r"'sex' holds text",
        ),
        (["data.where={sex: [X]}"], DataError, r"column 'sex' has no value 'X'"),
        (["training.precision=bf16-mixed"], ConfigError, r"training\.precision: 'bf16-mixed' is for GPUs"),
        (["data.val_fraction=0.05"], ConfigError, r"leaves a single validation scan"),
        (
            ["training.probe_every=1", "training.probe_columns=[ages]"],
            DataError,
            r"probe_columns: .*Did you mean 'age'",
        ),
    ],
)
def test_wrong_input_is_named_before_anything_is_written(settings, tmp_path, overrides, error, message):
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
    run = neurocontrast.pretrain(
        settings(f"data.participants={path}", marginal, "training.epochs=1"), out=tmp_path / "kept"
    )
    assert np.isfinite(float(metrics(run)[0]["train_loss"]))


def test_selection_leaves_the_others_out_of_the_run(settings, cohort, tmp_path):
    site = read_cohort(cohort).table["site"].value_counts().index[0]
    run = neurocontrast.pretrain(settings(f"data.where={{site: [{site}]}}", "training.epochs=0"), out=tmp_path / "run")
    chosen = read_cohort(cohort).select({"site": [site]})
    provenance = json.loads((run / "provenance.json").read_text())
    assert provenance["pretraining_subjects"] == chosen.subject_digests()


@pytest.mark.slow
def test_killed_at_random_moments_resumes_to_the_same_bytes(whole_apart, tmp_path):
    moments, out = random.Random(0), tmp_path / "run"
    command = program(whole_apart / "config.yaml", out)
    for _ in range(6):
        with subprocess.Popen(command) as process:
            time.sleep(moments.uniform(3.0, 9.0))
            process.kill()
    subprocess.run(command, check=True)
    assert metrics(out) == metrics(whole_apart)
    assert weights(out) == weights(whole_apart)


def test_stages_are_functions_however_they_are_imported():
    program = (
        "import sys, neurocontrast\n"
        "from neurocontrast import stages\n"
        "assert 'torch' not in sys.modules\n"
        "from neurocontrast.stages.pretrain import pretrain\n"
        "import neurocontrast.stages.embed\n"
        "assert stages.pretrain is pretrain is neurocontrast.pretrain\n"
        "assert callable(stages.embed)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).parent)
