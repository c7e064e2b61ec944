"""The search for strength and weight of blocks tries little in vain, on the features of a fit."""

from dataclasses import replace

import numpy as np
import pytest

from neurocontrast.evaluation import EvaluationSettings
from neurocontrast.evaluation.metrics import LOG_FLOOR
from neurocontrast.evaluation.probe_kinds import PROBES
from neurocontrast.evaluation.probes.blocks import BlockColumns, BlockProducts, standardised_blocks
from neurocontrast.evaluation.probes.designs import (
    WEIGHTS,
    Block,
    FeatureDesign,
    PairDesign,
    standardised,
    weighed,
)
from neurocontrast.evaluation.probes.fitting import FitContext, fit_probe
from neurocontrast.evaluation.probes.search import (
    Losses,
    Search,
    choose_weight,
    lowest_from_nearest,
)
from neurocontrast.evaluation.splits import Split
from neurocontrast.evaluation.splits.inner import penalty_folds
from tests.evaluation.quick import names, target_by

N_ROWS = 60
N_COMPONENTS = 6
TRAIN = np.arange(40)
TEST = np.arange(40, N_ROWS)


def design_of(n_network, *, noise=1.0, **changes):
    """Make a network of noise and its components, of which one feature never varies."""
    x = np.random.default_rng(3).normal(size=(N_ROWS, n_network + N_COMPONENTS)) * noise
    x[:, 1] = 7
    blocks = (Block("network", n_network, "a"), Block("components", N_COMPONENTS, "a"))
    return FeatureDesign(x, blocks=blocks, **changes)


def pair_of(n_network):
    """Make measures beside an embedding of two blocks."""
    measures = np.random.default_rng(4).normal(size=(N_ROWS, 9)) + 2

    def first(train, test):
        return measures[train], measures[test]

    return PairDesign(first, design_of(n_network))


@pytest.mark.parametrize("make", [design_of, pair_of])
@pytest.mark.parametrize("n_network", [20, 90])
def test_weighed_blocks_are_the_features_of_a_fit(make, n_network):
    designs = dict(weighed(make(n_network)))
    blocks = standardised_blocks(designs[WEIGHTS[0]], TRAIN, TEST)
    assert isinstance(blocks.rows, BlockProducts if n_network > len(TRAIN) else BlockColumns)
    for design in designs.values():
        train, test = blocks.weighed(design)
        expected = standardised(design, TRAIN, TEST)
        np.testing.assert_allclose(train @ train.T, expected.train @ expected.train.T, atol=1e-9)
        np.testing.assert_allclose(test @ train.T, expected.test @ expected.train.T, atol=1e-9)


def test_single_precision_stays_single():
    for n_network in (20, 90):
        blocks = standardised_blocks(design_of(n_network, single=True, weight=0.25), TRAIN, TEST)
        train, test = blocks.weighed(design_of(n_network, weight=0.25))
        assert (train.dtype, test.dtype) == (np.float32, np.float32)


class TestNearestStrengths:
    """Losses that are written down stand for fits."""

    def losses(self, values):
        """Return losses that are known, and record which were asked for."""
        search = Search(PROBES["ridge"], PROBES["ridge"].make(False), tuple(range(len(values))))
        losses = Losses(search, ())
        losses._of.update(enumerate(values))
        return losses

    @pytest.mark.parametrize("start", range(6))
    def test_the_valley_is_reached_from_everywhere(self, start):
        assert self.losses([5, 4, 2, 1, 3, 6]).lowest_near(start) == 3
        assert self.losses([1, 2, 3, 4, 5, 6]).lowest_near(start) == 0
        assert self.losses([6, 5, 4, 3, 2, 1]).lowest_near(start) == 5

    def test_of_equals_the_stronger_penalty_is_taken(self):
        assert self.losses([3, 2, 2, 2, 4]).lowest_near(3) == 1
        assert self.losses([3, 3, 3]).lowest_near(1) == 0

    def test_all_strengths_are_looked_at_without_a_start(self):
        assert self.losses([3, 4, 2, 5, 1, 6]).lowest() == 4

    @pytest.mark.parametrize(("weight", "expected"), [(0.0, 0), (1.0, 3)])
    def test_a_weight_starts_from_the_best_of_the_nearest(self, weight, expected):
        losses = self.losses([2, 9, 9, 1, 9])
        assert lowest_from_nearest(losses, {0.25: 0, 0.75: 4}, weight) == expected
        assert lowest_from_nearest(losses, {}, weight) == 3


def choose(kind, n_network, *, exhaustive):
    """Choose the weight of blocks for labels that follow both, by the search or by every fit."""
    design = design_of(n_network)
    target = target_by(kind, design.features[:, 0] + 2 * design.features[:, -1])
    settings = EvaluationSettings(n_inner_folds=2)
    pairs = penalty_folds(target, TRAIN, names(N_ROWS), settings=settings, seed=0)
    if not exhaustive:
        probe = PROBES["ridge" if kind == "continuous" else "logistic"]
        search = Search(probe, probe.make(False), tuple(probe.strengths(settings)))
        return choose_weight(search, dict(weighed(design)), pairs, target.values)[::2]
    best = []
    for weight in WEIGHTS:
        losses = []
        for strength in settings.alpha if kind == "continuous" else settings.C:
            loss = []
            for fit, tried in pairs:
                narrow = EvaluationSettings(alpha=(strength,), C=(strength,))
                predicted, _ = fit_probe(
                    replace(design, weight=weight),
                    target,
                    Split(0, 0, fit, tried),
                    FitContext(names(N_ROWS), narrow, seed=0),
                    pairs=pairs,
                )
                truth = target.values[tried]
                if kind == "continuous":
                    loss.append(np.mean((predicted.scores - truth) ** 2))
                else:
                    likely = np.where(truth == 1, predicted.scores, 1 - predicted.scores)
                    loss.append(-np.log(likely.clip(LOG_FLOOR)).mean())
            losses.append((np.mean(loss), strength))
        best.append((*min(losses), weight))
    _, strength, weight = min(best, key=lambda choice: choice[0])
    return strength, weight


@pytest.mark.parametrize("kind", ["binary", "continuous"])
@pytest.mark.parametrize("n_network", [20, 90])
def test_the_search_chooses_as_all_fits_do(kind, n_network):
    assert choose(kind, n_network, exhaustive=False) == choose(kind, n_network, exhaustive=True)
