"""Pretraining that predicts a column: the head, the figures of an epoch, and what comes after."""

import json

import pytest
from small_run import metrics, weights

import neurocontrast
from neurocontrast.embedding import read_embeddings
from neurocontrast.encoders import load_model

AGE = "objective={loss: supervised, column: age}"
SEX = "objective={loss: supervised, column: sex, error: cross-entropy}"


def _run(settings, folder, *overrides, **how):
    return neurocontrast.pretrain(settings(*overrides), out=folder, **how)


@pytest.mark.parametrize(("objective", "n_outputs"), [(AGE, 1), (SEX, 2)])
def test_the_head_ends_in_the_predictions(settings, tmp_path, objective, n_outputs):
    run = _run(settings, tmp_path / "run", objective, "training.epochs=1")
    model, contract = load_model(run)
    assert model.n_features == n_outputs
    assert contract["encoder"]["projection"] == [8, 4, n_outputs]


def test_range_and_classes_of_the_training_scans_travel_with_the_encoder(settings, tmp_path):
    runs = [_run(settings, tmp_path / name, each, "training.epochs=1") for name, each in (("age", AGE), ("sex", SEX))]
    age, sex = (json.loads((run / "encoder.json").read_text())["objective"]["target"] for run in runs)
    assert age["lowest"] < age["mean"] < age["highest"]
    assert sex == {"column": "sex", "kind": "categorical", "classes": ["F", "M"]}


def test_without_hidden_layers_the_features_predict(settings, tmp_path):
    model, _ = load_model(_run(settings, tmp_path / "run", AGE, "training.epochs=1", "encoder.projection=[]"))
    assert sum(each.numel() for each in model.head.parameters()) == model.encoder.n_features + 1


def test_what_contrasts_nothing_is_not_measured_as_contrast(settings, tmp_path):
    (row, _) = metrics(_run(settings, tmp_path / "run", AGE))
    assert {"train_loss", "train_term_absolute", "val_loss", "val_features_effective_rank"} <= set(row)
    assert not {"val_alignment", "val_uniformity", "val_effective_rank"} & set(row)


def test_resumed_runs_have_the_same_weights(settings, tmp_path):
    whole = _run(settings, tmp_path / "whole", AGE)
    part = _run(settings, tmp_path / "part", AGE, "training.epochs=1")
    assert weights(_run(settings, part, AGE, "training.epochs=2", resume=True)) == weights(whole)


def test_its_features_are_embedded_evaluated_and_reported(settings, cohort, tmp_path):
    run = _run(settings, tmp_path / "run", AGE, "training.epochs=1")
    for layer, n_features in (("encoder", 32), ("head", 1)):
        out = tmp_path / f"{layer}.parquet"
        config = {"embedding": {"layer": layer, "accelerator": "cpu"}}
        neurocontrast.embed(run, participants=cohort, out=out, config=config)
        assert read_embeddings(out).features.shape[1] == n_features
    quick = {"target": "sex", "n_folds": 2, "n_bootstraps": 20, "allow_overlap": True, "C": [1.0]}
    folder = neurocontrast.evaluate(tmp_path / "encoder.parquet", out=tmp_path / "evaluation", **quick)
    assert "supervised prediction of age" in neurocontrast.report(folder).read_text()
