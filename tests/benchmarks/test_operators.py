"""``benchmarks/operators.py``: what a loss starts beside the expression one would write."""

import pytest
import torch

from benchmarks import operators

NAMES = (
    "InfoNCE", "NTXent", "YAwareInfoNCE", "ExponentialYAware", "ConditionalAlignmentUniformity", "… on age × sex",
    "ConditionalAlignment", "ConditionalUniformity", "GlobalUniformity", "AlignmentUniformity", "SupCon", "SINCERE",
    "EpsilonSupInfoNCE", "DebiasedInfoNCE", "HardNegativeInfoNCE", "FairInfoNCE", "Triplet", "RankNContrast",
    "WeaklySupervisedCCLK", "FairCCLK", "HardNegativeCCLK", "Supervised",
)  # fmt: skip


def test_every_loss_is_counted():
    from neurocontrast.losses.registry import LOSSES

    assert tuple(operators.LOSSES) == NAMES
    classes = {path.partition(":")[2] for path in LOSSES.values()} - {"SumOfObjectives"}
    assert classes == set(NAMES) - {"… on age × sex"}


@pytest.mark.parametrize("name", NAMES)
def test_a_loss_starts_at_most_half_as_many_again_as_the_expression(name):
    views, metadata = operators.batch_of(64)
    pair = operators.LOSSES[name]
    values = [loss(*views, metadata) for loss in pair]
    torch.testing.assert_close(*values, rtol=1e-5, atol=1e-5)
    of_loss, of_expression = (
        operators.operators_of(loss, views, metadata).total() for loss in pair
    )
    assert of_loss <= operators.MOST * of_expression


def test_the_count_is_that_of_the_operators():
    z = torch.ones(2, 3, requires_grad=True)
    started = operators.operators_of(lambda a, b, _: (a * b).sum(), [z, z], {})
    assert started["mul.Tensor"] == 3  # the product, and its two gradients
    assert started["sum"] == 1
