"""What is measured while a network trains: alignment, uniformity and rank, and a collapse, told once when it begins."""

import itertools
import math

import pytest
import torch
from tiny import Contrast, data, run
from torch import nn

from neurocontrast.training import alignment, effective_rank, uniformity
from neurocontrast.training.batchnorm import batch_statistics
from neurocontrast.training.validation import collapse_of, collapse_warning
from tests.commands.small_run import Listening

HEALTHY = {
    "epoch": 1,
    "val_uniformity": -2.5,
    "val_effective_rank": 20.0,
    "val_features_effective_rank": 9.0,
}
POINT = HEALTHY | {"epoch": 2, "val_uniformity": -0.003}


class AlignmentAlone(Contrast):
    """Nothing repels, so one point for all is the minimum."""

    def terms(self, z1, z2, metadata=None):
        return {"alignment": -torch.nn.functional.cosine_similarity(z1, z2).mean()}


@pytest.mark.parametrize(
    "validation_rows", [range(10, 14), ()], ids=["validation", "training scans alone"]
)
def test_planted_collapse_is_told_once(tmp_path, validation_rows):
    heard = Listening()
    given = data(validation_rows=list(validation_rows))
    _, result = run(
        tmp_path,
        objective=AlignmentAlone(),
        epochs=24,
        learning_rate=0.05,
        step_epochs=60,
        progress=heard,
        given=given,
    )
    side = "val" if len(validation_rows) else "train"
    collapsed = [row["epoch"] for row in result.metrics if row[f"{side}_uniformity"] > -0.02]
    assert len(collapsed) > 1
    assert len(heard.warned) >= 1
    first = heard.warned[0]
    assert first.startswith(
        f"epoch {collapsed[0]}: the representation has collapsed: all embeddings of "
    )
    assert "validation samples" in first if side == "val" else "training samples" in first
    begins = [epoch for epoch in collapsed if epoch - 1 not in collapsed]
    assert len(heard.warned) == len(begins)
    assert f"{side} uniformity" in heard.said[-1]


def figures_of(z):
    return HEALTHY | {
        "val_uniformity": uniformity(z).item(),
        "val_effective_rank": effective_rank(z).item(),
    }


def test_points_and_lines_are_found_and_spread_or_noisy_embeddings_are_not():
    generator = torch.Generator().manual_seed(0)
    spread = torch.randn(64, 128, generator=generator)
    one = spread[0]
    two = spread[1]
    share = torch.linspace(0, 1, 64)[:, None]
    classes = torch.where(share < 0.5, one, two)
    assert "nearly the same point (uniformity -0.0" in collapse_of(figures_of(one + 0.05 * spread))
    assert "embeddings of validation samples lie on a line" in collapse_of(
        figures_of(classes + 1e-5 * spread)
    )
    assert collapse_of(figures_of(spread)) is None
    assert (
        collapse_of(figures_of(one + spread)) is None
    )  # a common direction, as of brains, but spread around it
    assert (
        collapse_of(figures_of(classes + 0.05 * spread)) is None
    )  # two classes, told apart, each with its people
    assert (
        collapse_of(figures_of((1 - share) * one + share * two)) is None
    )  # an arc: a number, as of age, that bends


def test_warning_comes_once_an_episode():
    rows = [None, HEALTHY, POINT, POINT, HEALTHY, POINT]
    told = [
        collapse_warning(row, previous) is not None for previous, row in itertools.pairwise(rows)
    ]
    assert told == [False, True, False, False, True]
    assert collapse_warning(POINT, None) is not None
    text = collapse_warning(POINT, HEALTHY)
    assert text.startswith(
        "epoch 2: the representation has collapsed: all embeddings of validation samples"
    )
    assert "training.learning_rate" in text


def test_alignment_is_the_mean_squared_distance_on_the_sphere():
    z1 = torch.tensor([[2.0, 0.0], [0.0, 1.0]])
    z2 = torch.tensor([[3.0, 0.0], [0.0, -5.0]])
    assert alignment(z1, z2).item() == pytest.approx((0 + 4) / 2)


def test_uniformity_is_the_log_mean_potential_over_pairs():
    z = torch.randn(7, 5, generator=torch.Generator().manual_seed(0))
    on_sphere = z / z.norm(dim=1, keepdim=True)
    pairs = [
        math.exp(-2 * (on_sphere[i] - on_sphere[j]).square().sum())
        for i in range(7)
        for j in range(i)
    ]
    assert uniformity(z).item() == pytest.approx(math.log(sum(pairs) / len(pairs)), abs=1e-5)


def test_effective_rank_counts_directions():
    corners = torch.cat([torch.eye(4), -torch.eye(4)])
    assert effective_rank(corners).item() == pytest.approx(4)
    assert effective_rank(
        torch.tensor([[1.0, 0.0], [-1.0, 0.0], [1.0, 0.0]])
    ).item() == pytest.approx(1)
    assert effective_rank(torch.ones(5, 3)).item() == pytest.approx(1)  # collapsed


def test_batch_statistics_touch_no_running_ones_and_drop_nothing_out():
    network = nn.Sequential(
        nn.Conv3d(1, 2, 3), nn.BatchNorm3d(2, momentum=0.1), nn.ReLU(), nn.Dropout(0.5)
    )
    volumes = torch.randn(4, 1, 6, 6, 6, generator=torch.Generator().manual_seed(0)) + 3
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    expected = network[2](nn.functional.batch_norm(network[0](volumes), None, None, training=True))
    with batch_statistics(network):
        torch.testing.assert_close(network(volumes), expected)
    for name, tensor in network.state_dict().items():
        assert torch.equal(tensor, before[name])
    assert all(module.training for module in network.modules())
    assert network[1].track_running_stats
