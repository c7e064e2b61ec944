"""What a probe says of scans: the scores of a plain pipeline, the threshold of its decisions, and what is refused."""

import numpy as np
import pytest
from pydantic import ValidationError
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from neurocontrast.evaluation import EvaluationSettings
from neurocontrast.evaluation.probes.designs import principal_axes
from neurocontrast.evaluation.probes.fitting import FitContext, decide_scores, fit_probe
from neurocontrast.evaluation.splits import Split
from neurocontrast.evaluation.splits.inner import inner_folds
from neurocontrast.evaluation.target import Target
from tests.evaluation.quick import binary, evaluate, names, target_by


@pytest.mark.parametrize("kind", ["binary", "multiclass"])
def test_one_class_in_training_is_all_there_is_to_say(kind):
    classes = ("a", "b") if kind == "binary" else ("a", "b", "c")
    target = Target("dx", kind, np.array([1, 1, 1, 0, 1]), classes)
    x = np.random.default_rng(0).normal(size=(5, 2))
    decided = fit_probe(
        lambda train, test: (x[train], x[test]),
        target,
        Split(0, 0, np.arange(3), np.arange(3, 5)),
        FitContext(names(5), EvaluationSettings(), seed=0),
    )[0]
    assert decided.decisions.tolist() == [1, 1]
    assert decided.scores.tolist() == ([1.0, 1.0] if kind == "binary" else [[0.0, 1.0, 0.0]] * 2)


def test_thresholds_are_read_in_one_form():
    assert EvaluationSettings(threshold="0.3").threshold == 0.3
    assert EvaluationSettings(threshold=" prevalence ").threshold == "prevalence"


@pytest.mark.parametrize("wrong", ["youden", "sensitivity=0.9", 0, 1.0, 50, "nan", ""])
def test_what_is_no_threshold_is_refused_with_what_is_one(wrong):
    with pytest.raises(ValidationError, match="must be half, prevalence, or a probability"):
        EvaluationSettings(threshold=wrong)


def test_a_threshold_moves_decisions_and_no_score(make_cohort):
    cohort = make_cohort(200, n_features=6, diagnosis=0.35, age=0.0)
    low, half = (evaluate(cohort, threshold=threshold).evaluation for threshold in (0.3, "half"))
    assert low.threshold.values == [0.3] * 3
    assert half.threshold.values == [0.5] * 3
    assert low.metrics["sensitivity"].pooled > half.metrics["sensitivity"].pooled
    assert low.metrics["auc"] == half.metrics["auc"]


def test_shares_are_those_of_the_training_rows():
    train = np.arange(4)  # the other rows hold what is not to be known
    by_share = EvaluationSettings(threshold="prevalence")
    two = binary([1, 0, 0, 0, 1, 1])
    assert decide_scores(np.array([0.2, 0.3]), two, train, by_share) == (
        pytest.approx([0, 1]),
        0.25,
    )
    several = Target("diagnosis", "multiclass", np.array([0, 0, 1, 2, 2, 2, 2, 2]), ("a", "b", "c"))
    assert decide_scores(np.array([[0.4, 0.24, 0.36]]), several, train, by_share)[0].tolist() == [2]


# --- a plain pipeline of scikit-learn
# --------------------------------------------------------------------------------
SETTINGS = EvaluationSettings(C=(1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0))


def make(kind: str, n: int = 90, p: int = 200, seed: int = 0):
    generator = np.random.default_rng(seed)
    features = generator.normal(size=(n, p)) * np.exp(generator.normal(size=p))
    signal = (
        features[:, 0] / features[:, 0].std()
        + features[:, 1] / features[:, 1].std()
        + generator.normal(size=n)
    )
    subjects = np.array([f"s{row // 2}" for row in range(n)], dtype=object)
    return features, target_by(kind, signal), subjects, np.arange(n - 20), np.arange(n - 20, n)


def grid_search(kind, features, target, subjects, train, test, seed):
    """The plain script: a pipeline in a grid search over the same inner folds."""
    if kind == "continuous":
        model = Ridge()
        name = "ridge__alpha"
        grid = SETTINGS.alpha
        scoring = "neg_mean_squared_error"
    else:
        # A tight tolerance, and a second-order solver: the default one stops 1e-3 from the optimum.
        model = LogisticRegression(solver="newton-cholesky", tol=1e-10, max_iter=1000)
        name = "logisticregression__C"
        grid = SETTINGS.C
        scoring = "neg_log_loss"
    pairs = inner_folds(target, train, subjects, n_folds=SETTINGS.n_inner_folds, seed=seed)
    search = GridSearchCV(
        make_pipeline(StandardScaler(), model), {name: list(grid)}, cv=pairs, scoring=scoring
    )
    values = target.values
    search.fit(features, values)
    best = (
        make_pipeline(StandardScaler(), model)
        .set_params(**search.best_params_)
        .fit(features[train], values[train])
    )
    return search.best_params_[name], best.predict(
        features[test]
    ) if kind == "continuous" else best.predict_proba(features[test])


@pytest.mark.parametrize("kind", ["binary", "multiclass", "continuous"])
@pytest.mark.parametrize("p", [12, 120])
def test_a_probe_is_the_plain_pipeline(kind, p):
    features, target, subjects, train, test = make(kind, p=p)
    pairs = inner_folds(target, train, subjects, n_folds=SETTINGS.n_inner_folds, seed=3)
    strength, expected = grid_search(kind, features, target, subjects, train, test, 3)
    expected = expected[:, 1] if kind == "binary" else expected

    def design(a, b):
        return features[a], features[b]

    fit = fit_probe(
        design, target, Split(0, 0, train, test), FitContext(subjects, SETTINGS, 3), pairs=pairs
    )[0]
    assert fit.strength == strength
    np.testing.assert_allclose(fit.scores, expected, atol=1e-6)
    assert fit.n_not_converged == 0


@pytest.mark.parametrize("shape", [(30, 100), (100, 30)])
def test_rotation_keeps_all_inner_products(shape):
    generator = np.random.default_rng(0)
    train = generator.normal(size=shape)
    test = generator.normal(size=(7, shape[1]))
    axes, rotated_train = principal_axes(train)
    rotated_test = test @ axes
    assert rotated_train.shape[1] == min(shape)
    np.testing.assert_allclose(rotated_train @ rotated_train.T, train @ train.T, atol=1e-9)
    np.testing.assert_allclose(rotated_test @ rotated_train.T, test @ train.T, atol=1e-9)
    products = rotated_train.T @ rotated_train
    np.testing.assert_allclose(products, np.diag(np.diag(products)), atol=1e-8)


def test_a_class_that_is_not_in_training_gets_probability_zero():
    features, target, subjects, _, _ = make("multiclass", p=5)
    train = np.flatnonzero(target.values != 2)
    test = np.flatnonzero(target.values == 2)
    pairs = inner_folds(target, train, subjects, n_folds=SETTINGS.n_inner_folds, seed=0)
    split = Split(0, 0, train, test)
    context = FitContext(subjects, SETTINGS, seed=0)
    design = lambda a, b: (features[a], features[b])  # noqa: E731
    fit = fit_probe(design, target, split, context, pairs=pairs)[0]
    assert (fit.scores[:, 2] == 0).all()
    np.testing.assert_allclose(fit.scores.sum(axis=1), 1)
