"""What the shared core promises: one number on both paths, no more memory than asked, no other precision."""

import subprocess
import sys
from itertools import product

import pytest
import torch

from neurocontrast import losses
from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.kernels import Gaussian, Linear
from neurocontrast.losses import cclk
from neurocontrast.losses.core import Pool
from tests.losses.specimens import random_batch

AGE = Gaussian("age", sigma=5.0)


def _value_and_gradients(loss, z1, z2, metadata):
    value = loss(z1, z2, metadata)
    return (value, *torch.autograd.grad(value, (z1, z2)))


def _at(specimen, temperature):
    """The loss, also at a temperature at which exponentials overflow."""
    loss = specimen.build()
    if temperature is not None:
        loss.temperature = temperature
    return loss


def test_at_once_in_tiles_and_in_parts_it_is_one_number(specimen, hold):
    for n, temperature in product((1, 2, 7), (None, 0.002)):
        z1, z2, metadata = random_batch(n, 5, seed=1)
        hold(None)
        loss = _at(specimen, temperature)
        whole = _value_and_gradients(loss, z1, z2, metadata)
        for tile in (None, 1, 3, 15):
            hold(tile)
            value = loss(z1, z2, metadata) if tile else sum(loss.terms(z1, z2, metadata).values())
            got = value, *torch.autograd.grad(value, (z1, z2))
            torch.testing.assert_close(got, whole, rtol=1e-11, atol=1e-10)


def test_backward_twice_gives_the_same(specimen, hold):
    z1, z2, metadata = random_batch(6, 4, seed=2)
    for tile in (None, 4):
        hold(tile)
        loss = specimen.build()
        value = loss(z1, z2, metadata)
        first = torch.autograd.grad(value, z1, retain_graph=True)[0]
        assert torch.equal(torch.autograd.grad(value, z1)[0], first)


def test_autocast_and_half_precision_change_nothing(specimen, hold):
    z1, z2, metadata = random_batch(8, 6, seed=3)
    a = z1.detach().bfloat16()
    b = z2.detach().bfloat16()
    metadata = {
        name: column.float() if column.is_floating_point() else column
        for name, column in metadata.items()
    }
    for tile in (None, 5):
        hold(tile)
        loss = specimen.build()
        x = a.clone().requires_grad_()
        y = b.clone().requires_grad_()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            value = loss(x, y, metadata)
            value.backward()
        exact = loss(a.float(), b.float(), metadata)
        torch.testing.assert_close(value, exact, rtol=0, atol=0)
        assert value.dtype == torch.float32
        assert x.grad.dtype == torch.bfloat16


def test_no_float64_in_a_float32_graph(specimen, hold, monkeypatch):
    """Metadata in double precision must not pull the similarities up.

    The conditional operator of CCL-K alone is solved in float64, without gradient.
    """
    solve = cclk.conditional_operator

    def solve_unseen(*arguments, **keywords):
        with torch.utils._python_dispatch._disable_current_modes():
            return solve(*arguments, **keywords)

    monkeypatch.setattr(cclk, "conditional_operator", solve_unseen)
    z1, z2, metadata = random_batch(8, 6, seed=3)
    for tile in (None, 5):
        hold(tile)
        loss = specimen.build()
        x = z1.detach().float().requires_grad_()
        y = z2.detach().float().requires_grad_()
        with _Types() as types:
            loss(x, y, metadata).backward()
        assert torch.float64 not in {dtype for shape, dtype in types.seen if len(shape) > 1}, tile


class _Types(torch.utils._python_dispatch.TorchDispatchMode):
    """Notes the type of everything that is computed."""

    def __init__(self):
        super().__init__()
        self.seen = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if isinstance(out, torch.Tensor):
            self.seen.add((tuple(out.shape), out.dtype))
        return out


def test_no_more_is_held_than_asked(tiled, hold):
    z1, z2, metadata = random_batch(40, 4, seed=5)
    hold(20)
    with _Types() as types:
        tiled.build()(z1, z2, metadata).backward()
    assert max(torch.Size(shape).numel() for shape, _ in types.seen) <= max(20 * 20, 80 * 5)


def test_a_zero_vector_has_a_finite_loss_and_no_gradient():
    z1, z2, metadata = random_batch(4, 3, seed=7)
    z1 = z1.detach()
    z1[1] = 0
    z1.requires_grad_()
    value, gradient, _ = _value_and_gradients(losses.YAwareInfoNCE(AGE), z1, z2, metadata)
    assert value.isfinite()
    assert gradient.isfinite().all()
    assert (gradient[1] == 0).all()


@pytest.mark.parametrize("tile", [None, 4])
def test_negative_weights_are_refused(hold, tile):
    hold(tile)
    z1, z2, metadata = random_batch(9, 4, seed=9)
    metadata = {"age": torch.linspace(-1, 1, 9)}
    for build in (losses.YAwareInfoNCE, losses.ConditionalUniformity):
        loss = build(Linear("age"))
        with pytest.raises(DataError, match="kernel goes down to -"):
            loss(z1, z2, metadata)
        with pytest.raises(DataError, match="at least 0"):
            loss.check(metadata)


def test_a_loss_is_imported_without_what_it_does_not_need():
    heavy = ["pandas", "scipy", "monai", "sklearn", "nibabel", "sympy", "torch._dynamo"]
    code = f"import sys; from neurocontrast.losses import NTXent; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


Z = torch.ones(2, 4)


@pytest.mark.parametrize(
    ("z1", "z2", "metadata", "message"),
    [
        (Z, torch.ones(3, 4), {}, r"z2 must match z1 in shape.*\(3, 4\)"),
        (Z, Z.half(), {}, "z2 must match z1"),
        (Z.long(), Z, {}, "z1 must be a floating-point tensor"),
        (Z[:0], Z[:0], {}, "z1 must be"),
        (Z, Z, None, "'age', which the loss needs; metadata was not given"),
        (Z, Z, {"ages": torch.ones(2)}, "Did you mean 'ages'"),
        (
            Z,
            Z,
            {"age": torch.ones(3)},
            r"metadata\['age'\] must be a tensor with one row a sample, n = 2",
        ),
    ],
)
def test_what_is_no_batch_is_refused(z1, z2, metadata, message):
    with pytest.raises(DataError, match=message):
        losses.YAwareInfoNCE(AGE)(z1, z2, metadata)


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("nan"), "0.1", True])
def test_a_temperature_that_is_no_number_above_0_is_refused(temperature):
    with pytest.raises(ConfigError, match="temperature must be "):
        losses.NTXent(temperature=temperature)


@pytest.mark.slow
@pytest.mark.parametrize("tile", [None, 5])
def test_compiled(specimen, hold, tile):
    """Graph breaks are allowed; the number is not."""
    z1, z2, metadata = random_batch(8, 6, seed=10)
    hold(tile)
    loss = specimen.build()
    expected = _value_and_gradients(loss, z1, z2, metadata)
    torch._dynamo.reset()
    for got, wanted in zip(
        _value_and_gradients(torch.compile(loss, backend="aot_eager"), z1, z2, metadata),
        expected,
        strict=True,
    ):
        torch.testing.assert_close(got, wanted)


def test_embeddings_that_are_not_finite_give_no_finite_loss():
    z = torch.randn(4, 8, generator=torch.Generator().manual_seed(0))
    broken = z.index_fill(0, torch.tensor([1]), torch.nan)
    loss = losses.YAwareInfoNCE(Gaussian("age", sigma=3.0), temperature=0.5)
    assert loss(broken, z, {"age": torch.arange(4.0)}).isnan()


def _build_on_labels(name):
    return lambda kernel: getattr(losses, name)("site")


@pytest.mark.parametrize("n_views", [1, 2, 3])
@pytest.mark.parametrize(
    "build",
    [
        losses.YAwareInfoNCE,
        losses.ExponentialYAware,
        losses.ConditionalAlignment,
        losses.ConditionalUniformity,
        losses.ConditionalAlignmentUniformity,
        lambda kernel: losses.ConditionalUniformity(AGE, negatives=kernel),
        lambda kernel: losses.YAwareInfoNCE(AGE, negatives=kernel),
        *map(_build_on_labels, ("SupCon", "SINCERE", "EpsilonSupInfoNCE", "Triplet")),
    ],
)
def test_weights_that_are_not_known_give_no_finite_loss(build, n_views, monkeypatch):
    """On an accelerator nothing looks at metadata: a missing value makes NaN weights, and these a NaN loss."""
    bind = Pool.bind

    def bind_with_missing(pool, kernel):
        block = bind(pool, kernel)
        missing = (torch.arange(6) == 2).unsqueeze(1) | (torch.arange(6) == 2)
        return lambda i, j: block(i, j).masked_fill(missing[i, j], torch.nan)

    monkeypatch.setattr(Pool, "bind", bind_with_missing)
    views = list(torch.randn(n_views, 6, 4, generator=torch.Generator().manual_seed(0)))
    metadata = {"age": torch.arange(20.0, 80.0, 10.0), "site": torch.tensor([0, 1, 0, 0, 1, 0])}
    loss = build(AGE)
    assert loss(views, None, metadata).isnan()
    assert any(part.isnan() for part in loss.terms(views, None, metadata).values())


@pytest.mark.parametrize(("n_views", "n", "weights"), [(2, 3, 0.0), (1, 1, None), (2, 3, 1.0)])
def test_a_sum_over_nothing_has_no_gradient(n_views, n, weights):
    z = torch.nn.functional.normalize(torch.randn(n_views, n, 4), dim=2).requires_grad_()
    between = None if weights is None else torch.full((n, n), weights)
    (sums,) = Pool(z, z, {}, 10.0).each_anchor(lambda pairs: (pairs.log_sum_exp(between),))
    sums.sum().backward()
    is_empty = weights != 1.0
    assert bool((sums == -1e30).all()) == is_empty
    assert bool((z.grad == 0).all()) == is_empty
