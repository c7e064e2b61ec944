from __future__ import annotations

import pytest
import torch
from scipy import stats

from neurocontrast.transforms.rand_noise import BrainRician, Noise


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
