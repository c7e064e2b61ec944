"""Batches that are balanced: what they hold, that nothing but seed and epoch decides, and what cannot be balanced."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest
from several import run_in
from tiny import SITES, assert_resumes, data, rows_of, run, settings, views

from neurocontrast.data.batches import even_batches
from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.seeds import derive_generator
from neurocontrast.training import TrainingData, TrainingSettings
from neurocontrast.training.sampling import Sampler, bins_for, build_sampler, deal, strata_of


def text(values):
    return np.array(values, dtype=object)


@pytest.fixture
def hospitals():
    """Three sites of 92, 14 and 72 scans, ages that overlap in part, shuffled."""
    generator = np.random.default_rng(0)
    place = generator.permutation(178)
    sites = text(["london"] * 92 + ["ucla"] * 14 + ["novosibirsk"] * 72)[place]
    ages = np.concatenate([generator.uniform(20, 86, 92), generator.uniform(20, 55, 86)])[place]
    return {"site": sites, "age": ages, "sex": text(generator.choice(["F", "M"], 178))}


def sampler_of(traits, method, seed=0, rows=None, **changes):
    rows = range(len(traits["site"])) if rows is None else rows
    chosen = TrainingSettings(sampling=method, **{"batch_size": 32, **changes})
    names = [f"sub-{row}" for row in range(len(traits["site"]))]
    return build_sampler(list(rows), traits, settings=chosen, seed=seed, names=names)


def test_shuffled_batches_are_those_of_every_run_before():
    rows = [3, 9, 4, 7, 11, 12, 40, 2, 5]
    order = derive_generator("order", 5, 2).permutation(len(rows))
    assert Sampler(rows, 4, 5).batches(2) == even_batches([rows[place] for place in order], 4)
    assert Sampler(rows, 4, 5).occasion(2, 1) == 2


@pytest.mark.parametrize("method", ["site-balanced", "metadata-balanced"])
def test_an_epoch_has_the_steps_of_a_shuffled_one_and_no_scan_twice_in_a_batch(hospitals, method):
    sampler = sampler_of(hospitals, method)
    shuffled = sampler_of(hospitals, "shuffle")
    for epoch in range(5):
        batches = sampler.batches(epoch)
        assert sorted(map(len, batches)) == sorted(map(len, shuffled.batches(epoch)))
        assert all(len(set(batch)) == len(batch) for batch in batches)
        assert max(Counter(row for batch in batches for row in batch).values()) <= 4


def test_sites_are_as_even_as_the_repeats_of_a_small_one_allow(hospitals):
    batches = sampler_of(hospitals, "site-balanced").batches(0)
    totals = Counter(site for batch in batches for site in hospitals["site"][batch])
    assert totals == {"ucla": 56, "london": 61, "novosibirsk": 61}
    for batch in batches:
        counts = Counter(hospitals["site"][batch])
        assert set(counts.values()) <= {9, 10, 11}
        assert counts["ucla"] in (9, 10)


def test_age_and_sex_are_even_and_sites_within_them(hospitals):
    sampler = sampler_of(hospitals, "metadata-balanced", batch_size=18)
    old = np.quantile(hospitals["age"], [1 / 3, 2 / 3])
    strata = np.searchsorted(old, hospitals["age"], side="right") * 2 + (hospitals["sex"] == "F")
    natural = Counter(strata.tolist())
    balanced = Counter()
    for batch in sampler.batches(0):
        counts = Counter(strata[batch].tolist())
        assert len(counts) == 6
        assert max(counts.values()) - min(counts.values()) <= 1
        balanced.update(counts)
    assert (
        max(balanced.values()) - min(balanced.values())
        <= 1
        < max(natural.values()) - min(natural.values())
    )
    young = Counter(
        hospitals["site"][
            [row for batch in sampler.batches(0) for row in batch if strata[row] == 0]
        ]
    )
    assert young["london"] < young["ucla"] + young["novosibirsk"]


def test_seed_and_epoch_alone_decide(hospitals):
    first = sampler_of(hospitals, "site-balanced")
    again = sampler_of(hospitals, "site-balanced")
    assert first.batches(4) == again.batches(4)
    assert first.batches(4) != first.batches(5)
    assert first.batches(4) != sampler_of(hospitals, "site-balanced", seed=1).batches(4)


def test_a_batch_of_one_group_has_scans_of_one_combination_and_each_scan_is_drawn_once(hospitals):
    sampler = sampler_of(hospitals, "one-group", sampling_columns=("site", "sex"))
    for epoch in (0, 1):
        batches = sampler.batches(epoch)
        assert sorted(row for batch in batches for row in batch) == list(range(178))
        for batch in batches:
            assert 2 <= len(batch) <= 32
            assert len({(hospitals["site"][row], hospitals["sex"][row]) for row in batch}) == 1
    assert sampler.batches(0) != sampler.batches(1)
    assert sampler.occasion(3, 1) == 3


def test_validation_scans_are_not_drawn(hospitals):
    rows = range(0, 178, 2)
    batches = sampler_of(hospitals, "metadata-balanced", rows=rows).batches(0)
    assert {row for batch in batches for row in batch} <= set(rows)


def test_deal_by_hand():
    strata = [[[0, 1, 2, 3, 4, 5], [6]], [[7, 8]]]
    batches = deal(strata, 3, np.random.default_rng(0), most_repeats=2)
    assert [len(batch) for batch in batches] == [3, 3, 3]
    drawn = Counter(row for batch in batches for row in batch)
    assert drawn[6] == 2  # half of five draws, but twice at most
    assert sum(drawn[row] for row in range(7)) == 5
    assert {drawn[7], drawn[8]} == {2}


def test_bins_leave_room_for_sites_to_meet():
    place = np.arange(60)
    table = pd.DataFrame({"age": place.astype(float), "sex": ["F", "M"] * 30, "site": place % 3})
    assert bins_for(table, batch_size=8) == 2
    assert bins_for(table.assign(site=place % 20), batch_size=32) == 5
    ages = table[["age", "site"]]
    assert bins_for(ages.assign(site=place % 2), batch_size=512) == 10
    assert bins_for(ages.assign(score=ages["age"]), batch_size=48) == 4
    assert len(strata_of(ages, n_bins=4)) == 4


BALANCED = {"sampling": "site-balanced", "epochs": 2}


class TestRuns:
    def test_a_scan_that_repeats_has_new_views(self, tmp_path):
        seen = []

        def recording(volumes, names, *, epoch):
            seen.extend((epoch, name) for name in names)
            return views(volumes, names, epoch=epoch)

        run(tmp_path, made_views=recording, given=data(validation_rows=()), **BALANCED)
        training = [key for key in seen if key[0] >= 0]
        assert len(training) == 20
        assert max(Counter(name for _, name in training).values()) > 2
        assert len(set(training)) == 20

    def test_resumed_within_an_epoch_it_is_the_run(self, tmp_path):
        assert "epoch-0000-batch-000002.pt" in assert_resumes(tmp_path, 2, **BALANCED)[1]

    @pytest.mark.slow
    def test_two_processes_share_the_same_batches(self, tmp_path):
        one = run_in(1, tmp_path / "one", learning_rate=1e-3, **BALANCED)
        two = run_in(2, tmp_path / "two", learning_rate=1e-3, **BALANCED)
        for row, expected in zip(rows_of(two), rows_of(one), strict=True):
            assert float(row["train_loss"]) == pytest.approx(
                float(expected["train_loss"]), rel=1e-5
            )


class TestWhatCannotBeBalanced:
    def test_scans_of_which_something_is_not_known_are_all_named(self):
        traits = {
            "site": text(["a", None, "b", "b"]),
            "age": np.array([20, 30, np.nan, 40.0]),
            "sex": text(["F"] * 4),
        }
        with pytest.raises(DataError, match=r"'site' is missing for 'sub-1'\. Fill"):
            sampler_of(traits, "site-balanced", batch_size=2)
        with pytest.raises(DataError, match=r"'age' is missing for 'sub-2'; 'site' .* 'sub-1'"):
            sampler_of(traits, "metadata-balanced", batch_size=2)
        assert sampler_of(traits, "shuffle", batch_size=2).batches(0)

    def test_groups_are_of_categories_and_of_two_scans_at_least(self):
        traits = {
            "site": text(["a", "b", "b"]),
            "age": np.array([20, 30, 40.0]),
            "scanner": text(["x", None, "x"]),
        }
        with pytest.raises(DataError, match=r"every combination of site\. There is one of 'a'"):
            sampler_of(traits, "one-group", sampling_columns=("site",), batch_size=2)
        with pytest.raises(ConfigError, match="columns of categories, and 'age' holds numbers"):
            sampler_of(traits, "one-group", sampling_columns=("age",), batch_size=2)
        with pytest.raises(DataError, match=r"'scanner' is missing for 'sub-1'\."):
            sampler_of(traits, "one-group", sampling_columns=("scanner",), batch_size=2)

    def test_batches_that_are_too_small_for_the_processes(self):
        traits = {"sex": text(["F"] * 9 + ["M"] * 2)}
        names = [f"sub-{row}" for row in range(11)]
        given = TrainingData([], names, {}, range(11), traits=traits)
        four = {"batch_size": 8, "devices": 4}
        assert len(given.sampler(TrainingSettings(**four), 0).batches(0)) == 2
        with pytest.raises(
            ConfigError, match="batches of 2 or more, and each of the 4 processes needs 1"
        ):
            given.sampler(
                TrainingSettings(**four, sampling="one-group", sampling_columns=("sex",)), 0
            )

    def test_one_site_is_not_balanced(self):
        with pytest.raises(
            ConfigError,
            match="needs at least two sites among the training scans, and all are of 'rome'",
        ):
            sampler_of({"site": SITES}, "site-balanced", rows=range(6))

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            (
                {"sampling_columns": ("sex",)},
                "sampling_columns belongs to metadata-balanced and one-group",
            ),
            (
                {"sampling": "metadata-balanced", "sampling_columns": ("age", "site")},
                "must not hold 'site'",
            ),
            ({"sampling": "one-group"}, "sampling_columns must name the columns"),
        ],
    )
    def test_settings_that_nothing_reads(self, changes, message):
        with pytest.raises(ValueError, match=message):
            settings(**changes)
