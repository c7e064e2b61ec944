"""CCL-K beyond its formula: the clamp, small temperatures, blocks of rows, what it reads."""

import math

import pytest
import torch

from neurocontrast import losses
from neurocontrast.exceptions import DataError
from neurocontrast.kernels import Categorical, Cosine, Gaussian
from tests.losses import naive
from tests.losses.specimens import random_batch

KINDS = [losses.WeaklySupervisedCCLK, losses.FairCCLK]


@pytest.fixture
def clamped_batch():
    """Three ages in a row and a sharp operator: W_12 < 0 meets a large K_12, so that M_1 < 0."""
    z1 = torch.tensor(
        [[1.0, 0.0], [0.6, 0.8], [-1.0, 0.1]], dtype=torch.float64, requires_grad=True
    )
    z2 = torch.tensor(
        [[-1.0, 0.2], [0.0, 1.0], [1.0, 0.1]], dtype=torch.float64, requires_grad=True
    )
    return z1, z2, {"age": torch.tensor([20.0, 22.0, 24.0])}


@pytest.mark.parametrize("kind", KINDS)
def test_clamp_is_the_formula(clamped_batch, kind):
    z1, z2, metadata = clamped_batch
    loss = kind(Gaussian("age", sigma=3.0), temperature=0.1, ridge=0.01)
    reference = (
        naive.weakly_supervised_cclk if kind is losses.WeaklySupervisedCCLK else naive.fair_cclk
    )
    expected = reference(z1, z2, naive.gaussian(metadata["age"], 3.0), 0.1, 0.01)
    value = loss(z1, z2, metadata)
    torch.testing.assert_close(value, expected, rtol=1e-10, atol=1e-10)
    for got, wanted in zip(
        torch.autograd.grad(value, (z1, z2)), torch.autograd.grad(expected, (z1, z2)), strict=True
    ):
        torch.testing.assert_close(got, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_clamped_anchors_stay_finite_in_any_precision(clamped_batch, kind, dtype):
    z1, z2, metadata = clamped_batch
    z1, z2 = (z.detach().to(dtype).requires_grad_() for z in (z1, z2))
    value = kind(Gaussian("age", sigma=3.0), temperature=0.01, ridge=0.01)(z1, z2, metadata)
    assert torch.isfinite(value)
    assert all(torch.isfinite(gradient).all() for gradient in torch.autograd.grad(value, (z1, z2)))


def test_a_condition_far_from_its_anchor_keeps_its_gradient():
    """At τ = 0.01 the own class lies e^-150 below the nearest candidate: still pulled, in single precision."""
    z1 = torch.tensor([[1.0, 0.0], [0.0, 1.0]], requires_grad=True)
    z2 = torch.tensor([[-0.5, 0.75**0.5], [1.0, 0.0]])
    loss = losses.WeaklySupervisedCCLK(Categorical("site"), temperature=0.01, ridge=1e-3)
    value = loss(z1, z2, {"site": torch.tensor([0, 1])})
    (gradient,) = torch.autograd.grad(value, z1)
    assert value.item() == pytest.approx((150 + 100 * 0.75**0.5) / 2, abs=0.01)
    assert gradient[0].norm() > 10


def test_hard_negatives_read_no_metadata_and_hold_the_condition_still():
    z1, z2, _ = random_batch(6, 4, seed=1)
    loss = losses.HardNegativeCCLK(Cosine("embedding"), temperature=0.2, ridge=0.05)
    assert loss.columns == {}
    assert loss.kernel is None
    fixed = {"embedding": torch.nn.functional.normalize(z1.detach(), dim=1)}
    fair = losses.FairCCLK(Cosine("embedding"), temperature=0.2, ridge=0.05)
    ours, reference = (
        torch.autograd.grad(value, z1)[0] for value in (loss(z1, z2), fair(z1, z2, fixed))
    )
    torch.testing.assert_close(ours, reference, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("symmetric", [False, True])
def test_the_condition_may_be_the_features_of_each_view(symmetric):
    z1, z2, _ = random_batch(6, 4, seed=1)
    h1, h2 = (20 * z[:, :3].detach() for z in (z2, z1))
    loss = losses.HardNegativeCCLK(
        Gaussian("embedding", sigma=9.0),
        on="features",
        temperature=0.2,
        ridge=0.05,
        symmetric=symmetric,
    )
    assert (loss.columns, loss.reads_features) == ({}, True)
    value = loss(z1, z2, {"features": torch.cat([h1, h2], 1)})
    expected = naive.fair_cclk(z1, z2, naive.gaussian(h1, 9.0), 0.2, 0.05)
    if symmetric:
        expected = (expected + naive.fair_cclk(z2, z1, naive.gaussian(h2, 9.0), 0.2, 0.05)) / 2
    torch.testing.assert_close(value, expected, rtol=1e-10, atol=1e-10)
    with pytest.raises(DataError, match="no column 'features'"):
        loss(z1, z2)


def test_training_is_told_how_many_anchors_are_clamped(clamped_batch):
    loss = losses.WeaklySupervisedCCLK(Gaussian("age", sigma=3.0), temperature=0.1, ridge=0.01)
    z1, z2, metadata = clamped_batch
    operator = naive.conditional_embedding(naive.gaussian(metadata["age"], 3.0), 3, 0.01)
    scores = (
        torch.nn.functional.normalize(z1, dim=1) @ torch.nn.functional.normalize(z2, dim=1).T / 0.1
    )
    means = (scores.exp() @ operator).diagonal()
    assert (means <= 0).tolist() == [True, False, True]
    assert loss.figures(*clamped_batch)["clamped"].item() == pytest.approx(2 / 3)
    (gradient,) = torch.autograd.grad(loss(z1, z2, metadata, reduction="none")[0, 0], z2)
    assert gradient[1:].abs().max() > 0.1  # the clamped anchor still repels the others
    others = losses.WeaklySupervisedCCLK(
        Gaussian("age", sigma=3.0), temperature=0.1, ridge=0.01, own=False
    )
    assert others.figures(*clamped_batch)["clamped"].item() == 0
    both = losses.SumOfObjectives({"a": loss, "b": losses.NTXent()}, weights={"a": 0.5})
    figures = both.figures(*clamped_batch)
    assert figures["a/clamped"].item() == pytest.approx(2 / 3)
    assert {"b/bound", "term_b/alignment"} < set(figures)
    terms = [value for name, value in figures.items() if name.startswith("term_")]
    torch.testing.assert_close(sum(terms), both(*clamped_batch), rtol=1e-12, atol=1e-12)


def test_state_holds_each_bandwidth_once():
    assert list(losses.FairCCLK(Gaussian("age", sigma=5.0)).state_dict()) == ["kernel.sigma"]


def test_missing_condition_costs_no_sample():
    z1, z2, metadata = random_batch(8, 5, seed=4)
    metadata["age"][:3] = math.nan
    loss = losses.WeaklySupervisedCCLK(Gaussian("age", sigma=5.0, missing="marginal"))
    value = loss(z1, z2, metadata)
    (gradient,) = torch.autograd.grad(value, z1)
    assert torch.isfinite(value)
    assert (gradient.norm(dim=1) > 0).all()
