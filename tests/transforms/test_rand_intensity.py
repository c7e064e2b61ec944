from __future__ import annotations

import numpy as np
import pytest
import torch

from neurocontrast.transforms.rand_intensity import BrainContrast, BrainHistogram


@pytest.fixture
def volume():
    return torch.rand(1, 15, 18, 16, generator=torch.Generator().manual_seed(1))


def array(x: torch.Tensor) -> np.ndarray:
    return x[0].numpy().astype(np.float64)


@pytest.mark.parametrize("gamma", [0.5, 1.0, 1.7])
def test_gamma_is_a_power_of_the_signal(volume, gamma):
    np.testing.assert_allclose(array(BrainContrast().change(volume, gamma=gamma)), array(volume) ** gamma, atol=1e-6)


def test_gamma_takes_what_lies_below_0_for_0():
    assert BrainContrast().change(torch.tensor([-1e-7, 0.0, 2.0]), gamma=0.5).tolist() == [
        0.0,
        0.0,
        pytest.approx(2**0.5),
    ]


@pytest.mark.parametrize("slopes", [(1.0, 1.0), (0.5, 2.0, 1.0), (1.0, 3.0, 0.2, 0.7, 1.1)])
def test_histogram_is_numpys_interpolation(volume, slopes):
    knots, values = np.linspace(0, 1, len(slopes) + 1), np.cumsum([0.0, *slopes]) / np.sum(slopes)
    mapped = array(BrainHistogram().change(volume, slopes=slopes))
    np.testing.assert_allclose(mapped, np.interp(array(volume), knots, values), atol=1e-6)
    assert BrainHistogram().change(torch.zeros(1), slopes=slopes).item() == 0.0


def test_histogram_goes_on_beyond_one():
    beyond = BrainHistogram().change(torch.tensor([1.0, 1.5]), slopes=(1.0, 3.0))
    assert beyond.tolist() == pytest.approx([1.0, 1.0 + 0.5 * 3.0 / 2.0])
