"""Features of several blocks on a grid: trained with, or read out of a network that was trained without."""

import json

import pytest

import neurocontrast
from neurocontrast.embedding import read_embeddings
from neurocontrast.exceptions import ConfigError


@pytest.fixture(scope="module")
def gridded(tmp_path_factory, settings):
    config = settings("encoder.read_out={blocks: [2, 3], grid: [2, 2, 2]}", "training.epochs=1")
    return neurocontrast.pretrain(config, out=tmp_path_factory.mktemp("runs") / "gridded")


def test_a_run_with_a_read_out_embeds_it(gridded, cohort, cache, tmp_path):
    config = {"data": {"cache_dir": str(cache)}}
    made = neurocontrast.embed(gridded, participants=cohort, out=tmp_path / "e.parquet", config=config)
    assert read_embeddings(made).features.shape[1] == (16 + 32) * 8
    assert json.loads((gridded / "encoder.json").read_text())["n_features"] == 384


def test_embed_reads_out_a_network_that_was_trained_by_its_mean(whole, cohort, cache, tmp_path):
    read_out = {"blocks": [1], "grid": [3, 4, 3]}
    config = {"data": {"cache_dir": str(cache)}, "embedding": {"read_out": read_out}}
    made = neurocontrast.embed(whole, participants=cohort, out=tmp_path / "e.parquet", config=config)
    found = read_embeddings(made)
    assert found.features.shape[1] == 8 * 36
    assert found.info["read_out"] == read_out


@pytest.mark.parametrize(
    ("embedding", "message"),
    [
        ({"read_out": {"blocks": [9]}}, "embedding.read_out.blocks: lenet has blocks 1 to 3, found 9"),
        ({"read_out": {"grid": [2, 2, 2]}, "layer": "head"}, "the head takes the encoder's own features"),
    ],
)
def test_a_read_out_that_does_not_fit_is_refused(whole, cohort, tmp_path, embedding, message):
    with pytest.raises(ConfigError, match=message.replace(".", r"\.")):
        neurocontrast.embed(whole, participants=cohort, out=tmp_path / "e.parquet", config={"embedding": embedding})
