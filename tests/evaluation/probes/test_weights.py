"""The weights of a network and of the components beside it: chosen on inner folds, at a price that is small."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from neurocontrast.documents.figures import Metric, ModelFigures
from neurocontrast.evaluation import BlockScaler, fit_and_measure, load_probe, save_probe
from neurocontrast.evaluation.fit.final_probe import fit_on_all
from neurocontrast.evaluation.fit.out_of_fold import cross_validate
from neurocontrast.evaluation.measure.model_figures import Figures
from neurocontrast.evaluation.measure.results import key_beside, look_at_baseline
from neurocontrast.evaluation.plan.models import Baseline, Model, voxels
from neurocontrast.evaluation.plan.models.beside import make_beside
from neurocontrast.evaluation.probes.designs import EQUAL, WEIGHTS, PairDesign, scaler_of, weighed
from neurocontrast.evaluation.probes.fitting import fit_probe
from neurocontrast.evaluation.splits import Split
from tests.evaluation.quick import make_plan

N_NETWORK = 30
N_COMPONENTS = 8
EFFECT = 0.6
"""Of the diagnosis on the components, in standard deviations."""


def info_of(n_components: int = N_COMPONENTS) -> dict:
    """Describe embeddings of a network with components beside."""
    beside = {"name": "pca", "n_components": n_components}
    run = {"weights": {"sha256": "a" * 64}, "beside": beside}
    return {"run": run, "pretraining_subjects": []}


def study_of(
    make_cohort, *, seed: int = 1, is_useless: bool = True, target="diagnosis", **settings
):
    """Plan a study whose components hold the effects; its network is noise, or knows the class."""
    cohort = make_cohort(120, n_features=N_COMPONENTS, diagnosis=EFFECT)
    network = np.random.default_rng(seed).normal(size=(120, N_NETWORK))
    if not is_useless:
        network[:, 0] += 3 * (cohort.table["diagnosis"] == "patient")
    cohort.features = np.hstack([network, cohort.features])
    return make_plan(cohort, target=target, info=info_of(), n_folds=3, **settings)


def embedding_of(plan):
    return plan.models[0]


def fit(plan, train, test, **changes):
    return fit_probe(
        changes.get("design", plan.design()),
        changes.get("target", plan.target),
        Split(0, 0, train, test),
        replace(plan.context, seed=0),
    )


def test_weights_are_shares_of_the_total_variance_and_0_takes_a_block_away():
    x = np.random.default_rng(0).normal(size=(80, 50)) * 3 + 5
    scaled = BlockScaler(sizes=(40, 10), weights=(0.2, 0.8)).fit_transform(x)
    total = [scaled[:, :40].var(axis=0).sum(), scaled[:, 40:].var(axis=0).sum()]
    np.testing.assert_allclose(total, [10, 40])
    equal = BlockScaler(sizes=(40, 10)).fit_transform(x)
    np.testing.assert_array_equal(
        BlockScaler(sizes=(40, 10), weights=(EQUAL, EQUAL)).fit_transform(x), equal
    )
    alone = BlockScaler(sizes=(40, 10), weights=(0.0, 1.0)).fit_transform(x)
    assert not alone[:, :40].any()
    with pytest.raises(ValueError, match="1 are given for 2 blocks"):
        BlockScaler(sizes=(40, 10), weights=(1.0,)).fit(x)


def test_only_two_blocks_of_one_encoder_have_a_weight(make_cohort):
    plan = study_of(make_cohort)
    assert [weight for weight, _ in weighed(plan.design())] == list(WEIGHTS)
    assert {0.0, 1.0} <= set(WEIGHTS)
    assert [weight for weight, _ in weighed(plan.design(block="network"))] == [None]
    assert [weight for weight, _ in weighed(replace(plan.design(), weight=0.25))] == [0.25]
    one, *others = plan.blocks
    joined = replace(plan.design(), blocks=(one, others[0]._replace(encoder="b" * 64)))
    assert [weight for weight, _ in weighed(joined)] == [None]


def test_the_weight_is_chosen_without_the_tested_rows(make_cohort):
    plan = study_of(make_cohort, is_useless=False)
    split = plan.splits[0]
    strong = plan.features.copy()
    strong[split.train, 0] += 5 * plan.target.values[split.train]
    found = fit(plan, split.train, split.test, design=replace(plan.design(), features=strong))[0]
    values = plan.target.values.copy()
    values[split.test] = 1 - values[split.test]
    features = strong.copy()
    features[split.test, :N_NETWORK] = 0
    design = replace(plan.design(), features=features)
    target = replace(plan.target, values=values)
    again = fit(plan, split.train, split.test, design=design, target=target)[0]
    assert found.weight is not None
    assert found.weight > EQUAL
    assert (again.weight, again.strength) == (found.weight, found.strength)


@pytest.mark.slow
def test_a_useless_network_costs_little_and_less_than_with_equal_weights(make_cohort):
    prices = []
    prices_of_equal = []
    for seed in range(3):
        plan = study_of(make_cohort, seed=seed)
        both, _, components, network = plan.models
        equal = replace(both, name="equal", design=replace(plan.design(), weight=EQUAL))
        found = fit_and_measure(
            replace(plan, models=(both, plan.models[1], components, network, equal))
        )
        folds = found.tables["folds"]
        prices.append(folds["components_auc"].mean() - folds["auc"].mean())
        prices_of_equal.append(folds["components_auc"].mean() - folds["equal_auc"].mean())
    assert np.mean(prices) < 0.03
    assert np.mean(prices) < np.mean(prices_of_equal)


def test_a_network_that_knows_more_is_listened_to(make_cohort):
    result = fit_and_measure(study_of(make_cohort, is_useless=False)).evaluation
    assert result.metrics["auc"].pooled > result.models["components"].metrics["auc"].pooled + 0.03
    assert result.probe.weights["network"] > EQUAL
    assert not [notice for notice in result.warnings if notice.code == "components_as_good"]


def test_a_network_that_adds_nothing_is_no_gain(make_cohort):
    plan = study_of(make_cohort, seed=3)
    chosen = fit_and_measure(plan).evaluation
    better = chosen.metrics["auc"].pooled > chosen.models["components"].metrics["auc"].pooled
    said = {notice.code for notice in chosen.warnings}
    assert ("components_as_good" in said) is not better


def aucs(embedding, **others):
    """Return figures in which each model has an AUC."""
    models = {
        name: ModelFigures(metrics={"auc": Metric(pooled=auc)}) for name, auc in others.items()
    }
    return Figures({"auc": Metric(pooled=embedding)}, models=models)


@pytest.mark.parametrize(
    ("together", "code"),
    [(0.85, "regional_as_good_alone"), (0.8, "regional_as_good"), (0.75, "regional_as_good")],
)
def test_no_gain_is_said_unless_the_embedding_adds_to_the_measures(together, code):
    figures = aucs(embedding=0.7, regional=0.8, regional_beside=together)
    model = Model("regional", baseline=Baseline("regions", "12 measures", "the measures"))
    (notice,) = look_at_baseline(figures, model, "auc", beside="regional_beside")
    assert notice.code == code
    assert ("no gain" in notice.message) == (code == "regional_as_good")


@pytest.mark.parametrize(
    ("together", "code"),
    [(0.85, "voxels_kernel_as_good_alone"), (0.8, "voxels_kernel_as_good")],
)
def test_a_kernel_is_no_end_where_the_embedding_adds_more_to_a_linear_model(together, code):
    figures = aucs(embedding=0.7, voxels_kernel=0.8, voxels_beside=together)
    baseline = Baseline("voxels", "60 components", "the scans as they are", of="voxels")
    model = Model("voxels_kernel", baseline=baseline)
    pair = Model("voxels_beside", baseline=Baseline("both", "both", beside="voxels"))
    assert key_beside([model], model) == ""
    beside = key_beside([model, pair], model)
    (notice,) = look_at_baseline(figures, model, "auc", beside=beside)
    assert notice.code == code
    assert ("no gain" in notice.message) == (code == "voxels_kernel_as_good")


def test_weights_are_written_of_every_fold_and_overall(make_cohort):
    result = fit_and_measure(study_of(make_cohort))
    probe = result.evaluation.probe
    folds = result.tables["folds"]["weight_network"].tolist()
    assert probe.blocks == "beside"
    assert probe.fold_weights["network"] == folds
    assert probe.weights["network"] == pytest.approx(np.mean(folds))
    assert sum(probe.weights.values()) == pytest.approx(1)
    assert set(folds) <= set(WEIGHTS)


@pytest.mark.parametrize(
    ("target", "weight"), [("diagnosis", 0.25), ("diagnosis", 0.0), ("age", 0.0), ("age", 1.0)]
)
def test_a_stored_probe_predicts_with_the_weight_it_was_fitted_with(
    make_cohort, tmp_path, target, weight
):
    plan = study_of(make_cohort, target=target, C=(0.01,), alpha=(10.0,))
    predicted, probe = fit_on_all(plan, encoder="abc", weight=weight)
    save_probe(tmp_path, probe)
    stored = load_probe(tmp_path)
    scaler = BlockScaler((N_NETWORK, N_COMPONENTS), weights=(weight, 1 - weight))
    x = scaler.fit_transform(plan.features)
    model = Ridge(10.0) if target == "age" else LogisticRegression(C=0.01, tol=1e-8, max_iter=1000)
    model.fit(x, plan.target.values)
    expected = model.predict(x) if target == "age" else model.predict_proba(x)[:, 1]
    np.testing.assert_allclose(stored.predict(plan.features), expected, atol=1e-5)
    np.testing.assert_allclose(stored.predict(plan.features), predicted.scores, atol=1e-8)
    assert stored.weight == weight
    assert np.isfinite(stored.scale).all()
    assert stored.coefficients[:N_NETWORK].any() == bool(weight)


def test_a_baseline_and_the_embedding_are_two_blocks(make_cohort):
    cohort = make_cohort(120, n_features=N_COMPONENTS, diagnosis=EFFECT)
    generator = np.random.default_rng(2)
    volume = generator.normal(5000, 400, 120) + 900 * (cohort.table["diagnosis"] == "patient")
    cohort.table["left_hippocampus"] = volume
    network = generator.normal(size=(120, N_NETWORK))
    cohort.features = np.hstack([network, cohort.features])
    plan = make_plan(
        cohort, target="diagnosis", info=info_of(), n_folds=3, regional=("left_hippocampus",)
    )
    names = [model.name for model in plan.models]
    assert names[2:] == ["components", "network", "regional", "regional_kernel", "regional_beside"]
    design = plan.models[-1].design
    assert isinstance(design, PairDesign)
    rows = np.arange(60)
    x = design(rows, rows)[0]
    scaler = scaler_of(replace(design, weight=0.5), n_columns=x.shape[1])
    assert scaler.sizes == (x.shape[1] - N_NETWORK - N_COMPONENTS, N_NETWORK, N_COMPONENTS)
    scaled = scaler.fit_transform(x)
    n_first = scaler.sizes[0]
    halves = [scaled[:, :n_first].var(axis=0).sum(), scaled[:, n_first:].var(axis=0).sum()]
    assert halves[0] == pytest.approx(halves[1])
    result = fit_and_measure(plan).evaluation
    gain = result.models["regional_beside"].gain["auc"].difference
    together = result.models["regional_beside"].metrics["auc"].pooled
    alone = result.models["regional"].metrics["auc"].pooled
    assert gain == pytest.approx(together - alone)
    assert together > result.metrics["auc"].pooled


def test_an_estimator_of_ones_own_gets_no_weight(make_cohort):
    cohort = make_cohort(120, n_features=N_COMPONENTS, diagnosis=EFFECT)
    cohort.features = np.hstack([np.ones((120, 3)), cohort.features])
    estimator = LogisticRegression()
    plan = make_plan(cohort, target="diagnosis", info=info_of(), estimator=estimator)
    result = fit_and_measure(plan).evaluation
    assert (result.probe.blocks, result.probe.weights) == ("beside", {})
    assert "components" in result.rivals


def test_voxels_get_the_embedding_beside_them(make_cohort):
    plan = study_of(make_cohort)
    scans = np.random.default_rng(5).normal(size=(len(plan.table), 200)).astype(np.float32)
    first = voxels.make(plan, voxels.voxel_products(scans), {})
    model = make_beside(plan, first)
    assert (model.name, model.baseline.beside) == ("voxels_beside", "voxels")
    predicted = cross_validate(model, plan.target, plan.splits, plan.context)
    assert {fit.weight for fit in predicted.fits} <= set(WEIGHTS)
    alone = replace(plan, blocks=())
    assert make_beside(alone, first) is None
