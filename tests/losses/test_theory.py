"""What the papers prove of the losses, on distributions whose expectations are sums over all batches."""

import math
from itertools import product

import pytest
import torch

from neurocontrast import losses
from neurocontrast.kernels import Gaussian
from neurocontrast.losses.core import Pool
from tests.losses.specimens import random_batch

JOINT = torch.tensor([[0.30, 0.10, 0.10], [0.05, 0.15, 0.30]], dtype=torch.float64)
"""p(x, y) of two related variables."""
RATIO = (JOINT / JOINT.sum(1, keepdim=True) / JOINT.sum(0)).log()
INFORMATION = float((JOINT * RATIO).sum())


def expected(loss, of_x, of_y, n):
    """The mean loss over all batches of n pairs from the joint distribution, with one encoder for x and one for y."""
    pairs = list(product(range(JOINT.shape[0]), range(JOINT.shape[1])))
    total = 0.0
    for batch in product(pairs, repeat=n):
        x, y = ([pair[k] for pair in batch] for k in (0, 1))
        total = total + JOINT[x, y].prod() * loss(of_x[x], of_y[y])
    return total


def unit_vectors(n, seed, d=3):
    generator = torch.Generator().manual_seed(seed)
    return torch.nn.functional.normalize(
        torch.randn(n, d, generator=generator, dtype=torch.float64), dim=1
    )


class TestCritic:
    """The optimal critic of InfoNCE is the logarithm of the density ratio (van den Oord et al. 2018, section 2.3)."""

    @pytest.mark.parametrize("symmetric", [False, True])
    @pytest.mark.parametrize("n", [2, 3])
    def test_density_ratio_is_the_minimum(self, symmetric, n):
        # <f(x), g(y)> is any table of numbers with f(x) its rows, g(y) unit vectors, and no
        # division by norms.
        loss = losses.InfoNCE(temperature=1.0, symmetric=symmetric, normalise=False)
        critic = (RATIO + 0.7).requires_grad_()
        of_y = torch.eye(3, dtype=torch.float64)
        best = expected(loss, critic, of_y, n)
        # Convex in the critic: where the gradient is 0 is the minimum.
        assert torch.autograd.grad(best, critic)[0].abs().max() < 1e-14
        other = RATIO + torch.tensor([[0.1, 0.0, 0.0], [0.0, 0.0, 0.0]])
        assert expected(loss, other, of_y, n) > best + 1e-5


class TestMutualInformation:
    @pytest.mark.parametrize("temperature", [0.05, 0.3, 1.0])
    @pytest.mark.parametrize("loss", [losses.InfoNCE, losses.NTXent])
    def test_is_at_least_log_n_minus_the_loss(self, loss, temperature):
        for n, seed in ((2, 0), (3, 1), (3, 2)):
            value = expected(
                loss(temperature=temperature), unit_vectors(2, seed), unit_vectors(3, seed + 9), n
            )
            assert math.log(n) - value <= INFORMATION

    def test_of_the_best_critic_comes_near(self):
        loss = losses.InfoNCE(temperature=1.0, normalise=False)
        best = [
            math.log(n) - expected(loss, RATIO, torch.eye(3, dtype=torch.float64), n)
            for n in (2, 3, 4)
        ]
        assert best == sorted(best)
        assert 0.7 * INFORMATION < best[-1] < INFORMATION

    def test_training_is_told_the_bounds(self):
        batch = random_batch(6, 4, n_labels=2)
        labels = batch[2]["label"]
        n_negatives = (labels != labels[:, None]).sum(1).double() * 2
        expected = {losses.InfoNCE(): math.log(6), losses.NTXent(): math.log(6)}
        expected[losses.SINCERE("label")] = (n_negatives + 1).log().mean().item()
        for loss, most in expected.items():
            found = loss.figures(*batch)
            assert found["bound"].item() == pytest.approx(most - loss(*batch).item(), abs=1e-12)


def test_yaware_tends_to_the_limit_of_lemma_1():
    """Dufumier et al. 2021, lemma 1, for a distribution on four points; every batch has each as often as is likely."""
    times = torch.tensor([1, 2, 3, 2])
    age = torch.tensor([20.0, 27.0, 33.0, 60.0], dtype=torch.float64)
    z = unit_vectors(4, 0)
    p = times / times.sum()
    scores = z @ z.T / 0.5
    weights = Gaussian("age", sigma=10.0)({"age": age})
    positive = weights * p / (weights @ p.to(weights)).unsqueeze(1)
    limit = (
        -(p.unsqueeze(1) * positive * scores).sum()
        + (p * (scores.exp() @ p.to(scores)).log()).sum()
    )

    def error(repeats):
        rows = torch.arange(4).repeat_interleave(times * repeats)
        loss = losses.YAwareInfoNCE(Gaussian("age", sigma=10.0), temperature=0.5)
        return loss(z[rows], z[rows], {"age": age[rows]}) - math.log(2 * len(rows) - 1) - limit

    assert abs(error(32)) < 0.01
    assert error(32) / error(128) == pytest.approx(4, rel=0.02)


class TestSINCERE:
    """Feeney and Hughes 2023, lemma 2 and propositions 3.1 and 3.2: one sample of the target is to be found.

    Of three samples one, S, is drawn from the distribution of the target, others from noise; x has
    three values.
    """

    TARGET = torch.tensor([0.6, 0.3, 0.1], dtype=torch.float64)
    NOISE = torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64)
    TAU = 0.5

    def minus_log_likelihood(self, critic, x, s):
        """The loss of an anchor whose positive is sample s, with similarity `critic` to each value of x."""
        cosine = self.TAU * critic
        of_x = torch.stack([cosine, (1 - cosine.square()).sqrt()], dim=1)
        embeddings = torch.cat(
            [torch.tensor([[1.0, 0.0]], dtype=torch.float64), of_x[list(x)]]
        ).unsqueeze(0)
        label = {"label": torch.tensor([1] + [int(k == s) for k in range(3)])}
        loss = losses.SINCERE("label", temperature=self.TAU)
        of_anchors = []

        def spy(formula):
            of_anchors.extend(Pool.each_anchor(pool, formula))
            return of_anchors

        pool = Pool(embeddings, embeddings, label, 1 / self.TAU)
        object.__setattr__(pool, "each_anchor", spy)
        loss.parts(pool)
        values, n_positives = of_anchors
        assert n_positives[0, 0] == 1
        return values[0, 0]

    def likelihood_of_data(self, x, s):
        return math.prod(
            float((self.TARGET if k == s else self.NOISE)[value]) for k, value in enumerate(x)
        )

    def mean_loss(self, critic):
        """Over all data and all places of the target's sample, as the model draws them."""
        return sum(
            self.likelihood_of_data(x, s) / 3 * self.minus_log_likelihood(critic, x, s)
            for x in product(range(3), repeat=3)
            for s in range(3)
        )

    def test_density_ratio_gives_the_true_posterior(self):
        critic = (self.TARGET / self.NOISE).log() - 0.1
        for x in product(range(3), repeat=3):
            of_data = [self.likelihood_of_data(x, s) for s in range(3)]
            for s in range(3):
                found = math.exp(-self.minus_log_likelihood(critic, x, s))
                assert found == pytest.approx(of_data[s] / sum(of_data), rel=1e-12)

    def test_density_ratio_minimises_the_loss(self):
        critic = (self.TARGET / self.NOISE).log().requires_grad_()
        best = self.mean_loss(critic)
        assert torch.autograd.grad(best, critic)[0].abs().max() < 1e-14
        for seed in range(3):
            moved = critic.detach() + 0.1 * unit_vectors(1, seed)[0]
            assert self.mean_loss(moved) > best

    def test_divergence_is_at_least_log_negatives_minus_the_loss(self):
        ratio = (self.TARGET / self.NOISE).log()
        divergence = float((self.TARGET * ratio).sum())
        for critic in (ratio, torch.zeros(3, dtype=torch.float64), 0.5 * ratio, -ratio):
            assert math.log(2) - self.mean_loss(critic) <= divergence
