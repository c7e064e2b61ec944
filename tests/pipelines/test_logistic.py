"""The classifier of many images: scikit-learn's regression at its optimum, whatever the features."""

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GridSearchCV, PredefinedSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from neurocontrast.documents.embeddings import write_embeddings
from pipelines.natural import logistic
from pipelines.natural.logistic import fit_path
from pipelines.natural.probing import STRENGTHS, write_accuracy


@pytest.fixture(scope="module")
def images():
    """Features after a ReLU whose variances decay, of four classes that overlap."""
    generator = np.random.default_rng(0)
    codes = generator.integers(4, size=600)
    latent = generator.normal(size=(600, 24)) + 0.1 * generator.normal(size=(4, 24))[codes]
    latent *= np.arange(1, 25) ** -1.0
    features = np.maximum(latent @ generator.normal(size=(24, 32)), 0)
    features[:, -1] = 0.0
    return features, codes


def test_a_path_has_the_probabilities_of_scikit_learn_s_optimum(images):
    features, codes = images
    x = StandardScaler().fit_transform(features)
    for strength, model in zip(STRENGTHS, fit_path(x, codes, STRENGTHS), strict=True):
        expected = LogisticRegression(C=strength, solver="newton-cholesky", tol=1e-12, max_iter=200)
        expected.fit(x, codes)
        probabilities = np.exp(model.log_probabilities(x))
        assert probabilities == pytest.approx(expected.predict_proba(x), abs=1e-6)
        assert model.weights == pytest.approx(expected.coef_.T, abs=1e-6)
        assert model.n_iterations < 100


def test_a_start_spares_steps_and_ends_at_the_same_optimum(images):
    features, codes = images
    x = StandardScaler().fit_transform(features)
    (start,) = fit_path(x[:590], codes[:590], [1e-3])
    (cold,) = fit_path(x, codes, [1e-3])
    (warm,) = fit_path(x, codes, [1e-3], start=start)
    probabilities = np.exp(warm.log_probabilities(x))
    assert probabilities == pytest.approx(np.exp(cold.log_probabilities(x)), abs=1e-6)
    assert warm.weights == pytest.approx(cold.weights, abs=1e-6)
    assert warm.n_iterations < cold.n_iterations


def test_the_accuracy_is_that_of_a_search_over_the_same_penalties(images, tmp_path):
    features, codes = images
    labels = np.array(["bird", "car", "cat", "dog"], dtype=object)[codes]
    splits = np.array(["train", "train", "validation", "test"], dtype=object)[np.arange(600) % 4]
    table = pd.DataFrame({"participant_id": [f"i{row}" for row in range(600)]})
    table["split"] = splits
    table["label"] = labels
    source = tmp_path / "epoch-1.parquet"
    write_embeddings(source, table, features.astype(np.float32), {})
    is_test = splits == "test"
    search = GridSearchCV(
        make_pipeline(StandardScaler(), LogisticRegression(tol=1e-8, max_iter=5000)),
        {"logisticregression__C": STRENGTHS},
        scoring="neg_log_loss",
        cv=PredefinedSplit(np.where(splits[~is_test] == "validation", 0, -1)),
    ).fit(features[~is_test], labels[~is_test])
    expected = accuracy_score(labels[is_test], search.predict(features[is_test]))
    assert write_accuracy(source, tmp_path / "epoch-1.tsv") == pytest.approx(expected)
    assert search.best_params_["logisticregression__C"] not in (STRENGTHS[0], STRENGTHS[-1])


def test_a_solver_that_gives_up_early_is_warned_of(images, monkeypatch):
    features, codes = images
    monkeypatch.setitem(logistic._SOLVER, "maxiter", 2)
    with pytest.warns(ConvergenceWarning, match=r"C = 1 is not at its optimum after 2 steps"):
        list(fit_path(features, codes, [1.0]))
