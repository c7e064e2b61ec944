"""Any number of views, weights and values of anchors, temperatures that learn, and the digits of a loss near 0."""

from __future__ import annotations

import math

import pytest
import torch

from neurocontrast import kernels, losses
from neurocontrast.exceptions import ConfigError, DataError

TIGHT = {"rtol": 1e-10, "atol": 1e-10}
TAU = 0.2
AGE, LABEL = kernels.Gaussian("age", sigma=9.0), kernels.Categorical("label")


class Loops:
    """The formulas, embedding by embedding, of views in a list; an anchor without a positive has no part in a mean."""

    def __init__(self, views, metadata, weights=None, reduction="mean"):
        self.weight = (torch.ones(len(views[0])) if weights is None else weights).tolist() * len(views)
        self.reduction = reduction
        self.z = torch.cat([view / view.norm(dim=1, keepdim=True) for view in views])
        self.n, self.size = len(views[0]), len(self.z)
        self.s = self.z @ self.z.T / TAU
        self.age, self.label = ([metadata[name][k % self.n] for k in range(self.size)] for name in ("age", "label"))

    def alike(self, i, j):
        return torch.exp(-0.5 * ((self.age[i] - self.age[j]) / 9) ** 2)

    def same(self, i, j):
        return float(self.label[i] == self.label[j])

    def twin(self, i, j):
        return float(i % self.n == j % self.n)

    def others(self, i):
        return [j for j in range(self.size) if j != i]

    def mean(self, of_anchor):
        found = {i: value for i in range(self.size) if (value := of_anchor(i)) is not None}
        values = [self.weight[i] * found.get(i, torch.zeros(())) for i in range(self.size)]
        if self.reduction == "none":
            return torch.stack(values).view(-1, self.n)
        return sum(values) / (1 if self.reduction == "sum" else sum(self.weight[i] for i in found))

    def contrast(self, w, log_sum):
        """Mean over anchors of Σ_j w_ij/Σ w ( −s_ij + log_sum(i) )."""

        def of_anchor(i):
            mass = sum(w(i, j) for j in self.others(i))
            pull = sum(w(i, j) * (log_sum(i) - self.s[i, j]) for j in self.others(i))
            return pull / mass if mass > 0 else None

        return self.mean(of_anchor)

    def log_sum(self, i, damping=lambda _i, _j: 1, among=lambda _i, _j: True):
        terms = [self.s[i, j] * damping(i, j) for j in self.others(i) if among(i, j)]
        return torch.stack(terms).logsumexp(0) if terms else 0.0

    def sincere(self, epsilon):
        def of_anchor(i):
            positives = [j for j in self.others(i) if self.same(i, j)]
            negatives = [self.s[i, j] for j in self.others(i) if not self.same(i, j)]
            terms = [torch.stack([self.s[i, p] - epsilon, *negatives]).logsumexp(0) - self.s[i, p] for p in positives]
            return sum(terms) / len(terms) if terms else None

        return self.mean(of_anchor)

    def conditional_uniformity(self):
        total, anchors = 0, 0
        for i in range(self.size):
            apart = {j: 1 - self.alike(i, j) for j in self.others(i)}
            if (mass := sum(apart.values())) > 0:
                anchors += self.weight[i]
                total = total + self.weight[i] * sum(apart[j] / mass * self.s[i, j].exp() for j in apart)
        return (total / anchors).log()

    def triplet(self):
        distances = {(i, j): (self.z[i] - self.z[j]).norm() for i in range(self.size) for j in self.others(i)}
        terms = [
            (distances[i, p] - distances[i, q] + 0.2, self.weight[i])
            for i in range(self.size)
            for p in self.others(i)
            for q in self.others(i)
            if self.same(i, p) and not self.same(i, q)
        ]
        active = [(term, weight) for term, weight in terms if term > 0]
        return sum(term * weight for term, weight in active) / sum(weight for _, weight in active)

    def rank_n_contrast(self):
        s = {(i, j): -(self.z[i] - self.z[j]).norm() / TAU for i in range(self.size) for j in self.others(i)}

        def term(i, j):
            further = [k for k in self.others(i) if abs(self.age[i] - self.age[k]) >= abs(self.age[i] - self.age[j])]
            return torch.stack([s[i, k] for k in further]).logsumexp(0) - s[i, j]

        return self.mean(lambda i: sum(term(i, j) for j in self.others(i)) / (self.size - 1))


# Each loss, its formula, and the fewest views it takes.
FORMULAS = {
    "nt-xent": (lambda t: losses.NTXent(temperature=t), lambda o: o.contrast(o.twin, o.log_sum), 2),
    "yaware": (lambda t: losses.YAwareInfoNCE(AGE, temperature=t), lambda o: o.contrast(o.alike, o.log_sum), 1),
    "supcon": (lambda t: losses.SupCon("label", temperature=t), lambda o: o.contrast(o.same, o.log_sum), 1),
    "exponential": (
        lambda t: losses.ExponentialYAware(AGE, temperature=t),
        lambda o: o.contrast(o.alike, lambda i: o.log_sum(i, lambda a, b: 1 - o.alike(a, b))),
        1,
    ),
    "negatives": (
        lambda t: losses.YAwareInfoNCE(LABEL, temperature=t, negatives=LABEL),
        lambda o: o.contrast(o.same, lambda i: o.log_sum(i, among=o.same)),
        1,
    ),
    "fair": (
        lambda t: losses.FairInfoNCE("label", temperature=t),
        lambda o: o.contrast(o.twin, lambda i: o.log_sum(i, among=o.same)),
        2,
    ),
    "conditional": (
        lambda t: losses.ConditionalAlignmentUniformity(AGE, temperature=t),
        lambda o: o.contrast(o.alike, lambda _i: 0) + o.conditional_uniformity(),
        1,
    ),
    "uniformity": (
        lambda t: losses.GlobalUniformity(temperature=t),
        lambda o: o.mean(lambda i: o.log_sum(i) - math.log(o.size - 1)),
        2,
    ),
    "sincere": (lambda t: losses.SINCERE("label", temperature=t), lambda o: o.sincere(0), 1),
    "epsilon": (
        lambda t: losses.EpsilonSupInfoNCE("label", temperature=t, epsilon=0.3),
        lambda o: o.sincere(0.3),
        1,
    ),
    "triplet": (lambda t: losses.Triplet("label", margin=0.2), lambda o: o.triplet(), 1),
    "rank-n-contrast": (lambda t: losses.RankNContrast("age", temperature=t), lambda o: o.rank_n_contrast(), 1),
}  # fmt: skip


def _views(random_batch, n_views, n=6):
    """Views and metadata; the first scan's label is its own."""
    pairs = [random_batch(n, 5, seed=seed, n_labels=2) for seed in range(2)]
    metadata = {"age": pairs[0][2]["age"], "label": torch.tensor([7, *([0, 1] * n)])[:n]}
    return [pairs[k // 2][k % 2] for k in range(n_views)], metadata


@pytest.mark.parametrize("name", FORMULAS)
def test_any_number_of_views_equals_the_double_loop(random_batch, hold, name):
    build, formula, fewest = FORMULAS[name]
    for n_views in range(fewest, 5):
        views, metadata = _views(random_batch, n_views)
        expected = formula(Loops(views, metadata))
        wanted = torch.autograd.grad(expected, views)
        for tile in (None, 5):
            hold(tile)
            value = build(TAU)(views if tile else torch.stack(views), None, metadata)
            torch.testing.assert_close(value, expected, **TIGHT)
            for got, each in zip(torch.autograd.grad(value, views), wanted, strict=True):
                torch.testing.assert_close(got, each, **TIGHT)
            parts = build(TAU).terms(views, None, metadata)
            torch.testing.assert_close(sum(parts.values()), expected, **TIGHT)
        hold(None)


WEIGHTS = torch.tensor([0.5, 2.0, 0.0, 1.0, 3.0, 1.0], dtype=torch.float64)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("name", FORMULAS)
def test_weighted_anchors_and_their_values_equal_the_double_loop(random_batch, hold, name, reduction):
    build, formula, fewest = FORMULAS[name]
    loss = build(TAU)
    for n_views in (fewest, 3):
        views, metadata = _views(random_batch, n_views)
        if reduction != "mean" and not loss.of_anchors:
            with pytest.raises(DataError, match=f"reduction must be 'mean' for {type(loss).__name__}"):
                loss(views, None, metadata, reduction=reduction)
            continue
        expected = formula(Loops(views, metadata, WEIGHTS, reduction))
        wanted = torch.autograd.grad(expected.square().sum(), views)
        for tile in (None, 5):
            hold(tile)
            value = loss(views, None, metadata, weights=WEIGHTS, reduction=reduction)
            torch.testing.assert_close(value, expected, **TIGHT)
            for got, each in zip(torch.autograd.grad(value.square().sum(), views), wanted, strict=True):
                torch.testing.assert_close(got, each, rtol=1e-9, atol=1e-9)
            parts = loss.terms(views, None, metadata, weights=WEIGHTS, reduction=reduction)
            torch.testing.assert_close(sum(parts.values()), expected, **TIGHT)


def test_values_of_anchors_have_the_loss_as_their_mean(random_batch, specimen):
    loss, batch = specimen.build(), random_batch(6, 5, seed=2)
    torch.testing.assert_close(loss(*batch, weights=[2.0] * 6), loss(*batch), **TIGHT)
    if loss.of_anchors:
        assert loss(*batch, weights=torch.zeros(6)).item() == 0
        values = loss(*batch, reduction="none")
        assert values.shape == ((1 if getattr(loss, "symmetric", True) is False else 2), 6)
        torch.testing.assert_close(values.mean(), loss(*batch), **TIGHT)
        torch.testing.assert_close(values.sum(), loss(*batch, reduction="sum"), **TIGHT)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [([1.0, 1.0], "one number a sample"), ([1.0, -1.0, 1.0], "at least 0"), ([1.0, torch.nan, 1.0], "finite")],
)
def test_weights_that_are_none_are_refused(random_batch, wrong, message):
    with pytest.raises(DataError, match=message):
        losses.NTXent()(*random_batch(3, 4), weights=wrong)


def test_one_view_is_a_tensor_alone(random_batch):
    (z,), metadata = _views(random_batch, 1)
    assert torch.equal(losses.SupCon("label")(z, None, metadata), losses.SupCon("label")([z], None, metadata))


def test_one_scan_of_one_view_has_no_positive_and_no_loss(random_batch):
    (z,), metadata = _views(random_batch, 1, n=1)
    for name, (build, _, fewest) in FORMULAS.items():
        if fewest == 1:
            value = build(TAU)(z, None, metadata)
            assert value.item() == 0, name
            assert torch.autograd.grad(value, z)[0].abs().max() == 0, name


# All other losses take one view too: their positives are other scans.
_OF_TWO_OR_MORE = ("InfoNCE", "NTXent", "GlobalUniformity", "FairInfoNCE")
_OF_TWO = (
    "AlignmentUniformity",
    "DebiasedInfoNCE",
    "HardNegativeInfoNCE",
    "WeaklySupervisedCCLK",
    "FairCCLK",
    "HardNegativeCCLK",
)


def test_other_numbers_of_views_are_refused_with_the_number(random_batch, specimen):
    loss = specimen.build()
    fewest, most = loss.n_views
    name = type(loss).__name__
    assert (fewest, most) == ((2, 2) if name in _OF_TWO else (2 if name in _OF_TWO_OR_MORE else 1, None))
    views, metadata = _views(random_batch, 3)
    if fewest == 2:
        with pytest.raises(DataError, match=rf"^{type(loss).__name__} takes (at least )?2 views .* got 1\.$"):
            loss(views[0], None, random_batch(6, 5)[2])
    if most == 2:
        with pytest.raises(DataError, match=rf"^{type(loss).__name__} takes 2 views of every scan, got 3\.$"):
            loss(views, None, random_batch(6, 5)[2])
    with pytest.raises(DataError, match="got an empty list"):
        loss([], None, metadata)


def test_a_temperature_that_learns_has_its_exact_gradient(random_batch, specimen, hold):
    """By finite differences; values and gradients of embeddings are those of the number."""
    z1, z2, metadata = random_batch(7, 5, seed=3, n_labels=2)
    loss = specimen.build()
    if not hasattr(loss, "temperature"):
        return
    start = loss.temperature
    expected = torch.autograd.grad(loss(z1, z2, metadata), z1)[0]
    step = 1e-5 * start
    values = []
    for temperature in (start - step, start + step):
        loss.temperature = temperature
        values.append(loss(z1, z2, metadata).item())
    given = {name: getattr(loss, name) for name in loss.__signature__.parameters}
    if hasattr(loss, "embedding_kernel"):
        given["kernel"] = loss.embedding_kernel
    learning = type(loss)(**{**given, "temperature": torch.nn.Parameter(torch.tensor(start, dtype=torch.float64))})
    assert [name for name, _ in learning.named_parameters()] == ["temperature"]
    as_clip = type(loss)(**{**given, "temperature": "learnable"}).double()
    as_clip.log_scale.data.fill_(-math.log(start))
    slope = (values[1] - values[0]) / (2 * step)
    for tile in (None, 5):
        hold(tile)
        for value in (learning(z1, z2, metadata), sum(learning.terms(z1, z2, metadata).values())):
            of_z, of_temperature = torch.autograd.grad(value, (z1, learning.temperature))
            torch.testing.assert_close(of_z, expected, **TIGHT)
            assert of_temperature.item() == pytest.approx(slope, rel=1e-6, abs=1e-7)
        (of_scale,) = torch.autograd.grad(as_clip(z1, z2, metadata), as_clip.log_scale)
        assert of_scale.item() == pytest.approx(-start * slope, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("given", ["learnable", torch.nn.Parameter(torch.tensor(0.07))])
def test_a_temperature_that_learns_stays_at_a_hundredth_or_above(given):
    loss = losses.NTXent(temperature=given)
    assert loss.tau.item() == pytest.approx(0.07)
    optimizer = torch.optim.SGD(loss.parameters(), lr=1e6)
    z = torch.eye(4, 3)
    for _ in range(3):
        optimizer.zero_grad()
        loss(z, z).backward()
        optimizer.step()
    with torch.no_grad():
        value = loss(z, z)
    assert loss.tau.item() == pytest.approx(0.01)
    torch.testing.assert_close(value, losses.NTXent(temperature=loss.tau.item())(z, z))
    assert loss.figures(z, z)["temperature"].item() == pytest.approx(0.01)


def test_a_temperature_of_several_numbers_or_none_is_refused():
    for wrong in (torch.ones(2), torch.tensor(-1.0), torch.tensor(torch.nan)):
        with pytest.raises(ConfigError, match="temperature must be"):
            losses.NTXent(temperature=torch.nn.Parameter(wrong))


def test_no_digit_is_lost_near_zero():
    """Nearly equal views of scans that are far apart: float32 as float64, value and gradient."""
    generator = torch.Generator().manual_seed(0)
    built = {
        "nt-xent": losses.NTXent(temperature=0.05),
        "yaware": losses.YAwareInfoNCE(kernels.Gaussian("y", sigma=1.0), temperature=0.05),
        "supcon": losses.SupCon("label", temperature=0.05),
    }
    metadata = {"y": torch.arange(6) * 20.0, "label": torch.arange(6)}
    for _ in range(20):
        z1 = torch.eye(6, 8) + 0.1 * torch.randn(6, 8, generator=generator)
        z2 = z1 + 0.01 * torch.randn(6, 8, generator=generator)
        for name, loss in built.items():
            found = []
            for dtype in (torch.float32, torch.float64):
                views = [z.to(dtype, copy=True).requires_grad_() for z in (z1, z2)]
                value = loss(*views, metadata)
                found.append((value, *torch.autograd.grad(value, views)))
            for got, exact in zip(*found, strict=True):
                assert 0 < found[1][0] < 1e-4
                error = (got.double() - exact).norm() / exact.norm()
                assert error < 1e-4, (name, error)


def test_one_scan_is_at_zero_exactly():
    z1, z2 = torch.randn(2, 1, 8, generator=torch.Generator().manual_seed(1))
    for loss in (losses.NTXent(temperature=0.05), losses.SupCon("label", temperature=0.05)):
        assert loss(z1, z2, {"label": torch.zeros(1, dtype=torch.int64)}).item() == 0


def test_one_scan_has_no_uniformity():
    z1, z2 = torch.eye(3)[:1].requires_grad_(), torch.eye(3)[1:2]
    terms = losses.AlignmentUniformity().terms(z1, z2)
    assert terms["uniformity"].item() == 0
    assert torch.autograd.grad(losses.AlignmentUniformity()(z1, z2), z1)[0].isfinite().all()


def test_a_kernel_times_a_number_is_the_same_loss(random_batch, hold):
    """Weights are normalised by their sum over the positives of an anchor, however small that is."""
    z1, z2, metadata = random_batch(6, 4, seed=5)
    age = kernels.Gaussian("age", sigma=5.0)
    for tile in (None, 3):
        hold(tile)
        for build in (losses.YAwareInfoNCE, losses.ConditionalAlignment):
            values = [build(kernel)(z1, z2, metadata) for kernel in (age, 0.01 * age)]
            torch.testing.assert_close(values[1], values[0], rtol=1e-9, atol=1e-9)
            gradients = [torch.autograd.grad(value, z1)[0] for value in values]
            torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-9, atol=1e-9)
