"""Any number of views, weights and values of anchors, temperatures that learn, and the digits of a loss near 0."""

import inspect
import math

import pytest
import torch

from neurocontrast import kernels, losses
from neurocontrast.exceptions import ConfigError, DataError
from tests.losses import naive
from tests.losses.specimens import random_batch

TIGHT = {"rtol": 1e-10, "atol": 1e-10}
WEIGHTS = torch.tensor([0.5, 2.0, 0.0, 1.0, 3.0, 1.0], dtype=torch.float64)


def _views(n_views, n=6):
    """Views and metadata; the first scan's label and cluster are its own."""
    z1, z2, metadata = random_batch(n, 5, seed=0, n_labels=2)
    for name in ("label", "cluster"):
        metadata[name][0] = 7
    return [z1, z2, random_batch(n, 5, seed=1)[0]][:n_views], metadata


def _numbers_of_views(loss):
    fewest, most = loss.n_views
    return range(fewest, (most or 3) + 1)


def _assert_equal(loss, expected, views, metadata, hold, **options):
    """Value, parts and gradient are those of the loops, at once and in tiles."""
    wanted = torch.autograd.grad(expected.square().sum(), views)
    for tile in (None, 5):
        hold(tile)
        value = loss(views if tile else torch.stack(views), None, metadata, **options)
        torch.testing.assert_close(value, expected, **TIGHT)
        torch.testing.assert_close(
            sum(loss.terms(views, None, metadata, **options).values()), expected, **TIGHT
        )
        for got, each in zip(torch.autograd.grad(value.square().sum(), views), wanted, strict=True):
            torch.testing.assert_close(got, each, rtol=1e-9, atol=1e-9)
    hold(None)


def test_any_number_of_views_equals_the_double_loop(hold, pooled):
    loss = pooled.build()
    for n_views in _numbers_of_views(loss):
        views, metadata = _views(n_views)
        _assert_equal(loss, pooled.reference(naive.Batch(views), metadata), views, metadata, hold)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_weighted_anchors_and_their_values_equal_the_double_loop(hold, pooled, reduction):
    loss = pooled.build()
    for n_views in {min(_numbers_of_views(loss)), max(_numbers_of_views(loss))}:
        views, metadata = _views(n_views)
        options = {"weights": WEIGHTS, "reduction": reduction}
        if reduction != "mean" and not loss.of_anchors:
            with pytest.raises(
                DataError, match=f"reduction must be 'mean' for {type(loss).__name__}"
            ):
                loss(views, None, metadata, **options)
            continue
        expected = pooled.reference(naive.Batch(views, WEIGHTS.tolist(), reduction), metadata)
        _assert_equal(loss, expected, views, metadata, hold, **options)


def test_values_of_anchors_have_the_loss_as_their_mean(specimen):
    loss = specimen.build()
    batch = random_batch(6, 5, seed=2)
    torch.testing.assert_close(loss(*batch, weights=[2.0] * 6), loss(*batch), **TIGHT)
    if loss.of_anchors:
        assert loss(*batch, weights=torch.zeros(6)).item() == 0
        values = loss(*batch, reduction="none")
        assert values.shape == ((1 if getattr(loss, "symmetric", True) is False else 2), 6)
        torch.testing.assert_close(values.mean(), loss(*batch), **TIGHT)
        torch.testing.assert_close(values.sum(), loss(*batch, reduction="sum"), **TIGHT)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ([1.0, 1.0], "one number a sample"),
        ([1.0, -1.0, 1.0], "at least 0"),
        ([1.0, torch.nan, 1.0], "finite"),
    ],
)
def test_weights_that_are_none_are_refused(wrong, message):
    with pytest.raises(DataError, match=message):
        losses.NTXent()(*random_batch(3, 4), weights=wrong)


def test_one_view_is_a_tensor_alone():
    (z,), metadata = _views(1)
    assert torch.equal(
        losses.SupCon("label")(z, None, metadata), losses.SupCon("label")([z], None, metadata)
    )


def test_one_scan_of_one_view_has_no_positive_and_no_loss(pooled):
    (z,), metadata = _views(1, n=1)
    if pooled.build().n_views[0] == 1:
        value = pooled.build()(z, None, metadata)
        assert value.item() == 0
        assert torch.autograd.grad(value, z)[0].abs().max() == 0


def test_other_numbers_of_views_are_refused_with_the_number(specimen):
    loss = specimen.build()
    fewest, most = loss.n_views
    views, metadata = _views(3)
    if fewest == 2:
        with pytest.raises(
            DataError, match=rf"^{type(loss).__name__} takes (at least )?2 views .* got 1\.$"
        ):
            loss(views[0], None, random_batch(6, 5)[2])
    if most == 2:
        with pytest.raises(
            DataError, match=rf"^{type(loss).__name__} takes 2 views of every scan, got 3\.$"
        ):
            loss(views, None, random_batch(6, 5)[2])
    with pytest.raises(DataError, match="got an empty list"):
        loss([], None, metadata)


def test_a_temperature_that_learns_has_its_exact_gradient(specimen, hold):
    """By finite differences; values and gradients of embeddings are those of the number."""
    z1, z2, metadata = random_batch(7, 5, seed=3, n_labels=2)
    loss = specimen.build()
    if specimen.name.startswith(("triplet", "alignment-uniformity")):
        return
    start = loss.temperature
    expected = torch.autograd.grad(loss(z1, z2, metadata), z1)[0]
    step = 1e-5 * start
    values = []
    for temperature in (start - step, start + step):
        loss.temperature = temperature
        values.append(loss(z1, z2, metadata).item())
    given = {name: getattr(loss, name) for name in inspect.signature(type(loss)).parameters}
    if hasattr(loss, "embedding_kernel"):
        given["kernel"] = loss.embedding_kernel
    learning = type(loss)(
        **{**given, "temperature": torch.nn.Parameter(torch.tensor(start, dtype=torch.float64))}
    )
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
    with pytest.raises(ConfigError, match=r"must be a torch\.nn\.Parameter"):
        losses.NTXent(temperature=torch.tensor(0.1, requires_grad=True))
    assert losses.NTXent(temperature=torch.tensor(0.5)).tau == 0.5


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
    z1 = torch.eye(3)[:1].requires_grad_()
    z2 = torch.eye(3)[1:2]
    terms = losses.AlignmentUniformity().terms(z1, z2)
    assert terms["uniformity"].item() == 0
    assert torch.autograd.grad(losses.AlignmentUniformity()(z1, z2), z1)[0].isfinite().all()
