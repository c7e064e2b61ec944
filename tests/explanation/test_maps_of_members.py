"""Maps and rankings of several members: of the mean of their scores, with blocks that add up."""

import numpy as np
import pytest
import torch

from neurocontrast.explanation import ExplanationSettings, LinearScore, explain_scans
from neurocontrast.explanation.maps import ScoredScans, explain_mean_of_scans
from neurocontrast.explanation.measures import ScoredMeasures, explain_measures
from tests.explanation.test_maps import SPACING, Images, TwoBlocks, Voxels

SETTINGS = ExplanationSettings(accelerator="cpu", patch_mm=15, smooth_mm=5)
FIRST = np.array([0.7, 300.0])
SECOND = np.array([-0.2, 500.0])
ROWS = range(6)


def mean_of(*scores, images=None):
    members = [ScoredScans(score, images or Images()) for score in scores]
    return explain_mean_of_scans(members, ROWS, settings=SETTINGS, spacing_mm=SPACING)


def test_the_map_of_members_is_that_of_the_mean_of_their_scores():
    members = mean_of(LinearScore(TwoBlocks(), FIRST, 2.0), LinearScore(TwoBlocks(), SECOND, 1.0))
    one = LinearScore(TwoBlocks(), (FIRST + SECOND) / 2, 1.5)
    whole = explain_scans(one, Images(), ROWS, settings=SETTINGS, spacing_mm=SPACING)
    np.testing.assert_allclose(members.scores, whole.scores)
    np.testing.assert_allclose(members.share, whole.share, atol=1e-5)
    for block in ("network", "components"):
        np.testing.assert_allclose(members.by_block[block], whole.by_block[block], atol=1e-5)
    assert members.block_shares == pytest.approx(whole.block_shares)
    np.testing.assert_allclose(sum(members.by_block.values()), members.share, atol=1e-5)


def test_one_member_is_explained_to_the_last_bit_as_one_encoder():
    score = LinearScore(TwoBlocks(), FIRST, 2.0)
    one = explain_scans(score, Images(), ROWS, settings=SETTINGS, spacing_mm=SPACING)
    member = mean_of(score)
    np.testing.assert_array_equal(one.share, member.share)
    assert (one.scores, one.block_shares) == (member.scores, member.block_shares)


def test_a_member_without_components_is_all_network():
    members = mean_of(LinearScore(TwoBlocks(), FIRST, 2.0), LinearScore(Voxels(), SECOND, 1.0))
    assert list(members.by_block) == ["network", "components"]
    np.testing.assert_allclose(sum(members.by_block.values()), members.share, atol=1e-5)
    assert sum(members.block_shares.values()) == pytest.approx(1)


class Linear(torch.nn.Module):
    """An encoder of measures that returns them; a linear encoder of a run says so."""

    class settings:
        is_linear = True

    def forward(self, samples):
        return samples.flatten(1)


def linear(values, weights, columns):
    return ScoredMeasures(LinearScore(Linear(), np.array(weights), 3.0), values, columns)


@pytest.fixture
def people():
    return np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)


def explain(members, columns="abc", n=40):
    draws = [np.random.default_rng(1).multinomial(n, [1 / n] * n, size=20).astype(float)]
    return explain_measures(members, list(columns), draws, settings=SETTINGS)


def test_members_that_standardise_in_their_own_way_are_averaged_measure_by_measure(people):
    other = people * [2, 1, 1] + [5, 0, 0]  # standardised by other people
    other = other.astype(np.float32)
    weights = [np.array([1.0, 2.0, 0.0]), np.array([0.5, -1.0, 1.0])]
    members = [linear(people, weights[0], "abc"), linear(other, weights[1], "abc")]
    shares = explain(members)
    carried = (people * weights[0] + other * weights[1]) / 2
    scores = carried.sum(axis=1) + 3.0
    np.testing.assert_allclose(shares.scores, scores, rtol=1e-6)
    away = scores - scores.mean()
    np.testing.assert_allclose(shares.share, away @ carried / (away @ away), rtol=1e-5)
    assert shares.share.sum() == pytest.approx(1)
    low, high = shares.interval
    assert (low < high).all()


def test_a_measure_that_a_member_does_not_read_carries_nothing_there(people):
    members = [
        linear(people, [1.0, 2.0, 1.0], "abc"),
        linear(people[:, [2, 0]].copy(), [4.0, 1.0], "ca"),
    ]
    shares = explain(members)
    carried = people * [1.0, 1.0, 2.5]
    away = carried.sum(axis=1) - carried.sum(axis=1).mean()
    np.testing.assert_allclose(shares.share, away @ carried / (away @ away), rtol=1e-5)


def test_one_member_of_measures_is_explained_as_one_encoder(people):
    one = explain([linear(people, [1.0, 2.0, 1.0], "abc")])
    twice = explain([linear(people, [1.0, 2.0, 1.0], "abc")] * 2)
    np.testing.assert_allclose(one.share, twice.share, rtol=1e-12)
    assert (one.by_block, one.block_shares) == ({}, {})
