"""The kernel that is 1 across sites: its own scans, its blocks, what is missing, and where it is refused."""

from __future__ import annotations

import pytest
import torch

from neurocontrast import losses
from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.kernels import Categorical, ConditionalEmbedding, Different, Gaussian

SITE = {"site": torch.tensor([0, 0, 1, 2]), "age": torch.tensor([20.0, 21.0, 20.0, 60.0])}


def test_across_sites_in_full_within_one_by_choice_and_itself_always():
    expected = torch.tensor([[1.0, 0.3, 1, 1], [0.3, 1, 1, 1], [1, 1, 1, 1], [1, 1, 1, 1]])
    torch.testing.assert_close(Different("site", within=0.3)(SITE), expected)
    assert torch.equal(Different("site", within=1.0)(SITE), torch.ones(4, 4))
    assert Different("site").supremum == 1
    assert Different("site").columns == {"site": "categorical"}


def test_a_factor_of_a_product_keeps_the_own_view_a_positive():
    kernel = Gaussian("age", sigma=5.0) * Different("site")
    weights = kernel(SITE)
    assert torch.equal(weights.diagonal(), torch.ones(4))
    assert weights[0, 1] == 0
    assert weights[0, 2] == 1


def test_a_block_knows_a_scan_with_itself_by_its_place():
    kernel = 2.0 * (Gaussian("age", sigma=5.0) * Different("site")) + Categorical("site")
    whole, block = kernel(SITE), kernel.bind(SITE, SITE)
    for i, j in ((slice(2, 4), slice(None)), (slice(1, 2), slice(2, 4)), (slice(1, 3), slice(0, 2))):
        torch.testing.assert_close(block(i, j), whole[i, j])


def test_between_other_scans_nobody_is_itself():
    rows = {"site": torch.tensor([0, 1])}
    assert torch.equal(Different("site")(rows, {"site": torch.tensor([0, 1])}), torch.tensor([[0.0, 1], [1, 0]]))


def test_a_missing_site_takes_the_chance_of_another_site_and_stays_alike_to_itself():
    site = {"site": torch.tensor([0, 0, 1, -1])}
    weights = Different("site", missing="marginal")(site)
    torch.testing.assert_close(weights[3, :3], torch.full((3,), 4 / 6))
    assert torch.equal(weights.diagonal(), torch.ones(4))
    with pytest.raises(DataError, match="'site' is missing for 1 row: 3"):
        Different("site")(site)


@pytest.mark.parametrize("within", [-0.1, 1.1, float("nan"), True, "0.5"])
def test_within_is_a_part(within):
    with pytest.raises(ConfigError, match="within must be "):
        Different("site", within=within)


@pytest.mark.parametrize(
    "kernel",
    [Different("site"), Gaussian("age", sigma=5.0) * Different("site"), Categorical("sex") + Different("site")],
    ids=["alone", "product", "sum"],
)
def test_a_conditional_embedding_refuses_what_is_not_positive_semidefinite(kernel):
    assert torch.linalg.eigvalsh(Different("site")(SITE)).min() < -0.1
    for use in (ConditionalEmbedding, losses.FairCCLK, losses.WeaklySupervisedCCLK):
        with pytest.raises(ConfigError, match=r"positive semi-definite kernel, and Different\('site'\) is none"):
            use(kernel)
    assert losses.FairCCLK(Different("site", within=1.0)).kernel is not None
