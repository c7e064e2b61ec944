"""A run with linear components beside its network: every command that takes a run takes it."""

from html import unescape

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA
from small_run import FASTEST, MEASURES, OF_MEASURES, PEOPLE, read_json

import neurocontrast as nc
from neurocontrast.embedding import ScanEmbedder, read_embeddings, write_embeddings
from neurocontrast.encoders import load_encoder, load_model
from neurocontrast.evaluation import load_probe
from neurocontrast.evaluation.probes.designs import WEIGHTS, blocks_of
from neurocontrast.exceptions import ConfigError
from neurocontrast.training import components

N_COMPONENTS = 12
BESIDE = OF_MEASURES | {
    "encoder": {"name": "mlp", "widths": [32, 16], "beside": {"n_components": N_COMPONENTS}}
}
ALONE = OF_MEASURES | {"encoder": {"name": "mlp", "widths": [32, 16]}}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run with components, and the same run without."""
    folder = tmp_path_factory.mktemp("beside")
    return {
        name: nc.pretrain(config, out=folder / name)
        for name, config in (("beside", BESIDE), ("alone", ALONE))
    }


@pytest.fixture(scope="module")
def tables(runs):
    return {
        name: nc.embed(run, participants=PEOPLE, out=run.with_suffix(".parquet"), config=MEASURES)
        for name, run in runs.items()
    }


@pytest.fixture(scope="module")
def evaluated(tables, tmp_path_factory):
    return nc.evaluate(
        tables["beside"],
        target="sex",
        out=tmp_path_factory.mktemp("evaluated") / "sex",
        allow_overlap=True,
        **FASTEST,
    )


def test_the_network_is_what_it_is_alone_and_the_components_are_those_of_the_training_people(
    runs, tables
):
    beside = read_embeddings(tables["beside"])
    alone = read_embeddings(tables["alone"])
    np.testing.assert_array_equal(beside.features[:, :16], alone.features)
    contract = read_json(runs["beside"] / "encoder.json")
    assert (contract["n_features"], contract["beside"]["n_components"]) == (28, N_COMPONENTS)
    columns = contract["preprocessing"]["columns"]
    learned_from = contract["n_training_scans"]
    assert learned_from < len(beside.table)
    variance = beside.features[:, 16:].var(axis=0)
    assert (np.diff(variance) < 0.2 * variance[0]).all()
    assert len(contract["beside"]["explained_variance_ratio"]) == N_COMPONENTS <= len(columns)


def test_the_components_are_those_of_scikit_learn(runs, tables):
    table = read_embeddings(tables["beside"])
    encoder, contract = load_encoder(runs["beside"])
    mean = encoder.beside.mean.numpy()
    components = encoder.beside.components.numpy()
    values = table.features[:, 16:] @ components + mean
    fitted = PCA(N_COMPONENTS).fit(values)
    assert contract.beside.n_voxels == len(mean)
    np.testing.assert_allclose(components @ components.T, np.eye(N_COMPONENTS), atol=1e-4)
    assert fitted.explained_variance_ratio_.sum() == pytest.approx(1, abs=1e-4)


def test_the_components_are_fitted_to_the_people_of_training_and_to_nobody_of_validation(
    runs, tables
):
    components = read_embeddings(tables["beside"]).features[:, 16:]
    contract = read_json(runs["beside"] / "encoder.json")
    assert contract["n_training_scans"] < len(components)
    assert np.abs(components.mean(axis=0)).max() > 0.01  # 0 if all people had been fitted to


@pytest.mark.parametrize("share", [None, 0.25])
def test_no_more_components_are_kept_than_a_share_of_the_people(tmp_path, share):
    beside = {"n_components": 400}
    if share is not None:
        beside["share"] = share
    many = BESIDE | {"encoder": {**BESIDE["encoder"], "beside": beside}}
    run = nc.pretrain(many, out=tmp_path / "run")
    contract = read_json(run / "encoder.json")
    people = pd.read_csv(PEOPLE, sep="\t")
    n_learned_from = contract["n_training_scans"]
    assert n_learned_from <= len(people)
    n_most = int((share or 0.5) * n_learned_from)
    assert contract["beside"]["n_components"] == min(n_most, contract["beside"]["n_voxels"])


def test_samples_that_do_not_fit_in_memory_are_drawn(tmp_path, monkeypatch):
    n_drawn = 40
    monkeypatch.setattr(components, "MEMORY", n_drawn * 4 * 137)
    many = BESIDE | {"encoder": {**BESIDE["encoder"], "beside": {"n_components": 400}}}
    runs = [nc.pretrain(many, out=tmp_path / name) for name in ("run", "again")]
    contracts = [read_json(run / "encoder.json") for run in runs]
    beside = contracts[0]["beside"]
    assert beside["n_scans"] == n_drawn
    assert beside["n_components"] == n_drawn // 2
    assert contracts[0]["weights"]["sha256"] == contracts[1]["weights"]["sha256"]


def test_an_evaluation_knows_the_blocks_and_so_does_its_probe(tables, evaluated):
    read = read_embeddings(tables["beside"])
    blocks = blocks_of(read.info, read.features.shape[1])
    assert [(block.name, block.n_features) for block in blocks] == [
        ("network", 16),
        ("components", N_COMPONENTS),
    ]
    probe = load_probe(evaluated)
    assert probe.blocks == blocks
    assert probe.weight in WEIGHTS
    content = read_json(evaluated / "evaluation.json")
    assert set(content["probe"]["weights"]) == {"network", "components"}
    assert list(content["rivals"])[-1] == "regional_beside"


@pytest.mark.usefixtures("blank_figures")
def test_a_report_says_what_the_network_adds_and_how_the_blocks_were_weighed(evaluated):
    page = unescape(nc.report(evaluated).read_text())
    for sentence in (
        "12 principal components of the encoder, without the network, reach AUC",
        "what the network adds to them is",
        "Inner folds weighed the blocks of the embedding:",
        "was chosen with the penalty, on the same inner folds, from 0, 0.25, 0.5, 0.75 and 1.",
        "137 regional measures and the embedding, as two blocks, reach AUC",
        "what the embedding adds to them is",
    ):
        assert sentence in page


@pytest.mark.slow
def test_an_external_test_curve_and_new_sites_follow_the_weights(tables, tmp_path):
    people = read_embeddings(tables["beside"])
    table = people.table.assign(site=np.where(np.arange(len(people.table)) % 2, "one", "two"))
    paths = []
    for number in range(2):
        half = np.arange(len(table)) // 113 == number
        path = tmp_path / f"{number}.parquet"
        write_embeddings(
            path, table[half].reset_index(drop=True), people.features[half], people.info
        )
        paths.append(path)
    evaluated = nc.evaluate(
        paths[0],
        target="sex",
        out=tmp_path / "out",
        test=paths[1],
        train_sizes=(40,),
        n_draws=1,
        allow_overlap=True,
        **FASTEST | {"new_site": True},
    )
    content = read_json(evaluated / "evaluation.json")
    external = pd.read_csv(evaluated / "external_predictions.tsv", sep="\t")
    scored = nc.predict(evaluated, paths[1], out=tmp_path / "a.tsv")
    predicted = pd.read_csv(scored, sep="\t").set_index("participant_id")["y_score"]
    expected = external.set_index("participant_id")["y_score"]
    np.testing.assert_allclose(predicted[expected.index], expected, atol=1e-6)
    assert content["external"]["weight"] == load_probe(evaluated).weight
    assert {"metrics", "network", "components", "regional_beside"} <= set(content["learning_curve"])
    assert content["new_site"]


def test_a_head_has_no_components(runs, tmp_path):
    head = MEASURES | {"embedding": {"layer": "head"}}
    made = nc.embed(runs["beside"], participants=PEOPLE, out=tmp_path / "head.parquet", config=head)
    read = read_embeddings(made)
    assert read.features.shape[1] == load_model(runs["beside"])[0].n_features
    assert blocks_of(read.info, read.features.shape[1]) == ()


def test_its_known_answer_is_verified(runs):
    assert nc.verify_weights(runs["beside"]).passed


def test_people_are_predicted_from_their_table_and_by_the_run(runs, tables, evaluated, tmp_path):
    from_table = nc.predict(evaluated, tables["beside"], out=tmp_path / "a.tsv")
    by_run = nc.predict(
        evaluated, PEOPLE, run=runs["beside"], out=tmp_path / "b.tsv", config=MEASURES
    )
    scores = [pd.read_csv(made, sep="\t")["y_score"] for made in (from_table, by_run)]
    np.testing.assert_allclose(scores[0], scores[1], atol=1e-5)


@pytest.mark.usefixtures("blank_figures")
def test_an_evaluation_is_explained_and_bundled(runs, evaluated, tmp_path):
    nc.bundle(runs["beside"], evaluation=evaluated, out=tmp_path / "bundle")
    nc.explain(
        evaluated,
        run=runs["beside"],
        participants=PEOPLE,
        config=MEASURES | {"explanation": {"n_subjects": 4}},
    )
    regions = pd.read_csv(evaluated / "explanation" / "regions.tsv", sep="\t")
    assert len(regions) > 100
    both = regions["network"] + regions["components"]
    np.testing.assert_allclose(both, regions["value"], atol=1e-6)
    assert regions["components"].abs().max() > 0
    blocks = read_json(evaluated / "explanation" / "explain.json")["blocks"]
    assert [block["name"] for block in blocks] == ["network", "components"]
    assert sum(block["share"] for block in blocks) == pytest.approx(1)
    weight = load_probe(evaluated).weight
    assert (blocks[0]["share"] == 0) == (regions["network"] == 0).all() == (weight == 0)
    page = unescape(nc.report(evaluated).read_text())
    assert "By the network" in page
    assert "Share of the differences by the components" in page


def test_rows_are_embedded_as_embed_does(runs, tables):
    people = pd.read_csv(PEOPLE, sep="\t", dtype={"participant_id": str})
    assert ScanEmbedder(runs["beside"]).fit(people).n_features_out_ == 28


def test_training_starts_from_its_network(runs, tmp_path):
    start = BESIDE | {"training": {**BESIDE["training"], "init": str(runs["beside"])}}
    run = nc.pretrain(start, out=tmp_path / "run")
    assert load_encoder(run)[0].n_components_beside == N_COMPONENTS


@pytest.mark.parametrize(
    ("encoder", "refusal"),
    [
        ({"name": "pca", "beside": {}}, "beside belongs to networks"),
        ({"name": "mlp", "beside": {"n_components": 0}}, "n_components"),
        ({"name": "mlp", "beside": {"name": "lda"}}, "beside.name"),
    ],
)
def test_components_are_refused_where_nothing_reads_them(encoder, refusal, tmp_path):
    with pytest.raises(ConfigError, match=refusal):
        nc.pretrain(OF_MEASURES | {"encoder": encoder}, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
