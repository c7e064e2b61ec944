"""y-Aware InfoNCE: its decomposition, its limits, its state."""

from __future__ import annotations

import math

import pytest
import torch

from neurocontrast import losses
from neurocontrast.kernels import Categorical, Gaussian, Linear


@pytest.mark.parametrize("tile", [None, 3])
def test_terms_are_the_decomposition(hold, random_batch, tile):
    hold(tile)
    z1, z2, metadata = random_batch(7, 4)
    kernel = Gaussian("age", sigma=5.0)
    terms = losses.YAwareInfoNCE(kernel).terms(z1, z2, metadata)
    torch.testing.assert_close(terms["alignment"], losses.ConditionalAlignment(kernel)(z1, z2, metadata))
    torch.testing.assert_close(terms["uniformity"], losses.GlobalUniformity()(z1, z2))
    assert terms["log_candidates"].item() == pytest.approx(math.log(13))


@pytest.mark.parametrize("tile", [None, 3])
def test_narrow_kernel_is_ntxent_and_category_is_supcon(hold, random_batch, tile):
    hold(tile)
    z1, z2, metadata = random_batch(7, 4)
    narrow = losses.YAwareInfoNCE(Gaussian("age", sigma=1e-6))
    torch.testing.assert_close(narrow(z1, z2, metadata), losses.NTXent()(z1, z2))
    category = losses.YAwareInfoNCE(Categorical("label"))
    torch.testing.assert_close(category(z1, z2, metadata), losses.SupCon("label")(z1, z2, metadata))


@pytest.mark.parametrize("tile", [None, 3])
def test_an_anchor_without_weight_is_only_pushed(hold, random_batch, tile):
    hold(tile)
    z1, z2, _ = random_batch(5, 4)
    y = torch.tensor([0.0, 1.0, 2.0, 0.0, 3.0])
    value = losses.ConditionalAlignment(Linear("y"))(z1, z2, {"y": y})
    gradient = torch.autograd.grad(value, z1)[0]
    assert value.isfinite()
    assert not gradient[[0, 3]].any()


def test_bandwidth_travels_with_the_loss(random_batch):
    z1, z2, metadata = random_batch(6, 4)
    loss = losses.YAwareInfoNCE(Gaussian("age", sigma="scott"))
    loss.kernel.fit(metadata)
    other = losses.YAwareInfoNCE(Gaussian("age", sigma="scott"))
    other.load_state_dict(loss.state_dict())
    assert torch.equal(other(z1, z2, metadata), loss(z1, z2, metadata))


def test_rare_metadata_count_as_much_as_any(random_batch):
    """Rows are normalised: an isolated scan is pulled to its twin with all of its weight."""
    z1, z2, _ = random_batch(6, 4)
    age = torch.tensor([30.0, 30.0, 30.0, 30.0, 30.0, 90.0])
    terms = losses.ConditionalAlignment(Gaussian("age", sigma=1.0), temperature=1.0)
    gradient = torch.autograd.grad(terms(z1, z2, {"age": age}), z1)[0]
    alone = -torch.nn.functional.cosine_similarity(z1[5:], z2[5:]).sum() * 2 / 12
    torch.testing.assert_close(gradient[5:], torch.autograd.grad(alone, z1)[0][5:])
