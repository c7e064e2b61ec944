"""Losses that choose or correct their negatives."""

from __future__ import annotations

import math

import pytest
import torch

from neurocontrast import losses
from neurocontrast.exceptions import ConfigError, DataError

PATHS = pytest.mark.parametrize("tile", [None, 3])


@PATHS
def test_the_floor_of_the_correction(hold, tile):
    """Twins that agree leave no room for negatives: each counts e^(−1/τ), and pushes no further."""
    hold(tile)
    z = torch.eye(4, dtype=torch.float64).requires_grad_()
    loss = losses.DebiasedInfoNCE(temperature=0.1, positive_prior=0.1)
    value = loss(z, z)
    assert value.item() == pytest.approx(math.log1p(6 * math.exp(-10) / math.exp(10)))
    assert torch.autograd.grad(value, z)[0].abs().max() < 1e-6


@PATHS
def test_concentration_cares_for_hard_negatives(hold, random_batch, tile):
    hold(tile)
    z1, z2, _ = random_batch(7, 4)
    values = [losses.HardNegativeInfoNCE(concentration=beta)(z1, z2) for beta in (0.0, 0.5, 2.0)]
    assert values[0] < values[1] < values[2]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("positive_prior", {"positive_prior": 1.0}), ("positive_prior", {"positive_prior": -0.1})],
)
def test_refused(name, arguments):
    with pytest.raises(ConfigError, match=name):
        losses.DebiasedInfoNCE(**arguments)
    with pytest.raises(ConfigError, match="concentration"):
        losses.HardNegativeInfoNCE(concentration=-1.0)


def test_settings_that_nobody_gives_are_those_of_the_papers():
    given = {"temperature": 0.5, "positive_prior": 0.1}
    assert losses.DebiasedInfoNCE.Settings().model_dump().items() >= given.items()
    assert losses.HardNegativeInfoNCE.Settings().model_dump().items() >= {**given, "concentration": 1.0}.items()


@pytest.mark.parametrize("n", [3, 5])
def test_a_column_of_another_length_is_refused(random_batch, n):
    z1, z2, _ = random_batch(4, 3)
    with pytest.raises(DataError, match=rf"one row a sample, n = 4; got shape \({n},\)"):
        losses.FairInfoNCE("site")(z1, z2, {"site": torch.zeros(n, dtype=torch.long)})
