"""Conditional alignment and uniformity at their edges: rounding, anchors without weight, rare metadata."""

from __future__ import annotations

import pytest
import torch

from neurocontrast import losses
from neurocontrast.kernels import Categorical, Gaussian, Linear

PATHS = pytest.mark.parametrize("tile", [None, 3])


@PATHS
def test_an_anchor_without_a_dissimilar_scan_is_left_out(hold, random_batch, tile):
    """Two weights of a sum that do not add up exactly in float32 must not make a dissimilar scan of an equal one."""
    hold(tile)
    z1, z2, _ = random_batch(6, 4)
    kernel = 0.1 * Categorical("sex") + 0.2 * Gaussian("age", sigma=5.0) + 0.7 * Gaussian("age", sigma=3.0)
    same = {"sex": torch.zeros(6, dtype=torch.int64), "age": torch.full((6,), 33.3)}
    assert losses.ConditionalUniformity(kernel)(z1.float(), z2.float(), same) == 0


@pytest.mark.parametrize("tile", [None, 3])
def test_an_anchor_without_weight_is_only_pushed(hold, random_batch, tile):
    hold(tile)
    z1, z2, _ = random_batch(5, 4)
    y = torch.tensor([0.0, 1.0, 2.0, 0.0, 3.0])
    value = losses.ConditionalAlignment(Linear("y"))(z1, z2, {"y": y})
    gradient = torch.autograd.grad(value, z1)[0]
    assert value.isfinite()
    assert not gradient[[0, 3]].any()


def test_rare_metadata_count_as_much_as_any(random_batch):
    """Rows are normalised: an isolated scan is pulled to its twin with all of its weight."""
    z1, z2, _ = random_batch(6, 4)
    age = torch.tensor([30.0, 30.0, 30.0, 30.0, 30.0, 90.0])
    terms = losses.ConditionalAlignment(Gaussian("age", sigma=1.0), temperature=1.0)
    gradient = torch.autograd.grad(terms(z1, z2, {"age": age}), z1)[0]
    alone = -torch.nn.functional.cosine_similarity(z1[5:], z2[5:]).sum() * 2 / 12
    torch.testing.assert_close(gradient[5:], torch.autograd.grad(alone, z1)[0][5:])
