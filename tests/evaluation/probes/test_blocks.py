"""Joined features: each encoder's weigh the same, in every place where features are standardised."""

import json

import numpy as np
import pandas as pd
import pyarrow.parquet
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from neurocontrast.documents.embeddings import read_embeddings, write_embeddings
from neurocontrast.documents.info import EmbeddingsInfo
from neurocontrast.evaluation import BlockScaler, fit_and_measure, load_probe, save_probe
from neurocontrast.evaluation.fit.final_probe import fit_on_all
from neurocontrast.evaluation.probes.designs import (
    Block,
    blocks_of,
    check_same_blocks,
    standardised,
)
from neurocontrast.exceptions import DataError
from tests.evaluation.quick import make_plan


def info_of(**sizes: int) -> EmbeddingsInfo:
    blocks = {name: {"n_features": n, "encoder": name * 8} for name, n in sizes.items()}
    return EmbeddingsInfo(run={"blocks": blocks}, pretraining_subjects=[])


def joined_study(make_cohort, target: str = "diagnosis", **settings):
    """Plan a study of 300 columns of noise beside 12 that hold the effects."""
    cohort = make_cohort(120, n_features=12)
    noise = np.random.default_rng(1).normal(size=(120, 300))
    cohort.features = np.hstack([noise, cohort.features])
    return make_plan(cohort, target=target, info=info_of(noise=300, signal=12), **settings)


def test_each_block_has_the_same_total_variance_on_the_rows_it_was_fitted_on():
    x = np.random.default_rng(0).normal(size=(80, 50)) * 3 + 5
    x[:, 0] = 1.0  # a unit that never fires does not count
    scaled = BlockScaler(sizes=(40, 10)).fit_transform(x)
    np.testing.assert_allclose(
        [scaled[:, :40].var(axis=0).sum(), scaled[:, 40:].var(axis=0).sum()], [24.5, 24.5]
    )
    np.testing.assert_allclose(
        BlockScaler(sizes=(50,)).fit_transform(x), StandardScaler().fit_transform(x)
    )


def test_blocks_must_be_all_columns():
    with pytest.raises(ValueError, match="are 4 columns, and X has 5"):
        BlockScaler(sizes=(2, 2)).fit(np.zeros((3, 5)))
    assert clone(BlockScaler(sizes=(2, 3), copy=False)).get_params()["sizes"] == (2, 3)


def test_inner_and_outer_folds_balance_blocks_by_their_own_training_rows(make_cohort):
    plan = joined_study(make_cohort)
    train = plan.splits[0].train
    test = plan.splits[0].test
    expected = BlockScaler(sizes=(300, 12)).fit(plan.features[train])
    np.testing.assert_allclose(
        standardised(plan.design(), train, test).scaler.scale_, expected.scale_
    )
    other = clone(expected).fit(plan.features[test])
    np.testing.assert_allclose(standardised(plan.design(), test, train).scaler.scale_, other.scale_)


def test_a_small_block_is_not_drowned(make_cohort):
    def auc(plan) -> float:
        return fit_and_measure(plan).evaluation.metrics["auc"].pooled

    joined = joined_study(make_cohort, C=(1e-4, 1e-2, 1.0))
    flat = make_plan(joined, C=(1e-4, 1e-2, 1.0))
    assert auc(joined) > auc(flat) + 0.05


@pytest.mark.parametrize("target", ["diagnosis", "age"])
def test_a_stored_probe_balances_as_the_fitted_one_did_and_knows_its_blocks(
    make_cohort, tmp_path, target
):
    plan = joined_study(make_cohort, target, C=(0.01,), alpha=(10.0,))
    save_probe(tmp_path, fit_on_all(plan, encoder="abc")[1])
    stored = load_probe(tmp_path)
    model = Ridge(10.0) if target == "age" else LogisticRegression(C=0.01, tol=1e-8, max_iter=1000)
    plain = make_pipeline(BlockScaler(sizes=(300, 12)), model).fit(
        plan.features, plan.target.values
    )
    expected = (
        plain.predict(plan.features)
        if target == "age"
        else plain.predict_proba(plan.features)[:, 1]
    )
    np.testing.assert_allclose(stored.predict(plan.features), expected, atol=1e-5)
    assert stored.blocks == (Block("noise", 300, "noise" * 8), Block("signal", 12, "signal" * 8))
    check_same_blocks(stored.blocks, blocks_of(info_of(noise=300, signal=12), 312), parameter="emb")


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (
            {},
            r"noise \(300 features, .* \+ signal .*this table has features of one encoder.*names=noise,signal",
        ),
        ({"signal": 12, "noise": 300}, r"this table has signal \(12 features"),
        ({"noise": 300, "signals": 12}, "signals"),
    ],
)
def test_other_blocks_are_refused_by_name(found, message):
    expected = blocks_of(info_of(noise=300, signal=12), 312)
    with pytest.raises(DataError, match=message):
        check_same_blocks(
            expected, blocks_of(info_of(**found), sum(found.values())), parameter="emb"
        )


def test_blocks_that_are_not_all_features_are_refused():
    with pytest.raises(DataError, match=r"are 3 features, and the table has 5\. Join the tables"):
        blocks_of(EmbeddingsInfo(run={"blocks": {"a": {"n_features": 3}}}), 5)


@pytest.mark.parametrize(
    ("blocks", "problem"),
    [
        ({"a": {}}, r"lacks run\.blocks\.a\.n_features"),
        ({"a": 3}, r"'run\.blocks\.a' must be a section of keys, found 3"),
        ([3, 2], r"'run\.blocks' must be a section of keys"),
        (
            {"a": {"n_features": "x"}},
            r"'run\.blocks\.a\.n_features' must be a whole number, found 'x'",
        ),
    ],
)
def test_a_damaged_description_of_blocks_is_refused(tmp_path, blocks, problem):
    table = pd.DataFrame({"participant_id": ["a"]})
    write_embeddings(tmp_path / "e.parquet", table, np.ones((1, 5), np.float32), {})
    written = pyarrow.parquet.read_table(tmp_path / "e.parquet")
    text = json.dumps({"format": 1, "run": {"blocks": blocks}}).encode()
    changed = written.replace_schema_metadata({b"neurocontrast": text})
    pyarrow.parquet.write_table(changed, tmp_path / "e.parquet")
    with pytest.raises(DataError, match=f"{problem}.*join them again"):
        read_embeddings(tmp_path / "e.parquet")
