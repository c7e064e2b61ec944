"""Conditional uniformity at its edges: no dissimilar scan, rounding, an unbounded kernel."""

from __future__ import annotations

import pytest
import torch

from neurocontrast import losses
from neurocontrast.kernels import Categorical, Gaussian, Linear

PATHS = pytest.mark.parametrize("tile", [None, 3])


@PATHS
def test_no_dissimilar_scan_is_zero_without_gradient(hold, random_batch, tile):
    hold(tile)
    z1, z2, _ = random_batch(5, 4)
    loss = losses.ConditionalUniformity(Categorical("sex"))
    value = loss(z1, z2, {"sex": torch.ones(5, dtype=torch.int64)})
    value.backward()
    assert value.item() == 0
    assert not z1.grad.any()


@PATHS
def test_an_anchor_without_a_dissimilar_scan_is_left_out(hold, random_batch, tile):
    """Two weights of a sum that do not add up exactly in float32 must not make a dissimilar scan of an equal one."""
    hold(tile)
    z1, z2, _ = random_batch(6, 4)
    kernel = 0.1 * Categorical("sex") + 0.2 * Gaussian("age", sigma=5.0) + 0.7 * Gaussian("age", sigma=3.0)
    same = {"sex": torch.zeros(6, dtype=torch.int64), "age": torch.full((6,), 33.3)}
    assert losses.ConditionalUniformity(kernel)(z1.float(), z2.float(), same) == 0


@PATHS
def test_unbounded_kernel_takes_the_maximum_of_the_batch(hold, random_batch, naive, tile):
    hold(tile)
    z1, z2, _ = random_batch(6, 4)
    y = torch.linspace(0.5, 2.0, 6, dtype=torch.float64)
    expected = naive.conditional_uniformity(z1, z2, naive.linear(y), 4.0, 0.1)
    value = losses.ConditionalUniformity(Linear("y"), temperature=0.1)(z1, z2, {"y": y})
    torch.testing.assert_close(value, expected, rtol=1e-10, atol=1e-10)


def test_weight_of_uniformity(random_batch):
    z1, z2, metadata = random_batch(6, 4)
    kernel = Gaussian("age", sigma=5.0)
    terms = losses.ConditionalAlignmentUniformity(kernel, uniformity_weight=0.3).terms(z1, z2, metadata)
    assert list(terms) == ["alignment", "uniformity"]
    torch.testing.assert_close(terms["alignment"], losses.ConditionalAlignment(kernel)(z1, z2, metadata))
    torch.testing.assert_close(terms["uniformity"], 0.3 * losses.ConditionalUniformity(kernel)(z1, z2, metadata))


def test_equal_scans_do_not_repel(random_batch):
    """The point of the loss: no gradient between scans of the same metadata but attraction."""
    z1, z2, _ = random_batch(2, 3)
    loss = losses.ConditionalUniformity(Categorical("sex"))
    loss(z1, z2, {"sex": torch.tensor([0, 0])}).backward()
    assert not z1.grad.any()
