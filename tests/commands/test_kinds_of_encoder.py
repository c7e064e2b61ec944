"""Encoders of other kinds, with the files and commands of any other: linear, on a grid, predicting."""

import numpy as np
import pytest
from sklearn.decomposition import PCA
from small_run import metrics, read_json, weights

import neurocontrast
from neurocontrast.data import CohortDataset, read_cohort
from neurocontrast.embedding import read_embeddings
from neurocontrast.encoders import load_encoder, load_model
from neurocontrast.exceptions import ConfigError
from neurocontrast.transforms import brain_transforms


@pytest.fixture(scope="module")
def run(settings, tmp_path_factory):
    config = settings("encoder={name: pca, n_components: 5}", "data.val_fraction=0")
    return neurocontrast.pretrain(config, out=tmp_path_factory.mktemp("linear") / "run")


def test_features_are_the_scores_of_scikit_learns_components(run, cohort, cached, tmp_path):
    embeddings = neurocontrast.embed(run, participants=cohort, out=tmp_path / "e.parquet", config=cached)
    transforms = brain_transforms(spacing_mm=10.0, shape=(16, 20, 16))
    voxels = np.stack([item["image"].numpy().ravel() for item in CohortDataset(read_cohort(cohort), transforms)])
    expected = PCA(5, svd_solver="full").fit_transform(voxels)
    found = read_embeddings(embeddings).features
    np.testing.assert_allclose(np.abs(found), np.abs(expected), rtol=1e-2, atol=2e-2 * np.abs(expected).max())


def test_the_run_says_what_it_is(run):
    contract = read_json(run / "encoder.json")
    assert contract["encoder"]["name"] == "pca"
    assert contract["n_features"] == 5
    assert contract["objective"]["loss"] == "none"
    shares = contract["explained_variance_ratio"]
    assert len(shares) == 5
    assert shares == sorted(shares, reverse=True)
    assert load_encoder(run)[0].n_features == 5


def test_embed_reads_out_a_network_that_was_trained_by_its_mean(whole, cohort, cached, tmp_path):
    read_out = {"blocks": [1], "grid": [3, 4, 3]}
    config = cached | {"embedding": {"read_out": read_out}}
    made = neurocontrast.embed(whole, participants=cohort, out=tmp_path / "e.parquet", config=config)
    found = read_embeddings(made)
    assert found.features.shape[1] == 8 * 36
    assert found.info["read_out"] == read_out
    config["embedding"]["layer"] = "head"
    with pytest.raises(ConfigError, match="the head takes the encoder's own features"):
        neurocontrast.embed(whole, participants=cohort, out=tmp_path / "h.parquet", config=config)


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
    age, sex = (read_json(run / "encoder.json")["objective"]["target"] for run in (of_age, of_sex))
    assert age["lowest"] < age["mean"] < age["highest"]
    assert sex == {"column": "sex", "kind": "categorical", "classes": ["F", "M"]}


def test_what_contrasts_nothing_is_not_measured_as_contrast(of_age):
    (row, _) = metrics(of_age)
    assert {"train_loss", "train_term_absolute", "val_loss", "val_features_effective_rank"} <= set(row)
    assert not {"val_alignment", "val_uniformity", "val_effective_rank"} & set(row)


def test_resumed_runs_have_the_same_weights(settings, of_age, tmp_path):
    part = neurocontrast.pretrain(settings(AGE, "training.epochs=1"), out=tmp_path / "part")
    assert weights(neurocontrast.pretrain(settings(AGE), out=part, resume=True)) == weights(of_age)
