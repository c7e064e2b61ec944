from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from neurocontrast.evaluation import SiteRecentring


def fit_site_shifts(x, sites, subjects):
    recentring = SiteRecentring("site", subject="subject")
    recentring.estimate(x, side(sites, subjects))
    return recentring


def side(sites, subjects):
    return pd.DataFrame({"site": sites, "subject": np.asarray(subjects).astype(str)})


def test_few_people_are_hardly_taken_for_a_site():
    generator = np.random.default_rng(0)
    x = generator.normal(size=(200, 50))
    shifts = fit_site_shifts(x, ["a"] * 100 + ["b"] * 100, np.arange(200))
    one = generator.normal(size=(1, 50))
    moved = shifts.adjust(one, side(["new"], ["someone"]))
    assert np.abs(moved - one).mean() < 0.35 * np.abs(one).mean()  # nothing but the person: nothing of a site
    far = shifts.adjust(one + 10, side(["new"], ["someone"]))
    assert np.abs(far).mean() < 1.0  # so far away that it must be the site


def test_a_subject_with_many_scans_counts_once():
    generator = np.random.default_rng(1)
    x = generator.normal(size=(40, 5))
    x[0] += 100.0
    sites, subjects = ["a"] * 20 + ["b"] * 20, [str(row) for row in range(40)]
    once = fit_site_shifts(x, sites, subjects)
    repeated = np.r_[np.zeros(9, dtype=int), np.arange(40)]
    often = fit_site_shifts(x[repeated], np.array(sites)[repeated], np.array(subjects)[repeated])
    np.testing.assert_allclose(once.shifts_, often.shifts_)


def test_a_new_site_is_moved_by_its_own_rows_and_keeps_what_age_explains():
    generator = np.random.default_rng(2)
    sites, age = np.repeat(["a", "b", "new"], 100), generator.uniform(20, 80, 300)
    age[200:] += 30
    x = 0.1 * age[:, None] + generator.normal(size=(300, 4)) + np.repeat([0, 3, 7], 100)[:, None]
    table = pd.DataFrame(x, columns=list("wxyz")).assign(site=sites, age=age)
    old = table["site"] != "new"

    def gap(**options) -> float:
        recentring = SiteRecentring("site", **options).fit(table[old] if options else table[old].drop(columns="age"))
        known = table if options else table.drop(columns="age")
        return float(recentring.transform(known[~old]).mean() - recentring.transform(known[old]).mean())

    assert gap() == pytest.approx(0.0, abs=0.2)
    assert gap(preserve=["age"]) == pytest.approx(3.0, abs=0.5)


def test_of_one_site_nothing_is_changed():
    x = np.random.default_rng(0).normal(size=(20, 3))
    np.testing.assert_array_equal(SiteRecentring().fit_transform(x), x)
