"""Measures of how far two columns go together, beside formulas and columns that are unrelated."""

import numpy as np
import pytest
from scipy.stats.contingency import association

from neurocontrast.evaluation.plan.association import cramers_v, variance_explained

generator = np.random.default_rng(0)


def test_cramers_v_is_zero_for_independence_and_one_for_identity():
    a = generator.integers(0, 4, 400)
    assert cramers_v(a, a) == pytest.approx(1.0)
    assert cramers_v(np.repeat([0, 1], 50), np.tile([0, 1], 50)) == 0.0


def test_the_correction_removes_what_many_categories_add():
    corrected = []
    plain = []
    for _ in range(50):
        a = generator.integers(0, 2, 60)
        b = generator.permutation(60) % 10
        corrected.append(cramers_v(a, b))
        plain.append(
            association(
                np.array([[np.sum((a == i) & (b == j)) for j in range(10)] for i in range(2)])
            )
        )
    assert np.mean(plain) > 0.3
    assert np.mean(corrected) < 0.15


def test_the_corrected_value_follows_bergsmas_formula():
    counts = np.array([[30, 10, 5], [5, 20, 30]])
    a, b = (np.repeat(index.ravel(), counts.ravel()) for index in np.indices(counts.shape))
    n, (r, k) = counts.sum(), counts.shape
    phi2 = association(counts, method="cramer") ** 2 * min(r - 1, k - 1)
    expected = np.sqrt(
        (phi2 - (k - 1) * (r - 1) / (n - 1))
        / min(k - (k - 1) ** 2 / (n - 1) - 1, r - (r - 1) ** 2 / (n - 1) - 1)
    )
    assert cramers_v(a, b) == pytest.approx(expected)


def test_variance_explained_by_unrelated_groups_is_near_zero():
    values = generator.normal(size=300)
    groups = generator.integers(0, 20, 300)
    assert variance_explained(values, groups) < 0.1
    assert variance_explained(values + 10 * groups, groups) > 0.99
