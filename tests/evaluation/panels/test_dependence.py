from __future__ import annotations

import numpy as np
import pytest

from neurocontrast.evaluation.panels.dependence import (
    category_factor,
    centre_kernel,
    dependence,
    embedding_kernel,
    number_factor,
)

N = 60


def unbiased_hsic(k: np.ndarray, m: np.ndarray) -> float:
    """Equation 5 of Song et al. (2012), term by term."""
    n = len(k)
    k, m = k - np.diag(np.diag(k)), m - np.diag(np.diag(m))
    ones = np.ones(n)
    trace = np.trace(k @ m)
    second = (ones @ k @ ones) * (ones @ m @ ones) / ((n - 1) * (n - 2))
    third = 2 / (n - 2) * (ones @ k @ m @ ones)
    return (trace + second - third) / (n * (n - 3))


@pytest.fixture(scope="module")
def cohort():
    generator = np.random.default_rng(0)
    age = generator.uniform(20, 80, N)
    features = generator.normal(size=(N, 8)) + np.outer(np.sin(age / 8), np.ones(8))
    return features, age, generator.integers(0, 3, N)


def ask(features, factor, strata=None, n_permutations=199, seed=0):
    kernel = centre_kernel(embedding_kernel(features))
    return dependence(kernel, factor, strata, n_permutations=n_permutations, generator=np.random.default_rng(seed))


def test_it_is_song_et_als_unbiased_estimate_normalised(cohort):
    features, age, codes = cohort
    kernel = embedding_kernel(features)
    for factor in (number_factor(age), category_factor(codes)):
        other = factor @ factor.T
        expected = unbiased_hsic(kernel, other) / np.sqrt(unbiased_hsic(kernel, kernel) * unbiased_hsic(other, other))
        assert ask(features, factor, n_permutations=1)[0] == pytest.approx(expected, rel=1e-9)


def test_factors_are_the_kernels(cohort):
    _, age, codes = cohort
    distances = np.abs(age[:, None] - age[None])
    bandwidth = np.median(distances[~np.eye(N, dtype=bool)] ** 2)
    factor = number_factor(age)
    np.testing.assert_allclose(factor @ factor.T, np.exp(-(distances**2) / (2 * bandwidth)), atol=1e-4)
    assert factor.shape[1] < 15
    np.testing.assert_array_equal(category_factor(codes) @ category_factor(codes).T, codes[:, None] == codes[None])


def test_the_p_value_counts_permutations_one_by_one(cohort):
    features, _, codes = cohort
    found = ask(features, category_factor(codes), n_permutations=99, seed=5)
    kernel, same = embedding_kernel(features), (codes[:, None] == codes[None]).astype(float)
    observed, as_much, generator = unbiased_hsic(kernel, same), 0, np.random.default_rng(5)
    for _ in range(99):
        order = generator.permutation(N)
        as_much += unbiased_hsic(kernel, same[np.ix_(order, order)]) >= observed - 1e-12
    assert found[1] == pytest.approx((1 + as_much) / 100)


def test_a_dependence_without_correlation_is_found():
    generator = np.random.default_rng(0)
    age = generator.uniform(20, 80, N)
    features = generator.normal(size=(N, 8)) + np.outer((age - 50) ** 2 / 300, np.ones(8))
    assert np.abs([np.corrcoef(age, feature)[0, 1] for feature in features.T]).max() < 0.3
    assert ask(features, number_factor(age))[1] < 0.02


def test_identity_is_one_and_a_column_without_spread_nothing():
    values = np.random.default_rng(0).normal(size=N)
    assert ask(values[:, None], number_factor(values))[0] > 0.99
    assert ask(values[:, None], category_factor(["a"] * N)) == ask(values[:, None], category_factor(["b"] * N))
    assert ask(values[:, None], category_factor(["a"] * N))[1] == 1.0
    assert np.isfinite(number_factor(np.repeat([0.0, 1.0], [N - 1, 1]))).all()


def test_within_sites_what_only_the_site_brings_does_not_count():
    generator = np.random.default_rng(1)
    sites = np.repeat([0, 1, 2, 3], 30)
    features = generator.normal(size=(120, 5)) + 2 * sites[:, None]
    ages = generator.normal(size=120) + 2 * sites
    assert ask(features, number_factor(ages))[1] < 0.02
    assert ask(features, number_factor(ages), strata=sites)[1] > 0.05


def test_within_sites_five_percent_are_called_dependent_though_the_site_drives_both():
    rejected = 0
    for simulation in range(200):
        generator = np.random.default_rng(simulation)
        sites = generator.integers(0, 4, 60)
        features = generator.normal(size=(60, 20)) + 1.5 * sites[:, None]
        ages = generator.normal(size=60) + 1.5 * sites
        rejected += ask(features, number_factor(ages), sites, n_permutations=99)[1] <= 0.05
    assert 0.02 <= rejected / 200 <= 0.09


def test_of_independent_columns_five_percent_are_called_dependent():
    rejected, values = 0, []
    for simulation in range(200):
        generator = np.random.default_rng(simulation)
        found = ask(generator.normal(size=(40, 30)), category_factor(generator.integers(0, 2, 40)), n_permutations=99)
        rejected += found[1] <= 0.05
        values.append(found[0])
    assert 0.02 <= rejected / 200 <= 0.09
    assert np.mean(values) == pytest.approx(0, abs=0.01)
