"""Positives across sites and negatives within one: the limits they have, and what is gained by telling sites apart."""

from __future__ import annotations

import pytest
import torch

from neurocontrast import losses
from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.kernels import Categorical, Different, Gaussian, Linear

AGE = Gaussian("age", sigma=10.0)
PATHS = pytest.mark.parametrize("tile", [None, 3])
TIGHT = {"rtol": 1e-12, "atol": 1e-12}


def _gradients(loss, z1, z2, metadata):
    return torch.autograd.grad(loss(z1, z2, metadata), (z1, z2))


@PATHS
@pytest.mark.parametrize("make", [losses.YAwareInfoNCE, losses.ConditionalAlignmentUniformity])
def test_negatives_that_all_are_negatives_change_nothing(hold, random_batch, make, tile):
    hold(tile)
    batch = random_batch(9, 5, seed=1)
    everyone = Different("cluster", within=1.0)
    expected, found = make(AGE), make(AGE, negatives=everyone)
    torch.testing.assert_close(found(*batch), expected(*batch), **TIGHT)
    torch.testing.assert_close(_gradients(found, *batch), _gradients(expected, *batch), **TIGHT)


@PATHS
def test_with_the_own_view_alone_as_positive_it_is_fair_infonce(hold, random_batch, tile):
    hold(tile)
    z1, z2, metadata = random_batch(9, 5, seed=2)
    metadata["alone"] = torch.arange(9)
    found = losses.YAwareInfoNCE(Categorical("alone"), negatives=Categorical("cluster"))
    expected = losses.FairInfoNCE("cluster")
    torch.testing.assert_close(found(z1, z2, metadata), expected(z1, z2, metadata), **TIGHT)
    torch.testing.assert_close(_gradients(found, z1, z2, metadata), _gradients(expected, z1, z2, metadata), **TIGHT)


@PATHS
def test_where_nobody_of_another_site_is_there_the_own_view_is_the_one_positive(hold, random_batch, tile):
    hold(tile)
    z1, z2, metadata = random_batch(7, 5, seed=3)
    metadata["site"] = torch.zeros(7, dtype=torch.int64)
    found = losses.YAwareInfoNCE(AGE * Different("site"))(z1, z2, metadata)
    torch.testing.assert_close(found, losses.NTXent()(z1, z2), **TIGHT)


@PATHS
def test_a_scan_whose_site_has_no_other_in_the_batch_is_pushed_by_nobody(hold, random_batch, tile):
    """In conditional uniformity it is left out, and with nobody left the loss is 0 without gradient."""
    hold(tile)
    z1, z2, metadata = random_batch(5, 4, seed=4)
    metadata["site"] = torch.tensor([0, 0, 1, 1, 2])
    loss = losses.ConditionalUniformity(AGE, negatives=Categorical("site"))
    gradient = _gradients(loss, z1, z2, metadata)[0]
    assert not gradient[4].any()
    assert gradient[:4].abs().amax(1).min() > 0
    metadata["site"] = torch.arange(5)
    value = loss(z1, z2, metadata)
    assert value == 0
    assert not torch.autograd.grad(value, z1)[0].any()


@PATHS
def test_an_anchor_without_any_candidate_counts_nothing(hold, tile):
    """A linear kernel may give a scan no weight at all, not even with itself."""
    hold(tile)
    z1, z2 = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    y = {"y": torch.tensor([0.0, 1.0, 2.0, 1.0], dtype=torch.float64)}
    loss = losses.YAwareInfoNCE(Linear("y"), negatives=Linear("y"))
    views = z1.requires_grad_(), z2
    value = loss(*views, y)
    assert value.isfinite()
    assert torch.autograd.grad(value, z1)[0][0].abs().max() == 0
    assert torch.autograd.gradcheck(lambda a: loss(a, z2, y), (z1,))


@pytest.mark.parametrize(
    ("loss", "gains"),
    [
        (losses.NTXent(), True),
        (losses.GlobalUniformity(), True),
        (losses.YAwareInfoNCE(AGE * Different("site"), negatives=Categorical("site")), False),
        (losses.ConditionalAlignmentUniformity(AGE * Different("site"), negatives=Categorical("site")), False),
    ],
    ids=["ntxent", "uniformity", "yaware-across", "conditional-across"],
)
def test_what_telling_sites_apart_is_worth(loss, gains):
    """Scans that are crowded, as those of brains are at first: is the loss lower with a mark of the site on each?"""
    generator = torch.Generator().manual_seed(0)
    z = 2 + torch.randn(40, 16, generator=generator, dtype=torch.float64)
    z1, z2 = (z + 0.3 * torch.randn(40, 16, generator=generator, dtype=torch.float64) for _ in range(2))
    site = torch.arange(40) % 2
    metadata = {"site": site, "age": 20 + 60 * torch.rand(40, generator=generator, dtype=torch.float64)}
    mark = torch.zeros(40, 16, dtype=torch.float64)
    mark[:, 0] = 2.0 * (2 * site - 1)
    z1[:, 0], z2[:, 0] = 0, 0
    marked = loss(z1 + mark, z2 + mark, metadata)
    assert (marked < loss(z1, z2, metadata)) == gains


def test_columns_of_both_kernels_are_read_checked_and_fitted():
    loss = losses.YAwareInfoNCE(AGE, negatives=Gaussian("score", sigma="scott") * Categorical("site"))
    assert loss.columns == {"age": "continuous", "score": "continuous", "site": "categorical"}
    metadata = {"age": torch.arange(4.0), "score": torch.arange(4.0), "site": torch.tensor([0, 0, 1, -1])}
    with pytest.raises(DataError, match="'site' is missing for 1 row: sub-3"):
        loss.check(metadata, names=[f"sub-{i}" for i in range(4)])
    metadata["site"][3] = 1
    loss.fit(metadata)
    assert loss(torch.eye(4), torch.eye(4), metadata).isfinite()


def test_what_cannot_be_used_is_named():
    with pytest.raises(ConfigError, match="negatives must be a kernel on metadata"):
        losses.YAwareInfoNCE(AGE, negatives="site")
    with pytest.raises(ConfigError, match="'age' is read both as"):
        losses.ConditionalUniformity(AGE, negatives=Categorical("age"))
    with pytest.raises(DataError, match="needs weights of at least 0"):
        losses.YAwareInfoNCE(AGE, negatives=Linear("age")).check({"age": torch.tensor([-1.0, 1.0])})
