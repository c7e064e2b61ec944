"""InfoNCE across views and several views, and the terms of NT-Xent."""

from __future__ import annotations

import math

import pytest
import torch

from neurocontrast import losses


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("tile", [None, 4])
def test_several_views_are_averaged_over_their_pairs(hold, random_batch, symmetric, tile):
    hold(tile)
    a, b, _ = random_batch(7, 4, seed=0)
    c, d, _ = random_batch(7, 4, seed=1)
    loss = losses.InfoNCE(symmetric=symmetric)
    pairs = [(a, b), (a, c), (a, d), (b, c), (b, d), (c, d)]
    expected = sum(loss(x, y) for x, y in pairs) / 6
    torch.testing.assert_close(loss([a, b, c, d]), expected, rtol=1e-12, atol=1e-12)
    gradient = torch.autograd.grad(loss([a, b, c, d]), (b, c))
    for got, wanted in zip(gradient, torch.autograd.grad(expected, (b, c)), strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("temperature", [1.0, 0.05])
@pytest.mark.parametrize("symmetric", [True, False])
def test_raw_inner_products_are_those_of_the_embeddings_as_they_are(hold, random_batch, symmetric, temperature):
    z1, z2, _ = random_batch(7, 4)
    scores = z1 @ z2.T / temperature
    one_way = torch.nn.functional.cross_entropy
    expected = one_way(scores, torch.arange(7))
    expected = (expected + one_way(scores.T, torch.arange(7))) / 2 if symmetric else expected
    wanted = torch.autograd.grad(expected, (z1, z2), retain_graph=True)
    for tile in (None, 4):
        hold(tile)
        loss = losses.InfoNCE(temperature=temperature, symmetric=symmetric, normalise=False)(z1, z2)
        torch.testing.assert_close(loss, expected, rtol=1e-12, atol=1e-12)
        for got, each in zip(torch.autograd.grad(loss, (z1, z2)), wanted, strict=True):
            torch.testing.assert_close(got, each, rtol=1e-10, atol=1e-12)


def test_raw_inner_products_of_any_size_stay_finite():
    z = 100 * torch.eye(3)
    assert losses.InfoNCE(temperature=0.1, normalise=False)(z, z).item() == 0
    assert losses.InfoNCE(temperature=0.1, normalise=False)(z, -z).item() == pytest.approx(1e5 + math.log(2))
