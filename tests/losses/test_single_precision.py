"""Every loss in float32, in which everyone trains, beside float64, at the sizes of a step: whole, in blocks, views."""

import inspect
from contextlib import contextmanager

import pytest
import torch

from neurocontrast import losses
from neurocontrast.losses.registry import LOSSES, loss_class
from tests.losses import specimens
from tests.losses.specimens import random_batch

DIMENSIONS = 128
VALUE = GRADIENT = 1e-5
HINGE = 1e-4
"""Of a hinge, triples within rounding of the margin count or do not, and each has a whole gradient."""


def single_and_double(views, metadata):
    """Return the views and columns as float32 holds them, and the same numbers in float64."""
    rounded = [view.detach().float() for view in views]
    columns = {
        name: column.float() if column.is_floating_point() else column
        for name, column in metadata.items()
    }
    widened = {
        name: column.double() if column.is_floating_point() else column
        for name, column in columns.items()
    }
    return (rounded, columns), ([view.double() for view in rounded], widened)


def value_and_gradient(loss, views, metadata, **options):
    leaves = [view.clone().requires_grad_() for view in views]
    value = loss(leaves, None, metadata, **options)
    gradients = torch.autograd.grad(value.sum(), leaves, allow_unused=True, materialize_grads=True)
    return value.detach(), torch.stack(gradients)


def apart(found, expected):
    return float((found.double() - expected).norm() / expected.norm())


def assert_as_in_double(build, batch, *, limit=GRADIENT, **options):
    (views, columns), (wide_views, wide_columns) = single_and_double(*batch)
    value, gradient = value_and_gradient(build(), views, columns, **options)
    exact, exact_gradient = value_and_gradient(build(), wide_views, wide_columns, **options)
    assert value.dtype == torch.float32
    assert exact.dtype == torch.float64
    assert exact.abs().sum() > 0
    assert exact_gradient.abs().sum() > 0
    assert apart(value, exact) < VALUE
    assert apart(gradient, exact_gradient) < limit


@pytest.mark.parametrize("n", [64, 300])
@pytest.mark.parametrize("block", [None, 100])
def test_value_and_gradient_are_those_of_double(specimen, hold, n, block):
    hold(block)
    z1, z2, metadata = random_batch(n, DIMENSIONS, seed=3)
    limit = HINGE if specimen.name.startswith("triplet") else GRADIENT
    assert_as_in_double(specimen.build, ([z1, z2], metadata), limit=limit)


def test_value_and_gradient_of_predictions_are_those_of_double(prediction):
    z1, z2, metadata = random_batch(64, 3, seed=3)
    assert_as_in_double(prediction.build, ([z1, z2], metadata))


def test_more_views_weights_and_values_of_anchors_are_those_of_double(pooled):
    z1, z2, metadata = random_batch(64, DIMENSIONS, seed=3)
    loss = pooled.build()
    limit = HINGE if pooled.name.startswith("triplet") else GRADIENT
    if loss.n_views[1] is None:
        views = [z1, z2, random_batch(64, DIMENSIONS, seed=4)[0]]
        assert_as_in_double(pooled.build, (views, metadata), limit=limit)
    if loss.of_anchors:
        weights = torch.linspace(0, 2, 64)
        options = {"weights": weights, "reduction": "none"}
        assert_as_in_double(pooled.build, ([z1, z2], metadata), limit=limit, **options)


def test_the_gradient_of_a_temperature_that_learns_is_that_of_double(specimen):
    z1, z2, metadata = random_batch(64, DIMENSIONS, seed=3)
    loss = specimen.build()
    if "temperature" not in inspect.signature(type(loss)).parameters:
        pytest.skip("has no temperature")
    given = {name: getattr(loss, name) for name in inspect.signature(type(loss)).parameters}
    if hasattr(loss, "embedding_kernel"):
        given["kernel"] = loss.embedding_kernel
    gradients = []
    for views, columns in single_and_double([z1, z2], metadata):
        temperature = torch.nn.Parameter(torch.tensor(loss.temperature, dtype=views[0].dtype))
        learning = type(loss)(**{**given, "temperature": temperature})
        learning(views, None, columns).backward()
        gradients.append(float(temperature.grad))
    assert gradients[0] == pytest.approx(gradients[1], rel=1e-4, abs=1e-5)


def test_views_that_hardly_differ_are_as_in_double(specimen):
    """Where training ends: views of a scan close, scans apart. Of gradients that vanish, the size that is left."""
    if specimen.name.startswith("triplet"):
        pytest.skip("a hinge, see HINGE")
    z1, _, metadata = random_batch(64, DIMENSIONS, seed=5)
    noise = random_batch(64, DIMENSIONS, seed=6)[0]
    z2 = z1 + 0.01 * noise
    (views, columns), (wide_views, wide_columns) = single_and_double([z1, z2], metadata)
    value, gradient = value_and_gradient(specimen.build(), views, columns)
    exact, exact_gradient = value_and_gradient(specimen.build(), wide_views, wide_columns)
    assert apart(value, exact) < 1e-4 or (value - exact).abs() < 1e-6
    size = max(float(exact_gradient.norm()), 1e-2)
    assert float((gradient - exact_gradient).norm()) < 1e-3 * size


def test_every_loss_of_the_registry_is_tried():
    tried = {type(each.build()) for each in specimens.SPECIMENS + specimens.PREDICTIONS}
    registered = {loss_class(name) for name in LOSSES} - {losses.SumOfObjectives}
    assert tried == registered


@pytest.mark.parametrize("name", ["float64", "no gradients", "bfloat16"])
def test_switches_of_pytorch_change_no_value(specimen, name):
    (views, columns), _ = single_and_double(*random_batch_with_columns())
    expected = specimen.build()(views[0], views[1], columns)
    switches = {
        "float64": other_default,
        "no gradients": torch.no_grad,
        "bfloat16": lambda: torch.autocast("cpu", torch.bfloat16),
    }
    with switches[name]():
        value = specimen.build()(views[0], views[1], columns)
    assert value.dtype == expected.dtype == torch.float32
    torch.testing.assert_close(value, expected, rtol=1e-6, atol=0)


def random_batch_with_columns():
    """Return two views and their columns."""
    z1, z2, metadata = random_batch(64, DIMENSIONS, seed=3)
    return [z1, z2], metadata


@contextmanager
def other_default():
    """Set float64 as the default, as a user's program does."""
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)
