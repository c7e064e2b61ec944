"""Fine-tuning of a run of members: a network of each, in the same folds, predicted by their mean."""

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from small_run import MEASURES, OF_MEASURES, PEOPLE, TABLES, Interrupting, Listening, read_json

import neurocontrast as nc
from neurocontrast.cli import run as command
from neurocontrast.exceptions import (
    CheckpointError,
    ConfigError,
    LeakageError,
    TrainingInterrupted,
)
from neurocontrast.provenance import subject_digest
from neurocontrast.runs.members import seed_of_member

N = 2
SITES = ("a", "b", "c")
SEED = 3
TUNED = {"epochs": 2, "batch_size": 64, "accelerator": "cpu", "learning_rate": 1e-2}
FOLDS = {"n_folds": 2, "n_inner_folds": 2, "n_bootstraps": 0}
PRETRAINED = 120


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tuned")


@pytest.fixture(scope="module")
def tables(folder):
    """People dealt to three sites: the first were in pretraining, the others were not."""
    people = pd.read_csv(PEOPLE, sep="\t", dtype=str)
    people["site"] = np.array(SITES)[np.arange(len(people)) % len(SITES)]
    paths = []
    for name, rows in (("seen", slice(0, PRETRAINED)), ("new", slice(PRETRAINED, None))):
        paths.append(folder / f"{name}.tsv")
        people[rows].to_csv(paths[-1], sep="\t", index=False)
    return paths


def config_of(people, **training):
    return OF_MEASURES | {
        "data": {"participants": str(people), "measures": TABLES},
        "encoder": {"name": "mlp", "widths": [16, 8], "beside": {"n_components": 4}},
        "training": {"epochs": 1, "batch_size": 64, **training},
    }


@pytest.fixture(scope="module")
def run(folder, tables):
    config = config_of(tables[0], members=N, members_leave="sites")
    return nc.pretrain(config, out=folder / "run").location


@pytest.fixture
def tune(run, tables, tmp_path):
    def tuned(name="tuned", *, of=run, participants=tables[1], seed=SEED, finetune=None, **options):
        config = MEASURES | {"seed": seed, "finetune": TUNED | (finetune or {})}
        given = {"target": "sex", **FOLDS, **options}
        return nc.finetune(
            of, participants=participants, out=tmp_path / name, config=config, **given
        )

    return tuned


def scores_of(evaluation, column="y_score"):
    table = pd.read_csv(evaluation.folder / "predictions.tsv", sep="\t")
    return table.sort_values("participant_id")[column].to_numpy()


@pytest.fixture(scope="module")
def whole(run, tables, folder):
    """An uninterrupted call that others are compared with."""
    config = MEASURES | {"seed": SEED, "finetune": TUNED}
    options = {"target": "sex", **FOLDS}
    return nc.finetune(run, participants=tables[1], out=folder / "whole", config=config, **options)


def test_predictions_are_the_mean_of_each_member_fine_tuned_alone(whole, run, tune):
    alone = []
    for number in range(N):
        member = tune(
            f"alone{number}", of=run / f"members/{number}", seed=seed_of_member(SEED, number)
        )
        alone.append(scores_of(member))
    assert not np.allclose(alone[0], alone[1])
    np.testing.assert_allclose(scores_of(whole), np.mean(alone, axis=0), rtol=0, atol=1e-12)


@pytest.mark.usefixtures("blank_figures")
def test_the_evaluation_its_report_and_its_table_say_that_members_were_averaged(whole, tmp_path):
    record = whole.record
    assert (record.probe.n_members, record.probe.averaged) == (N, "probabilities")
    assert record.probe.name == "mean of 2 fine-tuned networks"
    assert record.finetuning.begins_with == "pretrained weights"
    assert record.n.features == N * 8
    epochs = pd.read_csv(whole.folder / "finetuning.tsv", sep="\t")
    assert set(zip(epochs["fold"], epochs["member"], strict=True)) == {
        (fold, member) for fold in range(2) for member in range(N)
    }
    assert [fold.member for fold in record.finetuning.folds] == [0, 1, 0, 1]
    page = nc.report(whole.folder, out=tmp_path / "report.html", figures=False).read_text()
    assert "by the networks of all 2 members, each with a linear head" in page
    assert "the predicted probabilities were averaged" in page
    assert "fitted to the features of each" not in page
    assert not (whole.folder / "probe").exists()


@pytest.mark.slow
def test_numbers_and_several_classes_are_averaged(tune, tables, run, tmp_path):
    ages = tune(target="age")
    alone = []
    for number in range(N):
        seed = seed_of_member(SEED, number)
        member = tune(f"age{number}", of=run / f"members/{number}", seed=seed, target="age")
        alone.append(scores_of(member))
    np.testing.assert_allclose(scores_of(ages), np.mean(alone, axis=0), atol=1e-9)
    assert ages.record.probe.averaged == "numbers"
    people = pd.read_csv(tables[1], sep="\t", dtype=str)
    people["diagnosis"] = np.resize(["x", "y", "z"], len(people))
    people.to_csv(tmp_path / "classes.tsv", sep="\t", index=False)
    classes = tune("classes", participants=tmp_path / "classes.tsv", target="diagnosis")
    columns = ["score_x", "score_y", "score_z"]
    scores = pd.read_csv(classes.folder / "predictions.tsv", sep="\t")[columns]
    np.testing.assert_allclose(scores.sum(axis=1), 1.0)


def test_a_run_of_one_encoder_is_fine_tuned_with_the_seed_of_the_call(run, tune, tmp_path):
    one = tune(of=run / "members/0")
    record = one.record
    assert record.probe.n_members is None
    assert record.probe.name == "fine-tuned network"
    assert record.probe.estimator == "mlp, pretrained weights to begin with"
    assert record.embeddings.file == "encoder.safetensors"
    assert "member" not in pd.read_csv(one.folder / "finetuning.tsv", sep="\t")
    assert not np.allclose(scores_of(one), scores_of(tune("other", of=run / "members/0", seed=4)))


def test_a_person_whom_any_member_has_seen_is_refused(run, tables, tune, tmp_path):
    people = pd.read_csv(tables[0], sep="\t", dtype=str)
    left_out = read_json(run / "members.json")["left_out"]
    members = []
    for number in range(N):
        provenance = read_json(run / f"members/{number}/provenance.json")
        members.append(set(provenance["pretraining_subjects"]))
    for number, sites in enumerate(left_out):
        absent = people[people["site"].isin(sites)]
        digests = set(map(subject_digest, absent["participant_id"]))
        assert not digests & members[number]
        assert digests & members[1 - number]
        absent.to_csv(tmp_path / "absent.tsv", sep="\t", index=False)
        with pytest.raises(LeakageError, match="in the pretraining cohort"):
            tune(participants=tmp_path / "absent.tsv")
    assert not (tmp_path / "tuned").exists()
    scratch = tune("scratch", participants=tmp_path / "absent.tsv", from_scratch=True)
    assert scratch.record.n_overlap == 0
    assert scratch.record.probe.name == "mean of 2 networks from scratch"


def test_a_person_whom_one_member_has_seen_under_another_name_is_refused(run, tables, tmp_path):
    people = pd.read_csv(tables[0], sep="\t", dtype=str)
    first = set(read_json(run / "members/0/provenance.json")["pretraining_subjects"])
    is_first = people["participant_id"].map(subject_digest).isin(first)
    renamed = {name: f"new-{name}" for name in people.loc[~is_first, "participant_id"]}
    assert renamed
    new = people[~is_first].replace({"participant_id": renamed})
    new.to_csv(tmp_path / "people.tsv", sep="\t", index=False)
    measures = []
    for table in TABLES:
        cells = pd.read_csv(table, sep="\t", dtype=str)
        identifiers = cells.columns[0]
        cells[identifiers] = cells[identifiers].replace(renamed)
        cells.to_csv(tmp_path / Path(table).name, sep="\t", index=False)
        measures.append(str(tmp_path / Path(table).name))
    config = {"data": {"measures": measures}, "finetune": TUNED}
    with pytest.raises(LeakageError, match=r"in the pretraining cohort"):
        nc.finetune(
            run,
            participants=tmp_path / "people.tsv",
            target="sex",
            out=tmp_path / "tuned",
            config=config,
            **FOLDS,
        )


def test_after_a_signal_finished_networks_are_kept_and_the_numbers_are_the_same(
    whole, tune, tmp_path
):
    stopping = Interrupting("Fold 1 of 2, member 2 of 2, epoch 1/2")
    with pytest.raises(TrainingInterrupted, match=r"The same call continues"):
        tune("stopped", progress=stopping)
    (work,) = tmp_path.glob(".stopped.*.partial")
    assert (work / "fold-000/member-0/finished.json").is_file()
    assert not (tmp_path / "stopped").exists()
    listening = Listening()
    resumed = tune("stopped", progress=listening)
    assert not any(
        "member 1 of 2, epoch 1/2" in text and "Fold 1" in text for text in listening.said
    )
    np.testing.assert_array_equal(scores_of(resumed), scores_of(whole))
    assert not list(tmp_path.glob(".*.partial"))


def test_sites_are_left_out_of_all_members_alike(tune):
    options = {"splits": "leave-site-out", "inner_splits": "leave-site-out"}
    folds = pd.read_csv(tune(**options, finetune={"epochs": 1}).folder / "folds.tsv", sep="\t")
    assert sorted(folds["held_out_site"]) == list(SITES)


def test_members_that_are_not_those_of_the_run_are_refused(run, tune, tmp_path):
    copied = shutil.copytree(run, tmp_path / "copied")
    shutil.rmtree(copied / "members/1")
    shutil.copytree(copied / "members/0", copied / "members/1")
    with pytest.raises(CheckpointError, match="are not those of this member"):
        tune(of=copied)
    assert not (tmp_path / "tuned").exists()


def test_members_that_are_linear_are_refused_by_name(tables, tune, tmp_path):
    config = config_of(tables[0], members=2, members_leave="sites")
    config["encoder"] = {"name": "pca", "n_components": 3}
    linear = nc.pretrain(config, out=tmp_path / "pca").location
    with pytest.raises(ConfigError, match=r"members/0' is 'pca', whose components"):
        tune(of=linear)


def test_the_command_takes_a_run_of_members(run, tables, tmp_path, capsys):
    arguments = ["finetune", run, "--participants", tables[1], "--target", "sex"]
    arguments += ["--out", tmp_path / "out", "--n-folds", "2", "--set", "finetune.epochs=1"]
    arguments += ["--set", f"data.measures=[{','.join(TABLES)}]"]
    assert command(list(map(str, arguments))) == 0
    assert "mean of 2 fine-tuned networks" in capsys.readouterr().out


@pytest.mark.slow
def test_networks_of_scans_share_one_pass_of_preparation(settings, others, cached, tmp_path):
    run = nc.pretrain(settings("training.members=2", "training.epochs=1"), out=tmp_path / "run")
    config = cached | {"finetune": {"epochs": 1, "batch_size": 4, "accelerator": "cpu"}}
    options = {"target": "diagnosis", "n_folds": 2, "n_bootstraps": 0}
    tuned = nc.finetune(run, participants=others, out=tmp_path / "tuned", config=config, **options)
    assert tuned.record.probe.n_members == 2
    assert tuned.record.embeddings.file is None
    assert "voxels" in tuned.models or "study's own voxels" in str(tuned.models)
