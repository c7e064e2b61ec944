"""The triplet loss beyond its formula: no triplets, ties, blocks of anchors."""

from __future__ import annotations

import pytest
import torch

from neurocontrast import losses
from neurocontrast.exceptions import ConfigError, DataError


@pytest.mark.parametrize("margin", [0.0, 0.2, 2.0])
def test_any_margin_equals_the_list_of_triplets(random_batch, naive, margin):
    z1, z2, metadata = random_batch(7, 4, seed=0)
    expected = naive.Batch([z1, z2]).at(1.0).triplet(naive.categorical(metadata["label"]), margin)
    value = losses.Triplet("label", margin=margin)(z1, z2, metadata)
    torch.testing.assert_close(value, expected, rtol=1e-10, atol=1e-10)
    for got, wanted in zip(torch.autograd.grad(value, (z1, z2)), torch.autograd.grad(expected, (z1, z2)), strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-10, atol=1e-10)


def test_one_label_has_no_triplet(random_batch):
    z1, z2, metadata = random_batch(5, 4, seed=2, n_labels=1)
    value = losses.Triplet("label")(z1, z2, metadata)
    assert value == 0
    assert all((gradient == 0).all() for gradient in torch.autograd.grad(value, (z1, z2)))


def test_satisfied_triplets_give_nothing():
    apart = torch.eye(2, requires_grad=True)
    value = losses.Triplet("label", margin=0.5)(apart, apart, {"label": torch.tensor([0, 1])})
    assert value == 0


def test_collapsed_embeddings_have_the_margin_as_loss():
    z = torch.ones(4, 3, requires_grad=True)
    value = losses.Triplet("label", margin=0.3)(z, z, {"label": torch.tensor([0, 0, 1, 1])})
    assert value.item() == pytest.approx(0.3)
    assert torch.isfinite(torch.autograd.grad(value, z)[0]).all()


def test_what_cannot_be_used_is_named(random_batch):
    z1, z2, _ = random_batch(4, 3)
    with pytest.raises(ConfigError, match="margin"):
        losses.Triplet("label", margin=-0.1)
    with pytest.raises(DataError, match="label"):
        losses.Triplet("label")(z1, z2, {"label": torch.tensor([0, 1, -1, 0])})
    assert losses.Triplet("label").columns == {"label": "categorical"}
