"""On a GPU a loss and its gradients are those of the processor, and a missing value gives NaN instead of waiting."""

import pytest
import torch

from neurocontrast import kernels, losses
from tests.losses.specimens import random_batch

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def _value_and_gradients(loss, z1, z2, metadata, device):
    z1, z2 = (view.to(device).requires_grad_() for view in (z1, z2))
    value = loss.to(device)(z1, z2, {name: column.to(device) for name, column in metadata.items()})
    gradients = torch.autograd.grad(value, (z1, z2), allow_unused=True)
    return [each.detach().cpu() for each in (value, *gradients) if each is not None]


def test_values_and_gradients_are_the_processor_s(specimen):
    z1, z2, metadata = random_batch(48, 8, seed=3)
    found = _value_and_gradients(specimen.build(), z1, z2, metadata, "cuda")
    expected = _value_and_gradients(specimen.build(), z1, z2, metadata, "cpu")
    assert len(found) == len(expected)
    for here, there in zip(found, expected, strict=True):
        torch.testing.assert_close(here, there, rtol=1e-9, atol=1e-12)


def test_blocks_of_a_large_batch_are_the_whole(specimen, hold):
    z1, z2, metadata = random_batch(48, 8, seed=4)
    hold(None)
    whole = _value_and_gradients(specimen.build(), z1, z2, metadata, "cuda")
    hold(8)
    for here, there in zip(
        _value_and_gradients(specimen.build(), z1, z2, metadata, "cuda"), whole, strict=True
    ):
        torch.testing.assert_close(here, there, rtol=1e-9, atol=1e-12)


def test_a_missing_age_makes_the_loss_nan():
    z = torch.randn(6, 4, device="cuda")
    age = torch.tensor([20.0, 30.0, float("nan"), 40.0, 50.0, 60.0], device="cuda")
    assert torch.isnan(losses.YAwareInfoNCE(kernels.Gaussian("age", sigma=5.0))(z, z, {"age": age}))
