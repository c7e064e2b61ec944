from __future__ import annotations

import numpy as np
import pytest

from neurocontrast.evaluation.rows import NO_SITE
from neurocontrast.evaluation.uncertainty import choose_units
from neurocontrast.exceptions import ConfigError


def test_sites_that_share_a_subject_are_drawn_together():
    sites = ["a", "a", "b", "b", "c", "d", "e", "f"]
    subjects = np.array(["1", "2", "2", "3", "4", "5", "6", "7"], dtype=object)
    units = choose_units("site", np.array(sites, dtype=object), subjects, target="diagnosis")
    assert units.n == 5
    assert len(set(units.labels[:4])) == 1
    assert len(set(units.labels)) == 5


def units_of(n_sites, unit="auto", *, target="age", missing=False):
    sites = [f"s{number % n_sites}" for number in range(2 * n_sites)]
    sites[0] = NO_SITE if missing else sites[0]
    return choose_units(
        unit, np.array(sites, dtype=object), np.arange(len(sites)).astype(str).astype(object), target=target
    )


def test_sites_are_resampled_where_there_are_twenty_that_may_be():
    assert (units_of(20).name, units_of(20).n) == ("site", 20)
    assert (units_of(19).name, units_of(19).n) == ("subject", 38)
    assert units_of(20, target="site").name == units_of(20, missing=True).name == "subject"
    assert units_of(20, "subject").name == "subject"


def test_sites_that_cannot_be_resampled_are_refused():
    with pytest.raises(ConfigError, match="sites cannot be resampled to predict the site"):
        units_of(20, "site", target="site")
    with pytest.raises(ConfigError, match="1 of 40 scans have no site"):
        units_of(20, "site", missing=True)
    with pytest.raises(ConfigError, match="needs at least 5 sites that share no subject, found 4"):
        units_of(4, "site")


def test_few_sites_are_resampled_with_a_notice():
    (notice,) = units_of(5, "site").notices
    assert notice.code == "few_sites_resampled"
    assert "Intervals resample 5 sites" in notice.message
    assert len(units_of(19, "site").notices) == 1
    assert units_of(20, "site").notices == ()
