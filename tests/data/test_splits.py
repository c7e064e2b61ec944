from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from neurocontrast.data.cohort import Cohort, split_by_subject
from neurocontrast.exceptions import ConfigError, DataError


def cohort_of(n_subjects, *, n_sites=4, n_sessions=1, with_site=True):
    rows = [(f"s{i}", f"site{i % n_sites}", str(k)) for i in range(n_subjects) for k in range(n_sessions)]
    table = pd.DataFrame(rows, columns=["subject_id", "site", "session"])
    table.insert(0, "participant_id", table["subject_id"])
    return Cohort(table if with_site else table.drop(columns="site"), source=Path("p.tsv"))


def test_a_subject_never_straddles_and_every_scan_is_somewhere():
    cohort = cohort_of(30, n_sessions=3)
    train, val = split_by_subject(cohort, 0.2, 0)
    assert sorted([*train, *val]) == list(range(90))
    subjects = cohort.table["subject_id"]
    assert not set(subjects[train]) & set(subjects[val])
    assert len(val) == 18


def test_each_site_gives_its_share():
    cohort = cohort_of(400, n_sites=4)
    _, val = split_by_subject(cohort, 0.1, 1)
    assert set(cohort.table["site"][val].value_counts()) == {10}


def test_seed_and_subjects_decide_and_not_the_order_of_rows():
    cohort = cohort_of(50)
    _, val = split_by_subject(cohort, 0.2, 3)
    _, again = split_by_subject(cohort, 0.2, 3)
    _, other = split_by_subject(cohort, 0.2, 4)
    np.testing.assert_array_equal(val, again)
    assert set(val) != set(other)
    order = np.random.default_rng(0).permutation(50)
    shuffled = cohort.subset(order)
    _, val_of_shuffled = split_by_subject(shuffled, 0.2, 3)
    assert set(shuffled.table["subject_id"][val_of_shuffled]) == set(cohort.table["subject_id"][val])


def test_edges():
    cohort = cohort_of(3, with_site=False)
    assert [len(rows) for rows in split_by_subject(cohort, 0.0, 0)] == [3, 0]
    assert [len(rows) for rows in split_by_subject(cohort, 0.01, 0)] == [2, 1]
    assert [len(rows) for rows in split_by_subject(cohort, 0.99, 0)] == [1, 2]
    for fraction in (-0.1, 1.0, float("nan")):
        with pytest.raises(ConfigError, match="val_fraction"):
            split_by_subject(cohort, fraction, 0)
    with pytest.raises(DataError, match="needs two subjects"):
        split_by_subject(cohort_of(1, n_sessions=3), 0.5, 0)


def test_missing_sites_are_a_stratum():
    cohort = cohort_of(40, n_sites=2)
    cohort.table.loc[cohort.table["site"] == "site1", "site"] = np.nan
    _, val = split_by_subject(cohort, 0.2, 0)
    assert cohort.table["site"][val].isna().sum() == 4
