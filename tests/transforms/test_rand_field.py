from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.polynomial.legendre import leggrid3d

from neurocontrast.transforms.rand_field import BrainBiasField


@pytest.fixture
def volume():
    return torch.rand(1, 15, 18, 16, generator=torch.Generator().manual_seed(1))


def array(x: torch.Tensor) -> np.ndarray:
    return x[0].numpy().astype(np.float64)


def test_bias_field_is_numpys_legendre_polynomial(volume):
    coefficients = 0.2 * np.random.default_rng(0).standard_normal((4, 4, 4))
    places = [(2 * np.arange(side) + 1) / side - 1 for side in volume.shape[1:]]
    expected = array(volume) * np.exp(leggrid3d(*places, coefficients))
    np.testing.assert_allclose(array(BrainBiasField().change(volume, coefficients=coefficients)), expected, rtol=2e-5)
