"""Rank-N-Contrast beyond its formula: what it orders, and what it refuses."""

from __future__ import annotations

import pytest
import torch

from neurocontrast import losses
from neurocontrast.exceptions import DataError


def test_only_the_order_of_the_distances_counts(random_batch):
    z1, z2, _ = random_batch(4, 5)
    ages = torch.tensor([0.0, 1.0, 3.0, 7.0])
    loss = losses.RankNContrast("age")
    assert torch.equal(loss(z1, z2, {"age": ages}), loss(z1, z2, {"age": 100 - 3 * ages}))
    assert not torch.equal(loss(z1, z2, {"age": ages}), loss(z1, z2, {"age": ages.flip(0)}))


def test_embeddings_in_the_order_of_age_have_the_lower_loss():
    angle = torch.linspace(0, 1.5, 6)
    z = torch.stack([angle.cos(), angle.sin()], 1)
    loss = losses.RankNContrast("age", temperature=0.1)
    shuffled = torch.tensor([3, 0, 5, 1, 4, 2])
    assert loss(z, z, {"age": angle}) < loss(z, z, {"age": angle[shuffled]}) - 0.5


@pytest.mark.parametrize("wrong", [torch.nan, torch.inf])
def test_missing_values_are_refused_with_their_rows(random_batch, wrong):
    z1, z2, metadata = random_batch(4, 3)
    metadata["age"][2] = wrong
    with pytest.raises(DataError, match=r"'age' is missing or infinite for 1 row: 2\. Fill it in"):
        losses.RankNContrast("age")(z1, z2, metadata)
    with pytest.raises(DataError, match="for 1 row: sub-c"):
        losses.RankNContrast("age").check(metadata, names=["sub-a", "sub-b", "sub-c", "sub-d"])


def test_a_vector_is_refused(random_batch):
    z1, z2, metadata = random_batch(4, 3)
    with pytest.raises(DataError, match=r"metadata\['scores'\] must be one number a sample, \(n,\), got \(4, 2\)"):
        losses.RankNContrast("scores")(z1, z2, metadata)
