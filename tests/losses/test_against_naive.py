"""Every loss against plain double loops, and what must not change it."""

from itertools import product

import torch

from tests.losses import naive
from tests.losses.specimens import random_batch

TIGHT = {"rtol": 1e-10, "atol": 1e-10}


def test_value_and_gradient_equal_the_double_loop(specimen, hold):
    for n, seed, tile in [(7, 0, None), (2, 2, None), (7, 3, 4)]:
        hold(tile)
        z1, z2, metadata = random_batch(n, 7, seed=seed, n_labels=2)
        expected = specimen.reference(naive.Batch([z1, z2]), metadata)
        expected_gradients = torch.autograd.grad(expected, (z1, z2), allow_unused=True)

        loss = specimen.build()
        value = loss(z1, z2, metadata)
        gradients = torch.autograd.grad(value, (z1, z2), allow_unused=True)

        assert value.shape == ()
        assert value.dtype == torch.float64
        torch.testing.assert_close(value, torch.as_tensor(expected, dtype=torch.float64), **TIGHT)
        for got, wanted, z in zip(gradients, expected_gradients, (z1, z2), strict=True):
            torch.testing.assert_close(_or_zero(got, z), _or_zero(wanted, z), **TIGHT)


def _or_zero(gradient, z):
    return torch.zeros_like(z) if gradient is None else gradient


def test_finite_whatever_the_geometry(specimen):
    n = 6
    d = 16
    _, _, columns = random_batch(n, d, seed=7)
    loss = specimen.build()
    loss.temperature = 0.01
    for conditions in ("mixed", "all-same", "all-different"):
        metadata = {name: _condition(column, conditions) for name, column in columns.items()}
        for geometry, (dtype, rows) in product(
            ("random", "collapsed", "opposite", "orthogonal"),
            (
                (torch.float32, n),
                (torch.bfloat16, n),
                (torch.float16, n),
                (torch.float32, 2),
                (torch.float32, 1),
            ),
        ):
            case = conditions, geometry, dtype, rows
            z1, z2 = (view[:rows].to(dtype).requires_grad_() for view in _views(geometry, n, d))
            value = loss(z1, z2, {name: column[:rows] for name, column in metadata.items()})
            gradients = torch.autograd.grad(value, (z1, z2), allow_unused=True)
            assert torch.isfinite(value), (case, value)
            assert all(torch.isfinite(g).all() for g in gradients if g is not None), case
            assert value.dtype != torch.float64, case


def _views(geometry, n, d):
    generator = torch.Generator().manual_seed(8)
    if geometry == "orthogonal":
        basis = torch.eye(d)
        return basis[:n].clone(), basis[n : 2 * n].clone()
    if geometry == "random":
        return torch.randn(n, d, generator=generator), torch.randn(n, d, generator=generator)
    one = torch.randn(1, d, generator=generator).repeat(n, 1)
    return one, one.clone() if geometry == "collapsed" else -one


def _condition(column, conditions):
    column = column.float() if column.is_floating_point() else column
    if conditions == "all-same":
        return column[:1].expand_as(column).clone()
    if conditions == "all-different":
        ramp = 100 * (1 + torch.arange(column.shape[0]))
        return (
            (ramp.float() if column.is_floating_point() else ramp)
            .reshape(-1, *[1] * (column.dim() - 1))
            .expand_as(column)
            .clone()
        )
    return column
