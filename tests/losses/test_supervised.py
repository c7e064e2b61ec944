"""Losses of a label: what a label without others means, what is counted, what is refused."""

from __future__ import annotations

import pytest
import torch

from neurocontrast import losses
from neurocontrast.exceptions import ConfigError, DataError

PATHS = pytest.mark.parametrize("tile", [None, 3])


@PATHS
def test_without_another_label_nothing_is_left_to_learn(hold, random_batch, tile):
    hold(tile)
    z1, z2, _ = random_batch(5, 4)
    same = {"label": torch.zeros(5, dtype=torch.int64)}
    sincere = losses.SINCERE("label")(z1, z2, same)
    assert sincere.item() == 0
    assert not torch.autograd.grad(sincere, z1)[0].any()
    assert losses.EpsilonSupInfoNCE("label", epsilon=0.25)(z1, z2, same).item() == pytest.approx(-0.25)


def test_margin_is_a_part_of_its_own(random_batch):
    z1, z2, metadata = random_batch(6, 4)
    terms = losses.EpsilonSupInfoNCE("label", epsilon=0.4).terms(z1, z2, metadata)
    assert terms["margin"].item() == pytest.approx(-0.4)
    assert list(losses.SINCERE("label").terms(z1, z2, metadata)) == ["contrast"]


def test_columns_and_refusals(random_batch):
    z1, z2, metadata = random_batch(4, 3)
    assert losses.SINCERE("label").columns == {"label": "categorical"}
    metadata["label"][2] = -1
    for loss in (losses.SupCon("label"), losses.SINCERE("label"), losses.EpsilonSupInfoNCE("label")):
        with pytest.raises(DataError, match=r"'label' is missing for 1 row: 2"):
            loss(z1, z2, metadata)
    with pytest.raises(ConfigError, match="epsilon must be greater than or equal to 0"):
        losses.EpsilonSupInfoNCE("label", epsilon=-1)
