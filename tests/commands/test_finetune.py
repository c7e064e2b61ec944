import shutil

import numpy as np
import pandas as pd
import pytest
from small_run import Interrupting, Listening, people_of, read_json

import neurocontrast
from neurocontrast.cli import run
from neurocontrast.exceptions import ConfigError, LeakageError, TrainingInterrupted
from tests.cli.conftest import refused

OPTIONS = {
    "n_folds": 2,
    "n_inner_folds": 2,
    "n_bootstraps": 20,
    "voxels": "off",
    "allow_overlap": True,
}
TRAINED = (
    "evaluation.json",
    "predictions.tsv",
    "folds.tsv",
    "sites.tsv",
    "splits.tsv",
    "finetuning.tsv",
)


@pytest.fixture
def tune(whole, cohort, cached, tmp_path):
    def tuned(name="tuned", *, of=whole, participants=cohort, finetune=None, **options):
        chosen = {
            "epochs": 3,
            "batch_size": 4,
            "learning_rate": 1e-2,
            "accelerator": "cpu",
            **(finetune or {}),
        }
        config = cached | {"finetune": chosen}
        given = {"target": "diagnosis", **OPTIONS, **options}
        return neurocontrast.finetune(
            of, participants=participants, out=tmp_path / name, config=config, **given
        )

    return tuned


def read(folder):
    return read_json(folder / "evaluation.json")


def predicted(folder):
    return (folder / "predictions.tsv").read_text()


@pytest.mark.usefixtures("blank_figures")
def test_frozen_tuned_and_from_scratch_are_compared_on_the_same_folds(
    tune, whole, cohort, cached, tmp_path
):
    embedded = neurocontrast.embed(
        whole, participants=cohort, out=tmp_path / "e.parquet", config=cached
    )
    frozen = neurocontrast.evaluate(
        embedded, out=tmp_path / "frozen", target="diagnosis", **OPTIONS
    )
    tuned = tune()
    scratch = tune("scratch", from_scratch=True)
    assert all((tuned / name).is_file() for name in TRAINED)
    assert (frozen / "splits.tsv").read_text() == (tuned / "splits.tsv").read_text()
    assert read(frozen)["baseline"] == read(tuned)["baseline"]
    assert read(tuned)["finetuning"]["begins_with"] == "pretrained weights"
    assert read(scratch)["finetuning"]["begins_with"] == "random weights"
    assert predicted(tuned) != predicted(scratch)
    compared = neurocontrast.compare([frozen, tuned, scratch], out=tmp_path / "compared")
    models = pd.read_csv(compared / "models.tsv", sep="\t")
    assert set(models["model"]) == {"frozen", "tuned", "scratch"}
    assert "trained end to end" in neurocontrast.report(tuned, figures=False).read_text()


def test_several_classes_are_predicted(tune, cohort, tmp_path):
    table = people_of(cohort)
    table["diagnosis"] = np.resize(["a", "b", "c"], len(table))
    table.to_csv(tmp_path / "classes.tsv", sep="\t", index=False)
    folder = tune("several", participants=tmp_path / "classes.tsv")
    scores = pd.read_csv(folder / "predictions.tsv", sep="\t")[["score_a", "score_b", "score_c"]]
    assert np.allclose(scores.sum(axis=1), 1.0)


def test_after_a_signal_finished_folds_are_kept_and_the_numbers_are_the_same(tune, tmp_path):
    whole = tune()
    stopping = Interrupting("Fold 2 of 2, epoch 1/3")
    with pytest.raises(TrainingInterrupted, match=r"after 1 of 3 epochs.*The same call continues"):
        tune("stopped", progress=stopping)
    (work,) = tmp_path.glob(".stopped.*.partial")
    assert (work / "fold-000" / "finished.json").is_file()
    assert not (tmp_path / "stopped").exists()
    other = tune("other", finetune={"epochs": 2})
    shutil.copytree(
        work, tmp_path / ".other.0123456789abcdef.partial"
    )  # of other settings: not continued, and removed
    again = tune("other", finetune={"epochs": 2}, overwrite=True)
    assert predicted(again) == predicted(other)
    listening = Listening()
    resumed = tune("stopped", progress=listening)
    assert not any(
        text.startswith(("Fold 1 of 2, epoch", "Fold 2 of 2, epoch 1/")) for text in listening.said
    )
    assert predicted(resumed) == predicted(whole)
    assert not list(tmp_path.glob(".*.partial"))


def test_folds_of_scans_that_have_changed_since_are_trained_again(tune, cohort, tmp_path):
    copied = shutil.copytree(cohort.parent, tmp_path / "copied")
    given = {"participants": copied / cohort.name, "finetune": {"epochs": 1}}
    with pytest.raises(TrainingInterrupted):
        tune(progress=Interrupting("Fold 2 of 2, epoch 1/1"), **given)
    shutil.copy(*sorted((copied / "images").rglob("*.nii.gz"))[:2])
    listening = Listening()
    tune(progress=listening, **given)
    assert any(text.startswith("Fold 1 of 2, epoch") for text in listening.said)


def test_who_was_in_pretraining_is_refused_unless_the_network_begins_anew(tune, tmp_path):
    with pytest.raises(LeakageError, match="in the pretraining cohort"):
        tune(allow_overlap=False)
    assert not (tmp_path / "tuned").exists()
    assert (
        read(tune("scratch", from_scratch=True, allow_overlap=False, finetune={"epochs": 1}))[
            "n_overlap"
        ]
        == 0
    )


def test_sites_are_left_out_as_in_evaluate_and_in_the_choice_of_the_epoch(tune):
    folder = tune(
        splits="leave-site-out", inner_splits="leave-site-out", n_folds=5, finetune={"epochs": 1}
    )
    folds = pd.read_csv(folder / "folds.tsv", sep="\t")
    assert folds["held_out_site"].nunique() == len(folds) == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"probe": "sklearn.svm:SVC"}, "'probe' is for frozen features"),
        (
            {"harmonise": "combat", "n_permutations": 10},
            "'n_permutations', 'harmonise' are for frozen features",
        ),
        ({"target": "diagnosys"}, "Did you mean 'diagnosis'"),
        ({"finetune": {"patience": 0}}, "finetune.patience"),
    ],
)
def test_what_cannot_be_trained_is_refused_with_nothing_written(tune, tmp_path, options, said):
    with pytest.raises(ConfigError, match=said):
        tune(**options)
    assert not (tmp_path / "tuned").exists()


def test_a_linear_encoder_is_refused(tune, settings, tmp_path):
    linear = neurocontrast.pretrain(
        settings("encoder={name: pca, n_components: 2}"), out=tmp_path / "pca"
    )
    with pytest.raises(
        ConfigError, match="'pca', whose components are computed in one pass and not trained"
    ):
        tune(of=linear)


def test_the_command_ends_with_the_metric_of_the_network_beside_the_covariates(
    whole, cohort, cache, tmp_path, capsys
):
    keys = f"finetune.epochs=1 finetune.accelerator=cpu data.cache_dir={cache} evaluation.voxels=off".split()
    given = [part for key in keys for part in ("--set", key)]
    arguments = [
        "finetune",
        whole,
        "--target",
        "age",
        "--participants",
        cohort,
        "--out",
        tmp_path / "out",
        *given,
    ]
    assert (
        run(
            [
                *(f"{word}" for word in arguments),
                "--n-folds",
                "2",
                "--allow-overlap",
                "--from-scratch",
            ]
        )
        == 0
    )
    shown = capsys.readouterr().out
    assert "network from scratch" in shown
    assert "covariates only" in shown
    refused([*arguments, "--n-folds", "2"], capsys, "is not empty")
