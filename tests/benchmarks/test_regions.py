"""Parts of ``benchmarks/regions``: who learns, who chooses, and who is judged."""

import numpy as np
import pandas as pd
import pytest

from benchmarks.regions import data


@pytest.fixture
def sites():
    sizes = [3, *range(12, 50)]
    named = [f"s{place:02d}" for place, size in enumerate(sizes) for _ in range(size)]
    return pd.Series(np.random.default_rng(0).permutation(named))


def test_choosing_sites_are_never_judged_and_every_other_large_one_is_once(sites):
    chosen = data.choosing_sites(sites)
    assert len(chosen) == 8
    for seed in range(5):
        groups = data.deal_sites(sites, seed)
        judged = [site for group in groups for site in group]
        assert not set(judged) & set(chosen)
        assert sorted([*judged, *chosen, "s00"]) == sorted(set(sites))
        assert len(groups) == 5
    assert data.deal_sites(sites, 0) != data.deal_sites(sites, 1)
    assert data.choosing_sites(sites.sample(frac=1, random_state=1)) == chosen


def test_a_fold_learns_nothing_of_the_sites_left_out_and_holds_back_a_tenth(sites):
    left_out = data.deal_sites(sites, 0)[0]
    fold = data.make_fold(sites, left_out, 0)
    assert sorted(np.concatenate(fold)) == list(range(len(sites)))
    assert set(sites[fold.new]) == set(left_out)
    assert not set(sites[fold.learned]) & set(left_out)
    assert 0.07 < len(fold.home) / (len(fold.home) + len(fold.learned)) < 0.13


def test_measures_are_scaled_by_those_learned_from_alone():
    random = np.random.default_rng(0)
    measures = pd.DataFrame(random.normal(5, 2, (60, 3)), columns=["a", "b", "c"])
    measures.iloc[0, 0] = np.nan
    learned = np.arange(40)
    before = data.standardise(measures, learned)
    measures.iloc[50:] += 1000
    after = data.standardise(measures, learned)
    np.testing.assert_array_equal(before[:50], after[:50])
    assert after[50:].max() == 5
    filled = measures["a"][:40].fillna(measures["a"][:40].median())
    assert before[0, 0] == pytest.approx((filled[0] - filled.mean()) / filled.std(), abs=1e-5)
