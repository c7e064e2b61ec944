from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from neurocontrast.evaluation import ComBat


def side(sites, covariates=None):
    return (
        pd.DataFrame(np.zeros((len(sites), 0)) if covariates is None else covariates).add_prefix("c").assign(site=sites)
    )


def fit_combat(x, sites, covariates=None):
    table = side(sites, covariates)
    combat = ComBat("site", preserve=list(table.columns[:-1]), handle_unknown="ignore")
    combat.estimate(x, table)
    return combat


def apply(combat, x, sites, covariates=None):
    return combat.adjust(x, side(sites, covariates))


ORACLE = Path(__file__).parents[1] / "oracles" / "combat.json"


@pytest.mark.parametrize(("rule", "tolerance"), [("tightened", 1e-6), ("as_released", 1e-4)])
@pytest.mark.parametrize("preserved", ["alone", "age_sex"])
def test_it_is_neuroharmonize_on_the_scans_it_learned_from_and_on_others(rule, tolerance, preserved):
    made = json.loads(ORACLE.read_text(encoding="utf-8"))
    x, sites, train = np.array(made["x"]), np.array(made["sites"]), np.array(made["train"])
    covariates = np.column_stack([made["age"], made["sex"]])[:, : 2 if preserved == "age_sex" else 0]
    names = ["age", "sex"][: covariates.shape[1]]
    features, extra = pd.DataFrame(x).add_prefix("f"), pd.DataFrame(covariates, columns=names)
    table = pd.concat([features, extra], axis=1).assign(site=sites)
    combat = ComBat("site", preserve=names).fit(table[train])
    expected = made["harmonised"][rule][preserved]
    for part, rows in (("train", train), ("test", ~train)):
        found = combat.transform(table[rows])
        np.testing.assert_allclose(found, expected[part], atol=tolerance, rtol=0)
        assert np.abs(found - x[rows]).max() > 1


@pytest.fixture(scope="module")
def shifted():
    generator = np.random.default_rng(1)
    sites = np.repeat(["a", "b", "c"], 60)
    age = generator.uniform(20, 80, 180)
    shift, spread = generator.normal(size=(3, 30)), np.exp(0.4 * generator.normal(size=(3, 30)))
    places = np.repeat([0, 1, 2], 60)
    x = 0.05 * age[:, None] + spread[places] * generator.normal(size=(180, 30)) + 3 * shift[places]
    return x, sites, age[:, None]


def test_units_do_not_matter(shifted):
    x, sites, age = shifted
    plain = apply(fit_combat(x, sites, age), x, sites, age)
    np.testing.assert_allclose(apply(fit_combat(1e3 * x, sites, age), 1e3 * x, sites, age), 1e3 * plain, rtol=1e-6)
    days = 365.25 * age + 1e6
    np.testing.assert_allclose(apply(fit_combat(x, sites, days), x, sites, days), plain, rtol=1e-5)


def test_a_site_with_hardly_a_scan_stays_as_it_is(shifted):
    x, sites, _ = shifted
    kept = np.r_[0:60, 60:120, 120:122]
    model = fit_combat(x[kept], sites[kept])
    assert model.sites_.tolist() == ["a", "b"]
    np.testing.assert_array_equal(apply(model, x[120:122], sites[120:122]), x[120:122])
    np.testing.assert_allclose(
        apply(model, x[:60], sites[:60]), apply(fit_combat(x[:120], sites[:120]), x[:60], sites[:60])
    )
    assert fit_combat(x[[0, 60, 120]], ["a", "b", "c"]).sites_.tolist() == []


def test_constant_features_one_feature_and_collinear_covariates_give_numbers(shifted):
    x, sites, age = shifted
    flat = np.column_stack([np.full(180, 7.0), x[:, :5]])
    sex = np.tile([[1.0, 0.0], [0.0, 1.0]], (90, 1))
    found = apply(fit_combat(flat, sites, np.column_stack([age, sex])), flat, sites, np.column_stack([age, sex]))
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found[:, 0], 7.0)
    one = apply(fit_combat(x[:, :1], sites), x[:, :1], sites)
    np.testing.assert_allclose([one[sites == site].mean() for site in "abc"], x[:, 0].mean())


def test_sites_that_were_not_learned_are_refused_or_stay_as_they_are(shifted):
    x, sites, age = shifted
    table = pd.DataFrame(x).add_prefix("f").assign(site=sites, age=age[:, 0])
    known = table["site"] != "c"
    with pytest.raises(ValueError, match="site 'c' has fewer than 3 rows in fit"):
        ComBat("site", preserve=["age"]).fit(table[known]).transform(table)
    with pytest.raises(ValueError, match="site 'c' has fewer than 3 rows in fit"):
        ComBat("site", preserve=["age"]).fit(table[:122])
    left = ComBat("site", preserve=["age"], handle_unknown="ignore").fit(table[known]).transform(table)
    np.testing.assert_array_equal(left[~known], x[~known])
    old = x[known], sites[known], age[known]
    np.testing.assert_allclose(left[known], apply(fit_combat(*old), *old))
