"""Joined features: each encoder's weigh the same, in every place where features are standardised."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from neurocontrast.evaluation import BlockScaler, load_probe, run_study, save_probe
from neurocontrast.evaluation.designs import Block, blocks_of, check_same_blocks, standardised
from neurocontrast.evaluation.final_probe import fit_on_all
from neurocontrast.exceptions import DataError
from tests.evaluation.quick import plan


def info_of(**sizes: int) -> dict:
    blocks = {name: {"n_features": n, "encoder": name * 8} for name, n in sizes.items()}
    return {"run": {"blocks": blocks}, "pretraining_subjects": []}


def joined_study(make_cohort, target: str = "diagnosis", **settings):
    """Plan a study of 300 columns of noise beside 12 that hold the effects."""
    cohort = make_cohort(120, n_features=12)
    noise = np.random.default_rng(1).normal(size=(120, 300))
    cohort.features = np.hstack([noise, cohort.features])
    return plan(cohort, target=target, info=info_of(noise=300, signal=12), **settings)


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
    study = joined_study(make_cohort)
    train = study.splits[0].train
    test = study.splits[0].test
    expected = BlockScaler(sizes=(300, 12)).fit(study.features[train])
    np.testing.assert_allclose(
        standardised(study.design(), train, test).scaler.scale_, expected.scale_
    )
    other = clone(expected).fit(study.features[test])
    np.testing.assert_allclose(
        standardised(study.design(), test, train).scaler.scale_, other.scale_
    )


def test_a_small_block_is_not_drowned(make_cohort):
    def auc(study) -> float:
        return run_study(study).evaluation.metrics["auc"].pooled

    joined = joined_study(make_cohort, C=(1e-4, 1e-2, 1.0))
    flat = plan(joined, C=(1e-4, 1e-2, 1.0))
    assert auc(joined) > auc(flat) + 0.05


@pytest.mark.parametrize("target", ["diagnosis", "age"])
def test_a_stored_probe_balances_as_the_fitted_one_did_and_knows_its_blocks(
    make_cohort, tmp_path, target
):
    study = joined_study(make_cohort, target, C=(0.01,), alpha=(10.0,))
    save_probe(tmp_path, fit_on_all(study, encoder="abc")[1])
    stored = load_probe(tmp_path)
    model = Ridge(10.0) if target == "age" else LogisticRegression(C=0.01, tol=1e-8, max_iter=1000)
    plain = make_pipeline(BlockScaler(sizes=(300, 12)), model).fit(
        study.features, study.target.values
    )
    expected = (
        plain.predict(study.features)
        if target == "age"
        else plain.predict_proba(study.features)[:, 1]
    )
    np.testing.assert_allclose(stored.predict(study.features), expected, atol=1e-5)
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


@pytest.mark.parametrize(
    "blocks", [{"a": {"n_features": 3}}, {"a": {}}, {"a": 3}, [3, 2], {"a": {"n_features": "x"}}]
)
def test_a_damaged_description_of_blocks_is_refused(blocks):
    with pytest.raises(DataError, match="Join the tables again"):
        blocks_of({"run": {"blocks": blocks}}, 5)
