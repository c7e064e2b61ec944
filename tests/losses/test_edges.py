"""Single losses at the edges of their formulas: nothing to tell apart, no weight, margins, floors, refusals."""

import math

import pytest
import torch

from neurocontrast import losses
from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.kernels import Categorical, Gaussian, Linear
from neurocontrast.losses.registry import loss_model
from tests.losses.specimens import random_batch

AGE = Gaussian("age", sigma=10.0)
PATHS = pytest.mark.parametrize("tile", [None, 3])
# Three weights of a sum that do not add up exactly in float32 must not make a dissimilar scan of an
# equal one.
MIXED = (
    0.1 * Categorical("label") + 0.2 * Gaussian("age", sigma=5.0) + 0.7 * Gaussian("age", sigma=3.0)
)


@PATHS
@pytest.mark.parametrize(
    ("loss", "value"),
    [
        (losses.SINCERE("label"), 0.0),
        (losses.EpsilonSupInfoNCE("label", epsilon=0.25), -0.25),
        (losses.Triplet("label"), 0.0),
        (losses.ConditionalUniformity(MIXED), 0.0),
    ],
    ids=lambda given: type(given).__name__,
)
def test_of_equal_metadata_nothing_is_left_to_learn(hold, loss, value, tile):
    hold(tile)
    z1, z2 = (z.detach().float().requires_grad_() for z in random_batch(5, 4)[:2])
    found = loss(
        z1, z2, {"label": torch.zeros(5, dtype=torch.int64), "age": torch.full((5,), 33.3)}
    )
    assert found.item() == pytest.approx(value)
    assert all(gradient.abs().max() < 1e-6 for gradient in torch.autograd.grad(found, (z1, z2)))


@PATHS
@pytest.mark.parametrize(
    "loss",
    [
        losses.ConditionalAlignment(Linear("y")),
        losses.YAwareInfoNCE(Linear("y"), negatives=Linear("y")),
    ],
)
def test_an_anchor_without_weight_counts_nothing(hold, tile, loss):
    """A linear kernel may give a scan no weight at all, not even with itself."""
    hold(tile)
    z1, z2 = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    y = {"y": torch.tensor([0.0, 1.0, 2.0, 1.0], dtype=torch.float64)}
    value = loss(z1.requires_grad_(), z2, y)
    assert value.isfinite()
    assert torch.autograd.grad(value, z1)[0][0].abs().max() == 0
    assert torch.autograd.gradcheck(lambda a: loss(a, z2, y), (z1,))


@PATHS
def test_a_scan_whose_site_has_no_other_in_the_batch_is_pushed_by_nobody(hold, tile):
    """In conditional uniformity it is left out, and with nobody left the loss is 0 without gradient."""
    hold(tile)
    z1, z2, metadata = random_batch(5, 4, seed=4)
    metadata["site"] = torch.tensor([0, 0, 1, 1, 2])
    loss = losses.ConditionalUniformity(AGE, negatives=Categorical("site"))
    gradient = torch.autograd.grad(loss(z1, z2, metadata), z1)[0]
    assert not gradient[4].any()
    assert gradient[:4].abs().amax(1).min() > 0
    metadata["site"] = torch.arange(5)
    value = loss(z1, z2, metadata)
    assert value == 0
    assert not torch.autograd.grad(value, z1)[0].any()


@PATHS
def test_the_floor_of_the_debiased_correction(hold, tile):
    """Twins that agree leave no room for negatives: each counts e^(−1/τ), and pushes no further."""
    hold(tile)
    z = torch.eye(4, dtype=torch.float64).requires_grad_()
    value = losses.DebiasedInfoNCE(temperature=0.1, positive_prior=0.1)(z, z)
    assert value.item() == pytest.approx(math.log1p(6 * math.exp(-10) / math.exp(10)))
    assert torch.autograd.grad(value, z)[0].abs().max() < 1e-6


def test_triplets_that_are_satisfied_give_nothing_and_collapsed_ones_the_margin():
    apart = torch.eye(2, requires_grad=True)
    z = torch.ones(4, 3, requires_grad=True)
    assert losses.Triplet("label", margin=0.5)(apart, apart, {"label": torch.tensor([0, 1])}) == 0
    value = losses.Triplet("label", margin=0.3)(z, z, {"label": torch.tensor([0, 0, 1, 1])})
    assert value.item() == pytest.approx(0.3)
    assert torch.isfinite(torch.autograd.grad(value, z)[0]).all()


def test_the_margin_of_epsilon_supinfonce_is_a_part_of_its_own():
    terms = losses.EpsilonSupInfoNCE("label", epsilon=0.4).terms(*random_batch(6, 4))
    assert terms["margin"].item() == pytest.approx(-0.4)


# --- InfoNCE across views
# --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("symmetric", [True, False])
@PATHS
def test_several_views_are_averaged_over_their_pairs(hold, symmetric, tile):
    hold(tile)
    a, b, _ = random_batch(7, 4, seed=0)
    c, d, _ = random_batch(7, 4, seed=1)
    loss = losses.InfoNCE(symmetric=symmetric)
    pairs = [(a, b), (a, c), (a, d), (b, c), (b, d), (c, d)]
    expected = sum(loss(x, y) for x, y in pairs) / 6
    torch.testing.assert_close(loss([a, b, c, d]), expected, rtol=1e-12, atol=1e-12)
    gradients = [torch.autograd.grad(value, (b, c)) for value in (loss([a, b, c, d]), expected)]
    torch.testing.assert_close(*gradients, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("temperature", [1.0, 0.05])
@pytest.mark.parametrize("symmetric", [True, False])
def test_raw_inner_products_are_those_of_the_embeddings_as_they_are(hold, symmetric, temperature):
    z1, z2, _ = random_batch(7, 4)
    scores = z1 @ z2.T / temperature
    one_way = torch.nn.functional.cross_entropy
    expected = one_way(scores, torch.arange(7))
    expected = (expected + one_way(scores.T, torch.arange(7))) / 2 if symmetric else expected
    wanted = torch.autograd.grad(expected, (z1, z2), retain_graph=True)
    for tile in (None, 4):
        hold(tile)
        loss = losses.InfoNCE(temperature=temperature, symmetric=symmetric, normalise=False)(z1, z2)
        torch.testing.assert_close(loss, expected, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(
            torch.autograd.grad(loss, (z1, z2)), wanted, rtol=1e-10, atol=1e-12
        )
    z = 100 * torch.eye(3)
    large = losses.InfoNCE(temperature=0.1, normalise=False)
    assert (large(z, z).item(), large(z, -z).item()) == (0, pytest.approx(1e5 + math.log(2)))


# --- settings and metadata
# -------------------------------------------------------------------------------------------
def test_settings_that_nobody_gives_are_those_of_the_papers():
    given = {"temperature": 0.5, "positive_prior": 0.1}
    assert loss_model("debiased")().model_dump().items() >= given.items()
    assert (
        loss_model("hard_negative")().model_dump().items()
        >= {**given, "concentration": 1.0}.items()
    )


def test_columns_of_both_kernels_are_read_checked_and_fitted():
    loss = losses.YAwareInfoNCE(
        AGE, negatives=Gaussian("score", sigma="scott") * Categorical("site")
    )
    assert loss.columns == {"age": "continuous", "score": "continuous", "site": "categorical"}
    metadata = {
        "age": torch.arange(4.0),
        "score": torch.arange(4.0),
        "site": torch.tensor([0, 0, 1, -1]),
    }
    with pytest.raises(DataError, match="'site' is missing for 1 row: sub-3"):
        loss.check(metadata, names=[f"sub-{i}" for i in range(4)])
    metadata["site"][3] = 1
    loss.fit(metadata)
    assert loss(torch.eye(4), torch.eye(4), metadata).isfinite()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: losses.DebiasedInfoNCE(positive_prior=1.0), "positive_prior"),
        (lambda: losses.DebiasedInfoNCE(positive_prior=-0.1), "positive_prior"),
        (lambda: losses.HardNegativeInfoNCE(concentration=-1.0), "concentration"),
        (lambda: losses.Triplet("label", margin=-0.1), "margin"),
        (lambda: losses.EpsilonSupInfoNCE("label", epsilon=-1), "epsilon must be greater than or equal to 0"),
        (lambda: losses.YAwareInfoNCE("age"), "kernel must be a kernel on metadata"),
        (lambda: losses.YAwareInfoNCE(AGE, negatives="site"), "negatives must be a kernel on metadata"),
        (lambda: losses.ConditionalUniformity(AGE, negatives=Categorical("age")), "'age' is read both as"),
        (lambda: losses.HardNegativeCCLK(Gaussian("age", sigma=5.0)), "'embedding' alone"),
        (lambda: losses.HardNegativeCCLK(Gaussian("embedding", sigma="scott")), "sigma must be a number"),
        (lambda: losses.FairCCLK("age"), "kernel must be a kernel"),
        (lambda: losses.WeaklySupervisedCCLK(AGE, ridge=0.0), "ridge"),
    ],
)  # fmt: skip
def test_settings_that_no_loss_can_have_are_named(build, message):
    with pytest.raises(ConfigError, match=message):
        build()


@pytest.mark.parametrize(
    ("loss", "column", "message"),
    [
        *((kind("label"), "label", "'label' is missing for 1 row: {}")
          for kind in (losses.SupCon, losses.SINCERE, losses.EpsilonSupInfoNCE, losses.Triplet)),
        *((kind("age"), "age", "'age' is missing or infinite for 1 row: {}")
          for kind in (losses.RankNContrast, losses.Supervised)),
        (losses.Supervised("label", error="cross-entropy"), "label", "missing or infinite for 1 row: {}"),
    ],
)  # fmt: skip
def test_missing_metadata_are_refused_with_their_rows(loss, column, message):
    z1, z2, metadata = random_batch(4, 3)
    for wrong in (torch.nan, torch.inf) if column == "age" else (-1,):
        metadata[column][2] = wrong
        if not isinstance(loss, losses.Supervised):  # which is checked on the cohort alone
            with pytest.raises(DataError, match=message.format(2)):
                loss(z1, z2, metadata)
        with pytest.raises(DataError, match=message.format("sub-c")):
            loss.check(metadata, names=["sub-a", "sub-b", "sub-c", "sub-d"])


def test_a_vector_is_no_target():
    for kind in (losses.RankNContrast, losses.Supervised):
        with pytest.raises(DataError, match="'scores' is a vector"):
            kind("scores").check(random_batch(4, 3)[2])
