"""Values at which a constant of the code would show: little apart, far below 0, of small weight."""

import math

import pytest
import torch

from neurocontrast import losses
from neurocontrast.kernels import Categorical, Gaussian
from neurocontrast.losses.core import distances
from neurocontrast.losses.reductions import softplus_of
from tests.losses import naive
from tests.losses.specimens import SPECIMENS, random_batch

BY_NAME = {specimen.name: specimen for specimen in SPECIMENS}
EXACT = torch.float64


@pytest.mark.parametrize("dtype", [torch.float32, EXACT])
def test_softplus_has_all_digits(dtype):
    x = torch.linspace(-30, 45, 151, dtype=dtype)
    expected = [max(value, 0) + math.log1p(math.exp(-abs(value))) for value in x.tolist()]
    digits = 1e-6 if dtype == torch.float32 else 1e-14
    torch.testing.assert_close(
        softplus_of(x), torch.tensor(expected, dtype=dtype), rtol=digits, atol=0
    )


def test_small_distances_in_float32_are_distances():
    """cos of 0.01 radians: what float32 tells apart from 0 is not 0."""
    angle = torch.tensor([0.02, 0.05, 0.5])
    torch.testing.assert_close(distances(angle.cos()), 2 * (angle / 2).sin(), rtol=2e-3, atol=0)


def test_sums_far_below_zero_are_sums():
    """At τ = 0.001 opposite scans have s = −1000: the logarithm of their sum is no empty one."""
    z = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])
    loss = losses.ConditionalUniformity(Categorical("sex"), temperature=1e-3)
    assert loss(z, z, {"sex": torch.tensor([0, 1])}).item() == pytest.approx(-1000.0)
    fair = losses.FairInfoNCE("site", temperature=1e-3)
    assert fair(z, z, {"site": torch.tensor([0, 0])}).item() == pytest.approx(0.0, abs=1e-6)
    assert fair(z, -z, {"site": torch.tensor([0, 0])}).item() == pytest.approx(2000.0)


@pytest.mark.parametrize("name", ["conditional-uniformity", "global-uniformity"])
def test_the_scale_of_weights_of_samples_does_not_matter(name):
    z1, z2, metadata = random_batch(8, 6, seed=1)
    loss = BY_NAME[name].build()
    weights = torch.linspace(0.1, 2, 8, dtype=EXACT)
    expected = loss(z1, z2, metadata, weights=weights)
    torch.testing.assert_close(loss(z1, z2, metadata, weights=1e-6 * weights), expected)


@pytest.mark.parametrize(
    "name",
    [
        "conditional-uniformity", "conditional-alignment", "rank-n-contrast", "yaware",
        "cclk-weak-others",
    ],
)  # fmt: skip
def test_ages_that_hardly_differ_are_told_apart(name):
    """Days apart at sixty: masses of unlike scans are tiny, and half precision has one number for all ages."""
    z1, z2, metadata = random_batch(7, 6, seed=2)
    metadata["age"] = 60 + 0.003 * torch.arange(7, dtype=EXACT)[[3, 0, 5, 1, 6, 2, 4]]
    specimen = BY_NAME[name]
    expected = torch.as_tensor(specimen.reference(naive.Batch([z1, z2]), metadata), dtype=EXACT)
    # The unlikeness of such ages is a difference of numbers near 1.
    torch.testing.assert_close(specimen.build()(z1, z2, metadata), expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("temperature", [0.02, 0.05])
def test_small_conditional_means_are_not_clamped(own, temperature):
    """With s down to −1/τ, M_i falls to e⁻⁵⁰, which float64 and float32 hold."""
    z1, z2, metadata = random_batch(7, 3, seed=5)
    loss = losses.WeaklySupervisedCCLK(
        Gaussian("age", sigma=5.0), temperature=temperature, ridge=0.1, own=own
    )
    kernel = naive.gaussian(metadata["age"], 5.0)
    expected = naive.weakly_supervised_cclk(z1, -z2, kernel, temperature, 0.1, own)
    found = loss(z1, -z2, metadata)
    torch.testing.assert_close(found, torch.as_tensor(expected, dtype=EXACT), rtol=1e-9, atol=1e-9)


def test_a_triplet_within_its_margin_does_not_count():
    """Fifty thousandths of a thousandth beyond the margin is beyond."""
    z = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]], dtype=EXACT)
    label = {"label": torch.tensor([0, 0, 1, 1])}
    apart = math.sqrt(2)
    assert losses.Triplet("label", margin=apart - 5e-5)(z, z, label) == 0
    inside = losses.Triplet("label", margin=apart + 5e-5)(z, z, label)
    assert inside.item() == pytest.approx(5e-5, rel=1e-6)


def test_the_column_of_a_prediction_is_standardised_in_full_precision():
    loss = losses.Supervised("volume")
    values = 1_500_000 + torch.arange(1000.0)
    loss.fit({"volume": values})
    assert loss.mean.item() == pytest.approx(values.double().mean().item(), rel=1e-7)
    assert loss.sd.item() == pytest.approx(values.double().std(correction=0).item(), rel=1e-6)


def test_differences_of_age_are_ranked_to_the_day():
    """30 years and 30 years and a fortnight: equal in half precision."""
    z1, z2, metadata = random_batch(7, 6, seed=2)
    metadata["age"] = torch.tensor([20.0, 50.0, 50.04, 80.1, 80.0, 35.0, 64.98], dtype=EXACT)
    specimen = BY_NAME["rank-n-contrast"]
    expected = specimen.reference(naive.Batch([z1, z2]), metadata)
    torch.testing.assert_close(specimen.build()(z1, z2, metadata), expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", ["InfoNCE", "NTXent"])
def test_a_loss_close_to_zero_keeps_its_digits(name):
    loss = getattr(losses, name)(temperature=0.05)
    value = loss(torch.eye(8), torch.eye(8))
    exact = loss(torch.eye(8).double(), torch.eye(8).double())
    assert 0 < float(exact) < 1e-7
    torch.testing.assert_close(value.double(), exact, rtol=1e-4, atol=0)
