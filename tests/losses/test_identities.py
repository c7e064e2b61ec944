"""What must hold between the losses, whatever the batch."""

import math

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from neurocontrast import losses
from neurocontrast.kernels import Categorical, Different, Gaussian
from tests.losses import naive
from tests.losses.specimens import random_batch

few = settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
sizes = st.integers(2, 7)
seeds = st.integers(0, 10_000)
temperatures = st.sampled_from([0.02, 0.1, 0.5, 1.0])
LIKE_AGE = Gaussian("age", sigma=5.0)


def same(loss, other, z1, z2, metadata=None):
    """Two losses (or a loss and a function) agree in value and gradient."""
    a = loss(z1, z2, metadata)
    b = other(z1, z2, metadata)
    torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)
    for one, two in zip(
        torch.autograd.grad(a, (z1, z2)), torch.autograd.grad(b, (z1, z2)), strict=True
    ):
        torch.testing.assert_close(one, two, rtol=1e-9, atol=1e-9)


def distinct(metadata):
    n = len(metadata["label"])
    return metadata | {
        "label": torch.arange(n).flip(0),
        "age": 100.0 * torch.arange(n, dtype=torch.float64),
    }


def constant(metadata):
    return {name: column[:1].expand_as(column) for name, column in metadata.items()}


def as_it_is(metadata):
    return metadata


BOTH = losses.ConditionalAlignmentUniformity
OF_ALL = {"kernel": LIKE_AGE, "negatives": Different("cluster", within=1.0)}
OF_SITE = {"kernel": Gaussian("age", sigma=1e-6), "negatives": Categorical("cluster")}
LABEL = {"label": "label"}
NO_PRIOR = {"positive_prior": 0.0, "concentration": 0.0}
# Two losses that are one, of metadata that are changed.
PAIRS = [
    (losses.YAwareInfoNCE, {"kernel": Gaussian("age", sigma=1e-6)}, losses.NTXent, {}, as_it_is),
    (losses.YAwareInfoNCE, {"kernel": Categorical("label")}, losses.SupCon, LABEL, as_it_is),
    (losses.SupCon, LABEL, losses.NTXent, {}, distinct),
    (losses.SINCERE, LABEL, losses.NTXent, {}, distinct),
    (losses.EpsilonSupInfoNCE, {**LABEL, "epsilon": 0.0}, losses.SINCERE, LABEL, as_it_is),
    (losses.FairInfoNCE, {"cluster": "label"}, losses.NTXent, {}, constant),
    (losses.HardNegativeInfoNCE, NO_PRIOR, losses.NTXent, {}, as_it_is),
    (losses.HardNegativeInfoNCE, {"concentration": 0.0}, losses.DebiasedInfoNCE, {}, as_it_is),
    # Negatives that all are negatives; the own view as the one positive, within a site and for want
    # of another site.
    (losses.YAwareInfoNCE, OF_ALL, losses.YAwareInfoNCE, {"kernel": LIKE_AGE}, as_it_is),
    (BOTH, OF_ALL, BOTH, {"kernel": LIKE_AGE}, as_it_is),
    (losses.YAwareInfoNCE, OF_SITE, losses.FairInfoNCE, {"cluster": "cluster"}, as_it_is),
    (
        losses.YAwareInfoNCE,
        {"kernel": LIKE_AGE * Different("cluster")},
        losses.NTXent,
        {},
        constant,
    ),
]


@pytest.mark.parametrize(("one", "given_one", "other", "given_other", "change"), PAIRS)
@few
@given(sizes, seeds, temperatures, st.sampled_from([1.0, -1.0]), st.sampled_from([None, 3]))
def test_two_losses_are_one(
    hold, one, given_one, other, given_other, change, n, seed, t, sign, tile
):
    hold(tile)
    z1, z2, metadata = random_batch(n, 5, seed=seed)
    a = one(**given_one, temperature=t)
    b = other(**given_other, temperature=t)
    same(
        lambda x, y, m: a(x, sign * y, m),
        lambda x, y, m: b(x, sign * y, m),
        z1,
        z2,
        change(metadata),
    )


class TestYAware:
    @few
    @given(sizes, seeds, temperatures)
    def test_is_conditional_alignment_plus_global_uniformity(self, n, seed, t):
        def parts(z1, z2, metadata):
            alignment = losses.ConditionalAlignment(LIKE_AGE, temperature=t)(z1, z2, metadata)
            return alignment + losses.GlobalUniformity(temperature=t)(z1, z2) + math.log(2 * n - 1)

        same(losses.YAwareInfoNCE(LIKE_AGE, temperature=t), parts, *random_batch(n, 5, seed=seed))

    @few
    @given(sizes, seeds, temperatures)
    def test_exponential_repels_alike_scans_not_at_all(self, n, seed, t):
        """Of equal metadata only the pull is left; of unlike ones y-Aware, but that the own view repels nothing."""
        z1, z2, metadata = random_batch(n, 5, seed=seed)
        loss = losses.ExponentialYAware(LIKE_AGE, temperature=t)
        pull = losses.ConditionalAlignment(LIKE_AGE, temperature=t)
        same(loss, lambda a, b, m: pull(a, b, m) + math.log(2 * n - 1), z1, z2, constant(metadata))
        s, size, sample = naive.pool(z1, z2, t)
        others = [
            [torch.exp(s[i][j]) for j in range(size) if sample[j] != sample[i]] for i in range(size)
        ]
        pushed = sum(torch.log(1 + sum(each)) for each in others) / size
        value = losses.ExponentialYAware(Categorical("label"), temperature=t)(
            z1, z2, distinct(metadata)
        )
        cosine = torch.nn.functional.cosine_similarity(z1, z2).mean()
        torch.testing.assert_close(value, pushed - cosine / t, rtol=1e-10, atol=1e-10)

    @few
    @given(sizes, seeds, st.sampled_from([0.1, 0.5]))
    def test_sincere_never_repels_a_pair_of_one_label(self, n, seed, t):
        z1, z2, metadata = random_batch(n, 2 * n + 1, seed=seed)
        pull = similarity_gradient(losses.SINCERE("label", temperature=t), z1, z2, metadata)
        labels = metadata["label"].repeat(2)
        alike = labels[:, None] == labels
        assert pull[alike].max() <= 1e-9
        assert (pull[~alike] >= -1e-9).all()

    def test_supcon_repels_a_pair_of_one_label_that_is_close(self):
        """Three samples of a label, two of them almost the same: SupCon pushes these apart, SINCERE does not."""
        z1, z2, metadata = random_batch(4, 9, seed=1)
        metadata["label"] = torch.tensor([0, 0, 0, 1])
        z1 = z1.detach().clone()
        z1[1] = z1[0] + 0.3 * z1[1]
        z1.requires_grad_()
        supcon = similarity_gradient(losses.SupCon("label", temperature=0.1), z1, z2, metadata)
        sincere = similarity_gradient(losses.SINCERE("label", temperature=0.1), z1, z2, metadata)
        assert supcon[0, 1] > 1e-3
        assert sincere[0, 1] <= 1e-9


def similarity_gradient(loss, z1, z2, metadata):
    """∂L/∂s of every pair, read back from ∂L/∂z of linearly independent embeddings (d > 2n)."""
    pool = torch.nn.functional.normalize(torch.cat([z1, z2]).detach(), dim=1)
    n = len(z1)
    u1 = pool[:n].clone().requires_grad_()
    u2 = pool[n:].clone().requires_grad_()
    gradient = torch.cat(torch.autograd.grad(loss(u1, u2, metadata), (u1, u2)))
    pairs = torch.zeros(2 * n, 2 * n, dtype=torch.float64)
    for i in range(2 * n):
        others = [j for j in range(2 * n) if j != i]
        tangents = pool[others] - (pool[others] @ pool[i])[:, None] * pool[i]
        pairs[i, others] = torch.linalg.lstsq(tangents.T, gradient[i][:, None]).solution[:, 0]
    return pairs


@few
@given(sizes, seeds, st.sampled_from([0.1, 0.5]))
def test_distinct_conditions_give_infonce_and_a_constant(n, seed, t):
    """W → I: M_i is the own other view, so weak supervision is InfoNCE and fairness has nothing left to do."""
    z1, z2, metadata = random_batch(n, 5, seed=seed)
    weak = losses.WeaklySupervisedCCLK(Categorical("label"), temperature=t, ridge=1e-12)
    same(weak, losses.InfoNCE(temperature=t, symmetric=False), z1, z2, distinct(metadata))
    fair = losses.FairCCLK(Categorical("label"), temperature=t, ridge=1e-12)(
        z1, z2, distinct(metadata)
    )
    assert fair.item() == pytest.approx(math.log(n), abs=1e-9)


@pytest.mark.parametrize(
    ("loss", "gains"),
    [
        (losses.NTXent(), True),
        (losses.GlobalUniformity(), True),
        (losses.YAwareInfoNCE(LIKE_AGE * Different("site"), negatives=Categorical("site")), False),
        (BOTH(LIKE_AGE * Different("site"), negatives=Categorical("site")), False),
    ],
    ids=["ntxent", "uniformity", "yaware-across", "conditional-across"],
)
def test_what_telling_sites_apart_is_worth(loss, gains):
    """Scans that are crowded, as those of brains are at first: is the loss lower with a mark of the site on each?"""
    generator = torch.Generator().manual_seed(0)
    z = 2 + torch.randn(40, 16, generator=generator, dtype=torch.float64)
    z1, z2 = (
        z + 0.3 * torch.randn(40, 16, generator=generator, dtype=torch.float64) for _ in range(2)
    )
    site = torch.arange(40) % 2
    metadata = {
        "site": site,
        "age": 20 + 60 * torch.rand(40, generator=generator, dtype=torch.float64),
    }
    mark = torch.zeros(40, 16, dtype=torch.float64)
    mark[:, 0] = 2.0 * (2 * site - 1)
    z1[:, 0] = 0
    z2[:, 0] = 0
    assert (loss(z1 + mark, z2 + mark, metadata) < loss(z1, z2, metadata)) == gains
