"""Pretraining that predicts a column: the head, the figures of an epoch, and what comes after."""

import json

import pytest
from small_run import FAST, metrics, weights

import neurocontrast
from neurocontrast.embedding import read_embeddings
from neurocontrast.encoders import load_model

AGE = "objective={loss: supervised, column: age}"
SEX = "objective={loss: supervised, column: sex, error: cross-entropy}"


@pytest.fixture(scope="module")
def of_age(settings, tmp_path_factory):
    return neurocontrast.pretrain(settings(AGE), out=tmp_path_factory.mktemp("runs") / "age")


def test_the_head_ends_in_the_predictions_of_the_range_or_classes_of_training(settings, of_age, tmp_path):
    of_sex = neurocontrast.pretrain(settings(SEX, "training.epochs=1"), out=tmp_path / "sex")
    for run, n_outputs in ((of_age, 1), (of_sex, 2)):
        model, contract = load_model(run)
        assert model.n_features == n_outputs
        assert contract["encoder"]["projection"] == [8, 4, n_outputs]
    age, sex = (json.loads((run / "encoder.json").read_text())["objective"]["target"] for run in (of_age, of_sex))
    assert age["lowest"] < age["mean"] < age["highest"]
    assert sex == {"column": "sex", "kind": "categorical", "classes": ["F", "M"]}


def test_without_hidden_layers_the_features_predict(settings, tmp_path):
    config = settings(AGE, "training.epochs=0", "encoder.projection=[]")
    model, _ = load_model(neurocontrast.pretrain(config, out=tmp_path / "run"))
    assert sum(each.numel() for each in model.head.parameters()) == model.encoder.n_features + 1


def test_what_contrasts_nothing_is_not_measured_as_contrast(of_age):
    (row, _) = metrics(of_age)
    assert {"train_loss", "train_term_absolute", "val_loss", "val_features_effective_rank"} <= set(row)
    assert not {"val_alignment", "val_uniformity", "val_effective_rank"} & set(row)


def test_resumed_runs_have_the_same_weights(settings, of_age, tmp_path):
    part = neurocontrast.pretrain(settings(AGE, "training.epochs=1"), out=tmp_path / "part")
    assert weights(neurocontrast.pretrain(settings(AGE), out=part, resume=True)) == weights(of_age)


def test_its_features_are_embedded_evaluated_and_reported(of_age, cohort, tmp_path):
    for layer, n_features in (("encoder", 32), ("head", 1)):
        out = tmp_path / f"{layer}.parquet"
        config = {"embedding": {"layer": layer, "accelerator": "cpu"}}
        neurocontrast.embed(of_age, participants=cohort, out=out, config=config)
        assert read_embeddings(out).features.shape[1] == n_features
    quick = FAST | {"target": "sex", "n_folds": 2, "allow_overlap": True}
    folder = neurocontrast.evaluate(tmp_path / "encoder.parquet", out=tmp_path / "evaluation", **quick)
    assert "supervised prediction of age" in neurocontrast.report(folder).read_text()
