from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from neurocontrast.transforms.rand_ghosting import ghost


@pytest.fixture
def volume():
    return torch.rand(1, 15, 18, 16, generator=torch.Generator().manual_seed(1))


def array(x: torch.Tensor) -> np.ndarray:
    return x[0].numpy().astype(np.float64)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("phase", [0.0, 1.1, math.pi])
def test_ghosts_are_lines_of_k_space_that_rise_and_fall(volume, axis, phase):
    side = volume.shape[axis + 1]
    shift = 5
    weights = 1 + 2 * 0.07 * np.cos(2 * np.pi * np.arange(side) * shift / side + phase)
    shape = [side if other == axis else 1 for other in range(3)]
    expected = np.abs(np.fft.ifft(np.fft.fft(array(volume), axis=axis) * weights.reshape(shape), axis=axis))
    ghosted = ghost(volume, axis=axis, shift=shift, intensity=0.07, phase=phase)
    np.testing.assert_allclose(array(ghosted), expected, atol=1e-6)
