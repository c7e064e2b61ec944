"""Samples of equal metadata are summed first in conditional alignment: the same number, without n × n weights."""

from __future__ import annotations

import pytest
import torch

from neurocontrast import losses
from neurocontrast.exceptions import DataError
from neurocontrast.kernels import Categorical, Different, Gaussian, Laplacian, Linear, Polynomial
from neurocontrast.losses import core, pairwise

N_SCANS, DISTINCT = 12, 5
MISSING = (1, 3)
"""Of the distinct scans, those of an unknown age, or category."""


def _age(naive, m):
    return naive.gaussian(m["age"], 5.0)


def _known(m):
    return (~m["some"].isnan()).tolist()


CASES = {
    "product": (
        Gaussian("age", sigma=5.0) * Categorical("sex"),
        lambda N, m: N.product(_age(N, m), N.categorical(m["sex"])),
    ),
    "sum": (
        2.0 * Gaussian("age", sigma=5.0) + Categorical("sex"),
        lambda N, m: N.weighted_sum((2.0, _age(N, m)), (1.0, N.categorical(m["sex"]))),
    ),
    "laplacian": (Laplacian("age", sigma=7.0), lambda N, m: N.laplacian(m["age"], 7.0)),
    "vector": (Gaussian("scores", sigma=[0.5, 2.0]), lambda N, m: N.gaussian(m["scores"], [0.5, 2.0])),
    "linear": (Linear("positive"), lambda N, m: N.linear(m["positive"])),
    "polynomial": (Polynomial("age", degree=2, gamma=0.1), lambda N, m: N.polynomial(m["age"], 2, 0.1, 1.0)),
    "twins-at-the-supremum": (
        Linear("positive", twin="supremum"),
        lambda N, m: _with_twins_at(N.linear(m["positive"]), N.largest(N.linear(m["positive"]), N_SCANS)),
    ),
    "across-sites": (
        Gaussian("age", sigma=5.0) * Different("sex"),
        lambda N, m: N.product(_age(N, m), N.different(m["sex"], 0.0)),
    ),
    "some-missing": (
        Gaussian("some", sigma=5.0, missing="marginal") * Categorical("sex"),
        lambda N, m: N.product(N.marginal(N.gaussian(m["some"], 5.0), _known(m)), N.categorical(m["sex"])),
    ),
    "some-missing-linear": (
        Linear("some", missing="marginal"),
        lambda N, m: N.marginal(N.linear(m["some"]), _known(m)),
    ),
}


def _with_twins_at(w, supremum):
    return lambda i, j: supremum if i == j else w(i, j)


@pytest.fixture
def batch(random_batch):
    """Two views, and metadata of which no more than five rows are distinct."""
    z1, z2, _ = random_batch(N_SCANS, 6, seed=12)
    index = torch.randint(DISTINCT, (N_SCANS,), generator=torch.Generator().manual_seed(1))
    columns = random_batch(DISTINCT, 6, seed=13)[2]
    columns["positive"] = columns["age"].abs() / 40
    columns["some"] = columns["positive"].clone()
    columns["some"][list(MISSING)] = torch.nan
    return z1, z2, {name: column[index] for name, column in columns.items()}


@pytest.fixture
def grouped(monkeypatch):
    """Whether each weighted similarity was taken between groups."""
    seen, weighted_similarity = [], pairwise.weighted_similarity

    def spy(rows, pairs, groups=None, **options):
        seen.append(groups is not None)
        return weighted_similarity(rows, pairs, groups, **options)

    monkeypatch.setattr(pairwise, "weighted_similarity", spy)
    return seen


@pytest.mark.parametrize("tile", [3, 8])
@pytest.mark.parametrize("case", CASES)
def test_value_and_gradient_equal_the_double_loop(case, batch, naive, hold, grouped, tile):
    z1, z2, metadata = batch
    kernel, reference = CASES[case]
    expected = naive.conditional_alignment(z1, z2, reference(naive, metadata), 0.1)
    hold(tile)
    value = losses.ConditionalAlignment(kernel)(z1, z2, metadata)
    assert grouped == [True]
    torch.testing.assert_close(value, expected, rtol=1e-10, atol=1e-10)
    for got, wanted in zip(*(torch.autograd.grad(each, (z1, z2)) for each in (value, expected)), strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("case", CASES)
def test_gradcheck(case, batch, hold):
    z1, z2, metadata = batch
    hold(3)
    loss = losses.YAwareInfoNCE(CASES[case][0], temperature=0.5)
    assert torch.autograd.gradcheck(lambda a, b: loss(a, b, metadata), (z1, z2), atol=1e-6, rtol=1e-5, fast_mode=True)


def test_distinct_metadata_are_not_grouped(random_batch, hold, grouped):
    z1, z2, metadata = random_batch(N_SCANS, 6, seed=1)
    hold(3)
    losses.YAwareInfoNCE(Gaussian("age", sigma=5.0))(z1, z2, metadata)
    assert grouped == [False]


def test_categories_that_float32_cannot_tell_apart_stay_apart(random_batch, hold):
    z1, z2, _ = random_batch(N_SCANS, 6, seed=1)
    codes = torch.arange(N_SCANS) % 6
    loss = losses.ConditionalAlignment(Categorical("family"))
    expected = loss(z1, z2, {"family": codes})
    hold(3)
    torch.testing.assert_close(loss(z1.float(), z2.float(), {"family": codes + 2**24}), expected.float())


def test_a_missing_value_is_refused_with_its_rows_in_the_batch(batch, hold):
    z1, z2, metadata = batch
    hold(3)
    rows = metadata["some"].isnan().nonzero()[:, 0].tolist()
    with pytest.raises(DataError, match=f"'some' is missing for {len(rows)} rows: {', '.join(map(str, rows))}"):
        losses.YAwareInfoNCE(Gaussian("some", sigma=5.0))(z1, z2, metadata)


def test_weights_already_bound_are_taken_as_they_are(batch, hold, grouped):
    z1, z2, metadata = batch
    kernel = Gaussian("age", sigma=5.0)
    hold(3)
    rows = losses.objective.normalise(z1, z2)
    pool = core.Pool(rows, rows, metadata)
    given = core.weighted_similarity(pool, 10.0, core.similar_to(pool, kernel))
    torch.testing.assert_close(core.weighted_similarity(pool, 10.0, kernel), given, rtol=1e-12, atol=1e-12)
    assert grouped == [False, True]
