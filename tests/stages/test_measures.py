"""Regional measures from their tables to embeddings."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import neurocontrast as nc
from neurocontrast.config import load_config
from neurocontrast.data import read_measures
from neurocontrast.data.measures import MeasuresContract, MeasureSettings
from neurocontrast.embedding import ScanEmbedder, read_embeddings
from neurocontrast.exceptions import DataError

SAMPLE = Path(__file__).resolve().parents[2] / "sample" / "measures"
TABLES = sorted(map(str, SAMPLE.glob("data-*.tsv")))
KERNEL = [{"type": "gaussian", "column": "age", "sigma": 5.0, "missing": "marginal"}]
DATA = {"participants": str(SAMPLE / "participants.tsv"), "measures": TABLES}
CONFIG = {
    "data": DATA,
    "training": {"epochs": 2, "batch_size": 64},
    "objective": {"loss": "conditional", "temperature": 1.0, "kernel": KERNEL},
}


@pytest.fixture(scope="module")
def people():
    return read_measures(DATA["participants"], TABLES)


def fitted(people, **settings):
    return MeasuresContract.fit(people.measures, people.measures.values, MeasureSettings(**settings))


def applied(contract, people, values=None):
    return contract.apply(people.measures.values if values is None else values, people.names(), source="people.tsv")


def test_measures_are_standardised_by_those_learned_from(people):
    contract = fitted(people, clip=100.0)
    made = applied(contract, people)
    np.testing.assert_allclose(made.mean(axis=0), 0, atol=1e-4)
    np.testing.assert_allclose(made.std(axis=0), 1, atol=1e-3)
    place = contract.columns.index("Left-Hippocampus")
    volumes = np.log(people.measures.values["Left-Hippocampus"])
    expected = (volumes - volumes.mean()) / volumes.std(ddof=0)
    np.testing.assert_allclose(made[:, place], expected, atol=1e-4)
    assert MeasuresContract.from_json(contract.as_json() | {k: list(v) for k, v in contract.as_json().items()
                                                            if isinstance(v, tuple)}) == contract  # fmt: skip


def test_residual_volumes_do_not_follow_head_size(people):
    contract = fitted(people, head_size="residual", clip=100.0)
    made = applied(contract, people)
    head = made[:, contract.columns.index("EstimatedTotalIntraCranialVol")]
    volume = made[:, contract.columns.index("Left-Hippocampus")]
    assert abs(np.corrcoef(head, volume)[0, 1]) < 1e-3


def test_who_lacks_too_much_is_named_and_another_atlas_is_refused(people):
    contract, values = fitted(people), people.measures.values.copy()
    values.iloc[3, :2] = np.nan  # 1 % of them: replaced by medians
    assert np.isfinite(applied(contract, people, values)).all()
    values.iloc[5, :20] = np.nan
    with pytest.raises(DataError, match=f"{people.names()[5]}: lacks 20 of"):
        applied(contract, people, values)
    others = values.rename(columns=lambda name: name.replace("_thickness", "_area"))
    with pytest.raises(DataError, match="that were learned from are not there"):
        applied(contract, people, others)


def test_people_without_measures_are_named(people, tmp_path):
    table = pd.read_csv(DATA["participants"], sep="\t", dtype=str, keep_default_na=False)
    table.loc[len(table)] = ["sub-nobody"] + ["n/a"] * (table.shape[1] - 1)
    table.to_csv(tmp_path / "participants.tsv", sep="\t", index=False)
    with pytest.raises(DataError, match="sub-nobody"):
        read_measures(tmp_path / "participants.tsv", TABLES)


def test_the_kind_follows_from_the_tables():
    config = load_config(None, [f"data.measures={TABLES[0]}"])
    assert (config.data.kind, config.augment.kind, config.encoder.name) == ("measures", "measures", "mlp")
    assert (config.training.batch_size, config.objective.temperature) == (256, 1.0)


@pytest.mark.parametrize("encoder", [{}, {"name": "pca", "n_components": 8}])
def test_a_run_of_measures_is_embedded_the_same_each_time(tmp_path, encoder):
    tables = []
    for number in (1, 2):
        run = nc.pretrain({**CONFIG, "encoder": encoder}, out=tmp_path / f"run{number}")
        out = tmp_path / f"{number}.parquet"
        nc.embed(run, participants=DATA["participants"], out=out, config={"data": {"measures": TABLES}})
        table = pd.read_parquet(out)
        tables.append(table[[name for name in table if name.startswith("feature_")]].to_numpy())
    assert np.array_equal(*tables)
    assert tables[0].std() > 0


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return nc.pretrain(CONFIG, out=tmp_path_factory.mktemp("measures") / "run")


@pytest.fixture(scope="module")
def embeddings(run):
    config = {"data": {"measures": TABLES}}
    return nc.embed(run, participants=DATA["participants"], out=run.parent / "e.parquet", config=config)


@pytest.fixture(scope="module")
def features(embeddings):
    return read_embeddings(embeddings).features


def test_rows_of_measures_are_embedded_as_embed_does(run, people, features):
    measures = people.measures.values
    made = ScanEmbedder(run).fit_transform(measures)
    assert np.array_equal(made, features)
    shuffled = measures.iloc[::-1, ::-1].rename(columns=lambda name: name.replace("_and_", "&"))
    with_more = shuffled.assign(age=30.0, participant_id="sub-1")
    made = ScanEmbedder(run, layer="encoder").fit(None).transform(with_more)
    np.testing.assert_allclose(made, features[::-1], rtol=1e-4, atol=1e-5)


def test_rows_of_other_measures_are_refused_by_name(run, people):
    measures, embedder = people.measures.values, ScanEmbedder(run).fit(None)
    others = measures.rename(columns=lambda name: name.replace("_G_front_sup_", "_superiorfrontal_"))
    with pytest.raises(
        DataError, match=r"X: 2 of the \d+ measures that were learned from .*'lh_G_front_sup_thickness'"
    ):
        embedder.transform(others)
    with pytest.raises(DataError, match="It seems to be in mL"):
        embedder.transform(measures.where(measures < 1000, measures / 1000))
    with pytest.raises(DataError, match=r"row 3, column 'lh_G_.*': found 'thick'"):
        embedder.transform(measures.astype(object).where(measures != measures.iloc[3], "thick"))
    twice = pd.concat([measures, measures[["Left-Hippocampus"]]], axis=1)
    with pytest.raises(DataError, match="several columns 'Left-Hippocampus'"):
        embedder.transform(twice)
    with pytest.raises(DataError, match=r"DataFrame with one row a scan .*, got ndarray"):
        embedder.transform(measures.to_numpy())
