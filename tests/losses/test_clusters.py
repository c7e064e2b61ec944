"""k-means clusters of a condition."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from neurocontrast import losses
from neurocontrast.exceptions import ConfigError, DataError


@pytest.fixture
def cohort():
    generator = torch.Generator().manual_seed(0)
    young = torch.tensor([20.0] * 10 + [70.0] * 10) + torch.randn(20, generator=generator)
    return {"age": young, "sex": torch.arange(20) % 2, "scores": torch.randn(20, 2, generator=generator)}


def test_groups_are_found_and_the_columns_kept(cohort):
    found = losses.add_clusters(cohort, columns=["age"], n_clusters=2)
    assert set(found) == {*cohort, "cluster"}
    assert "cluster" not in cohort
    assert found["cluster"].dtype == torch.int64
    assert len(set(found["cluster"][:10].tolist())) == 1
    assert len(set(found["cluster"].tolist())) == 2


def test_the_same_seed_gives_the_same_clusters(cohort):
    one, two = (losses.add_clusters(cohort, columns=["scores"], n_clusters=4, seed=3)["cluster"] for _ in range(2))
    assert one.tolist() == two.tolist()


def test_a_unit_of_measurement_changes_nothing(cohort):
    in_days = cohort | {"age": cohort["age"] * 365.25}
    one, two = (
        losses.add_clusters(table, columns=["age", "scores"], n_clusters=3)["cluster"] for table in (cohort, in_days)
    )
    assert one.tolist() == two.tolist()


def test_categories_are_not_an_order(cohort):
    site = torch.tensor([0, 1, 2, 3] * 5)
    clusters = losses.add_clusters({"site": site}, columns=["site"], n_clusters=4)["cluster"]
    assert ((clusters[:, None] == clusters) == (site[:, None] == site)).all()


def test_train_the_baselines_on_them(cohort):
    found = losses.add_clusters(cohort, columns=["age", "sex"], n_clusters=4)
    z = torch.randn(20, 8, generator=torch.Generator().manual_seed(1))
    for loss in (losses.SupCon("cluster"), losses.FairInfoNCE("cluster")):
        assert torch.isfinite(loss(z, z, found))


def test_missing_values_are_named_all_at_once(cohort):
    cohort["age"][[2, 5]] = torch.nan
    with pytest.raises(DataError, match=r"'age' has no finite value in 2 row\(s\): sub-2, sub-5"):
        losses.add_clusters(cohort, columns=["age"], n_clusters=2, names=[f"sub-{i}" for i in range(20)])
    with pytest.raises(DataError, match=r"'sex' .*: 1\."):
        losses.add_clusters({"sex": torch.tensor([0, -1, 1])}, columns=["sex"], n_clusters=2)


def test_what_cannot_be_used_is_named(cohort):
    with pytest.raises(ConfigError, match=r"'ages'\. Did you mean 'age'"):
        losses.add_clusters(cohort, columns=["ages"], n_clusters=2)
    with pytest.raises(ConfigError, match="distinct conditions, here 2, got 3"):
        losses.add_clusters(cohort, columns=["sex"], n_clusters=3)
    with pytest.raises(ConfigError, match="n_clusters"):
        losses.add_clusters(cohort, columns=["sex"], n_clusters=0)
    with pytest.raises(ConfigError, match="not there yet, got 'age'"):
        losses.add_clusters(cohort, columns=["sex"], n_clusters=2, name="age")
    with pytest.raises(ConfigError, match="at least one column"):
        losses.add_clusters(cohort, columns=[], n_clusters=2)


def test_the_losses_do_not_import_scikit_learn():
    code = "import sys, neurocontrast.losses; sys.exit('sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
