"""The linear encoder: principal components of the training scans, with the files and commands of any other encoder."""

import json

import numpy as np
import pytest
from sklearn.decomposition import PCA

import neurocontrast
from neurocontrast.data import CohortDataset, read_cohort
from neurocontrast.embedding import read_embeddings
from neurocontrast.encoders import load_encoder
from neurocontrast.exceptions import ConfigError
from neurocontrast.transforms import brain_transforms


@pytest.fixture(scope="module")
def linear(settings):
    """``linear(encoder)``: the configuration of a run of principal components."""
    return lambda encoder, *more: settings(f"encoder={encoder}", "data.val_fraction=0", *more)


@pytest.fixture(scope="module")
def run(linear, tmp_path_factory):
    config = linear("{name: pca, n_components: 5}")
    return neurocontrast.pretrain(config, out=tmp_path_factory.mktemp("linear") / "run")


def test_features_are_the_scores_of_scikit_learns_components(run, cohort, cache, tmp_path):
    config = {"data": {"cache_dir": str(cache)}}
    embeddings = neurocontrast.embed(run, participants=cohort, out=tmp_path / "e.parquet", config=config)
    transforms = brain_transforms(spacing_mm=10.0, shape=(16, 20, 16))
    voxels = np.stack([item["image"].numpy().ravel() for item in CohortDataset(read_cohort(cohort), transforms)])
    expected = PCA(5, svd_solver="full").fit_transform(voxels)
    found = read_embeddings(embeddings).features
    np.testing.assert_allclose(np.abs(found), np.abs(expected), rtol=1e-2, atol=2e-2 * np.abs(expected).max())


def test_the_run_says_what_it_is(run):
    contract = json.loads((run / "encoder.json").read_text())
    assert contract["encoder"]["name"] == "pca"
    assert contract["n_features"] == 5
    assert contract["objective"]["loss"] == "none"
    shares = contract["explained_variance_ratio"]
    assert len(shares) == 5
    assert shares == sorted(shares, reverse=True)
    assert load_encoder(run)[0].n_features == 5


def test_the_same_seed_gives_the_same_bits_and_a_finished_run_is_left_alone(run, linear, tmp_path):
    config = linear("{name: pca, n_components: 5}")
    again = neurocontrast.pretrain(config, out=tmp_path / "again")
    assert (again / "encoder.safetensors").read_bytes() == (run / "encoder.safetensors").read_bytes()
    before = (run / "encoder.json").stat().st_mtime_ns
    neurocontrast.pretrain(config, out=run, resume=True)
    assert (run / "encoder.json").stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("encoder", "more", "message"),
    [
        (
            "{name: pca, n_components: 14}",
            [],
            r"n_components: must be below the number of training scans, 14, found 14",
        ),
        ("{name: lenet, n_components: 3}", [], "n_components belongs to pca"),
        ("{name: pca}", ["training.devices=2"], "'pca' is fitted by one process"),
    ],
)
def test_settings_that_do_not_fit_are_refused(linear, tmp_path, encoder, more, message):
    with pytest.raises(ConfigError, match=message):
        neurocontrast.pretrain(linear(encoder, *more), out=tmp_path / "run")
    assert not (tmp_path / "run" / "config.yaml").exists()
