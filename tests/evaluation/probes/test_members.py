"""Members of a run in an evaluation: a probe is fitted to each, and the predictions are averaged."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.svm import SVC, LinearSVC

from neurocontrast.documents.info import EmbeddingsInfo
from neurocontrast.evaluation import fit_and_measure, load_probe, save_probe
from neurocontrast.evaluation.fit.final_probe import fit_on_all
from neurocontrast.evaluation.fit.out_of_fold import cross_validate
from neurocontrast.evaluation.plan.external import plan_external
from neurocontrast.evaluation.plan.models.beside import make_beside
from neurocontrast.evaluation.probes.designs import PairDesign
from neurocontrast.evaluation.probes.members import MemberDesign, members_of
from neurocontrast.exceptions import DataError
from tests.evaluation.quick import make_plan

SIZES = (14, 20, 11)
N_COMPONENTS = 5


def info_of(sizes=SIZES, *, n_components=0):
    """Describe embeddings of a run with a member of each size."""
    members = []
    for number, size in enumerate(sizes):
        member = {"name": f"member{number}", "n_features": size}
        member["weights"] = {"sha256": f"{number}" * 64}
        if n_components:
            member["beside"] = {"name": "pca", "n_components": n_components}
        members.append(member)
    run = {"weights": {"sha256": "a" * 32}, "members": members}
    return {"run": run, "pretraining_subjects": []}


def info_of_one(number=0, *, n_components=0):
    """Describe embeddings of one member alone."""
    member = info_of(n_components=n_components)["run"]["members"][number]
    return {"run": member, "pretraining_subjects": []}


def cohort_of(make_cohort, **options):
    """Scans with the features of three members: each sees the effects through its own noise."""
    cohorts = [make_cohort(90, n_features=size, diagnosis=0.5, **options) for size in SIZES]
    features = [cohort.features for cohort in cohorts]
    for number, size in enumerate(SIZES):
        noise = np.random.default_rng(number).normal(size=(90, size))
        features[number] = features[number] + noise
    cohorts[0].features = np.hstack(features)
    return cohorts[0]


def columns_of(number):
    start = sum(SIZES[:number])
    return slice(start, start + SIZES[number])


def alone(cohort, number):
    """The same scans with the features of one member."""
    return type(cohort)(cohort.table, cohort.features[:, columns_of(number)])


def predict_by_embedding(plan):
    """Fit the model of the embedding in every fold of a plan, without its baselines."""
    by_name = {model.name: model for model in plan.models}
    return cross_validate(by_name["embedding"], plan.target, plan.splits, plan.context)


def scores_of_members(cohort, n_components=0, **options):
    """Out-of-fold scores of studies of each member alone."""
    scores = []
    for number in range(len(SIZES)):
        info = info_of_one(number, n_components=n_components)
        plan = make_plan(alone(cohort, number), info=info, n_folds=3, **options)
        scores.append(predict_by_embedding(plan).scores)
    return scores


@pytest.mark.parametrize(
    ("target", "n_components"),
    [
        ("diagnosis", N_COMPONENTS),
        ("age", 0),
        ("site", 0),
        pytest.param("diagnosis", 0, marks=pytest.mark.slow),
        pytest.param("age", N_COMPONENTS, marks=pytest.mark.slow),
        pytest.param("site", N_COMPONENTS, marks=pytest.mark.slow),
    ],
)
def test_predictions_are_the_mean_of_those_of_each_member_alone(make_cohort, target, n_components):
    cohort = cohort_of(make_cohort)
    options = {"target": target, "C": (1e-2, 1.0), "alpha": (10.0, 1000.0), "n_inner_folds": 2}
    plan = make_plan(cohort, info=info_of(n_components=n_components), n_folds=3, **options)
    result = fit_and_measure(plan)
    scores = result.predictions["embedding"].scores
    mean = np.mean(scores_of_members(cohort, n_components, **options), axis=0)
    np.testing.assert_allclose(scores, mean, rtol=1e-12)
    probe = result.evaluation.probe
    averaged = {"age": "numbers"}.get(target, "probabilities")
    assert (probe.n_members, probe.averaged) == (3, averaged)


def test_classes_are_decided_by_the_mean_probability_not_by_a_vote(make_cohort):
    plan = make_plan(cohort_of(make_cohort), info=info_of(), n_folds=3, C=(1.0,))
    out_of_fold = predict_by_embedding(plan)
    np.testing.assert_array_equal(out_of_fold.decisions, out_of_fold.scores >= 0.5)
    votes = 0
    for fit in out_of_fold.fits:
        assert len(fit.members) == 3
        majority = np.mean([member.decisions for member in fit.members], axis=0) > 0.5
        votes += (majority != fit.decisions).sum()
    assert votes > 0  # so that the test can tell


@pytest.mark.parametrize("target", ["diagnosis", "site"])
def test_an_estimator_of_the_users_own_is_fitted_to_each_member(make_cohort, target):
    cohort = cohort_of(make_cohort)
    estimator = LogisticRegression(C=0.1)
    options = {"target": target, "estimator": estimator}
    plan = make_plan(cohort, info=info_of(), n_folds=3, **options)
    scores = predict_by_embedding(plan).scores
    mean = np.mean(scores_of_members(cohort, **options), axis=0)
    np.testing.assert_allclose(scores, mean, rtol=1e-12)


def test_an_own_regressor_is_fitted_to_each_member(make_cohort):
    cohort = cohort_of(make_cohort)
    options = {"target": "age", "estimator": LinearRegression()}
    plan = make_plan(cohort, info=info_of(), n_folds=3, **options)
    scores = predict_by_embedding(plan).scores
    mean = np.mean(scores_of_members(cohort, **options), axis=0)
    np.testing.assert_allclose(scores, mean, rtol=1e-9)


@pytest.mark.parametrize(
    ("target", "estimator"),
    [("diagnosis", LinearSVC(C=0.01)), ("site", SVC(C=0.1, kernel="linear"))],
)
def test_decision_values_are_averaged_and_decide(make_cohort, target, estimator):
    cohort = cohort_of(make_cohort)
    options = {"target": target, "estimator": estimator}
    result = fit_and_measure(make_plan(cohort, info=info_of(), n_folds=3, **options))
    embedding = result.predictions["embedding"]
    mean = np.mean(scores_of_members(cohort, **options), axis=0)
    np.testing.assert_allclose(embedding.scores, mean, rtol=1e-6, atol=1e-9)
    decided = mean > 0 if target == "diagnosis" else mean.argmax(axis=-1)
    np.testing.assert_array_equal(embedding.decisions, decided)
    assert result.evaluation.probe.averaged == "decision values"


@pytest.mark.parametrize("target", ["diagnosis", "age", "site"])
def test_a_stored_probe_predicts_the_mean_of_its_members(make_cohort, tmp_path, target):
    cohort = cohort_of(make_cohort)
    options = {"target": target, "C": (1e-2,), "alpha": (10.0,), "n_folds": 3}
    plan = make_plan(cohort, info=info_of(n_components=N_COMPONENTS), **options)
    predicted, probe = fit_on_all(plan, encoder="abc")
    save_probe(tmp_path, probe)
    stored = load_probe(tmp_path)
    expected = []
    for number in range(len(SIZES)):
        info = info_of_one(number, n_components=N_COMPONENTS)
        one = make_plan(alone(cohort, number), info=info, **options)
        expected.append(fit_on_all(one, encoder="abc")[1].predict(one.features))
    np.testing.assert_allclose(stored.predict(plan.features), np.mean(expected, axis=0), atol=1e-9)
    np.testing.assert_allclose(stored.predict(plan.features), predicted.scores, atol=1e-8)
    assert [member.n_features for member in stored.members] == list(SIZES)


@pytest.mark.slow
def test_network_components_and_the_measures_beside_the_embedding_are_averaged_too(make_cohort):
    cohort = cohort_of(make_cohort)
    volume = np.random.default_rng(2).normal(5000, 400, 90)
    cohort.table["left_hippocampus"] = volume + 500 * (cohort.table["diagnosis"] == "patient")
    info = info_of(n_components=N_COMPONENTS)
    plan = make_plan(cohort, info=info, n_folds=3, regional=("left_hippocampus",), C=(1e-2, 1.0))
    models = {model.name: model for model in plan.models}
    for name in ("embedding", "network", "components", "regional_beside"):
        assert isinstance(models[name].design, MemberDesign)
        assert len(models[name].design.designs) == 3
    together = make_beside(plan, models["regional"])
    assert all(isinstance(design, PairDesign) for design in together.design.designs)
    sizes = [
        design(np.arange(40), np.arange(40, 50))[0].shape[1] for design in together.design.designs
    ]
    assert sizes == [1 + size for size in SIZES]
    components = models["components"].design.designs
    assert {design.features.shape[1] for design in components} == {N_COMPONENTS}
    np.testing.assert_array_equal(components[1].features, cohort.features[:, 29:34])
    fit_and_measure(plan)


def test_permutations_and_an_external_test_use_the_mean(make_cohort):
    cohort = cohort_of(make_cohort)
    info = info_of()
    plan = make_plan(cohort, info=info, n_folds=3, n_permutations=3, C=(1e-2,))
    permutation = fit_and_measure(plan).evaluation.permutation
    assert permutation is not None
    other = cohort_of(make_cohort, seed=7)
    names = [f"other-{row}" for row in range(len(other.table))]
    table = other.table.assign(participant_id=names, subject_id=names)
    described = EmbeddingsInfo(**info)
    external = plan_external(plan, table, other.features, info=described, training_info=described)
    joined = external.plan
    tested = cross_validate(joined.models[0], joined.target, joined.splits, joined.context)
    probe = fit_on_all(plan, encoder=None)[1]
    rows = np.arange(len(plan.table), len(external.plan.table))
    np.testing.assert_allclose(tested.scores[0, rows], probe.predict(other.features), atol=1e-8)
    with pytest.raises(
        DataError, match=r"those of one encoder\. Embed the scans with the same run"
    ):
        plan_external(plan, table, other.features, training_info=described)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda run: run["members"].pop(), "2 members have 34 features, and the table has 45"),
        (
            lambda run: run["members"][2].update(run["members"][0] | {"n_features": 11}),
            "two members are the same encoder",
        ),
        (lambda run: run["members"][0].pop("weights"), r"lacks run\.members\.0\.weights"),
        (
            lambda run: run.update(members=[1, 2, 3]),
            r"'run\.members\.0' must be a section of keys, found 1",
        ),
    ],
)
def test_a_description_that_does_not_fit_is_refused(change, message):
    info = info_of()
    change(info["run"])
    with pytest.raises(DataError, match=message):
        members_of(EmbeddingsInfo.of(info, "e.parquet"), sum(SIZES))


def test_one_encoder_has_no_members():
    assert members_of(EmbeddingsInfo(), 12) == ()
    info_of_one_encoder = EmbeddingsInfo(run={"beside": {"name": "pca", "n_components": 3}})
    assert members_of(info_of_one_encoder, 12) == ()


def test_the_table_of_folds_has_the_mean_weight(make_cohort):
    options = {"n_folds": 3, "n_inner_folds": 2, "C": (1e-2, 1.0)}
    info = info_of(n_components=N_COMPONENTS)
    result = fit_and_measure(make_plan(cohort_of(make_cohort), info=info, **options))
    folds = result.tables["folds"]
    for weight, fit in zip(
        folds["weight_network"], result.predictions["embedding"].fits, strict=True
    ):
        assert weight == pytest.approx(np.mean([member.weight for member in fit.members]))
    assert isinstance(folds, pd.DataFrame)


def test_the_strength_of_each_member_is_chosen_by_the_rows_of_its_own_pairs(make_cohort):
    plan = make_plan(cohort_of(make_cohort), target="age", info=info_of(), alpha=(1e-2, 1e4))
    rows = plan.fitted_rows
    strengths = {}
    for name, pair in {"seen": (rows, rows), "unseen": (rows[:8], rows[8:])}.items():
        _, probe = fit_on_all(plan, encoder="e", pairs=[[pair]] * len(SIZES))
        strengths[name] = probe.strength
    assert strengths["seen"] == 1e-2, "rows that were fitted to are fitted best without a penalty"
    assert strengths["unseen"] > strengths["seen"]
