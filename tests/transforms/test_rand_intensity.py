from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.polynomial.legendre import leggrid3d
from scipy import stats

from neurocontrast.transforms.rand_intensity import BrainBiasField, BrainContrast, BrainRician, Noise


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


def test_bias_field_is_numpys_legendre_polynomial(volume):
    coefficients = 0.2 * np.random.default_rng(0).standard_normal((4, 4, 4))
    places = [(2 * np.arange(side) + 1) / side - 1 for side in volume.shape[1:]]
    expected = array(volume) * np.exp(leggrid3d(*places, coefficients))
    np.testing.assert_allclose(array(BrainBiasField().change(volume, coefficients=coefficients)), expected, rtol=2e-5)


def test_noise_is_gaussian_and_of_the_asked_size():
    volume = torch.full((1, 40, 40, 40), 2.0)
    noisy = Noise().change(volume, sigma=0.3, seed=0)
    values = (noisy - volume).numpy().ravel() / 0.3
    assert values.mean() == pytest.approx(0.0, abs=0.02)
    assert values.std() == pytest.approx(1.0, abs=0.01)
    assert (values**4).mean() == pytest.approx(3.0, abs=0.15)


@pytest.mark.parametrize("signal", [0.0, 0.1, 1.0])
def test_noise_is_scipys_rice_distribution(signal):
    volume = torch.full((1, 30, 30, 30), signal)
    noisy = BrainRician().change(volume, sigma=0.05, seed=0)
    assert stats.kstest(noisy.numpy().ravel(), stats.rice(b=signal / 0.05, scale=0.05).cdf).pvalue > 0.01
    assert (volume == signal).all()
