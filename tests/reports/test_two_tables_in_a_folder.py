"""Two indexed tables in one folder keep their own measures and records; readers find old names too."""

import json

import numpy as np
import pytest

from neurocontrast import index
from neurocontrast.data.measures import read_measures
from neurocontrast.exceptions import ConfigError, DataError
from tests.reports.folders import write_aparc, write_aseg, write_people


@pytest.fixture
def study(tmp_path):
    """Write statistics of two people at each of two sites."""
    random = np.random.default_rng(0)
    for site in ("a", "b"):
        people = [f"sub-{site}{number}" for number in (1, 2)]
        for person in people:
            write_aseg(tmp_path / site / person / "stats" / "aseg.stats", random)
            write_aparc(tmp_path / site / person / "stats" / "lh.aparc.stats", random)
        write_people(tmp_path / f"people_{site}.tsv", people, random)
    (tmp_path / "out").mkdir()
    return tmp_path


def indexed(study, site, name, **options):
    people = [study / f"people_{site}.tsv"]
    return index(study / site, study / "out" / name, phenotypes=people, **options)


def test_two_tables_do_not_overwrite_each_other(study):
    found = {site: indexed(study, site, f"{site}.tsv") for site in ("a", "b")}
    for site, one in found.items():
        joined = read_measures(study / "out" / f"{site}.tsv")
        volumes = joined.measures.values["Left-Hippocampus"].tolist()
        assert volumes == one.measures.values["Left-Hippocampus"].tolist()
        record = json.loads(one.record_path.read_text())
        assert (record["table"], record["measures"]["file"]) == (
            f"{site}.tsv",
            f"{site}_measures.tsv",
        )
    assert sorted(path.name for path in (study / "out").iterdir()) == [
        *("a.tsv", "a_index.json", "a_measures.json", "a_measures.tsv"),
        *("b.tsv", "b_index.json", "b_measures.json", "b_measures.tsv"),
    ]
    with pytest.raises(ConfigError, match=r"a\.tsv exists already"):
        indexed(study, "a", "a.tsv")


def test_names_of_the_usual_table_stay(study):
    indexed(study, "a", "participants.tsv")
    assert sorted(path.name for path in (study / "out").iterdir()) == [
        *("index.json", "measures.json", "measures.tsv", "participants.tsv"),
    ]


def test_a_table_of_an_earlier_version_finds_its_measures(study):
    indexed(study, "a", "participants.tsv")
    (study / "out" / "participants.tsv").rename(study / "out" / "a.tsv")
    assert len(read_measures(study / "out" / "a.tsv")) == 2


def test_measures_of_another_table_are_not_taken_for_ones_own(study):
    indexed(study, "a", "participants.tsv")
    indexed(study, "a", "a.tsv")
    (study / "out" / "a_measures.tsv").unlink()
    with pytest.raises(DataError, match=r"there is no a_measures\.tsv in the folder of a\.tsv"):
        read_measures(study / "out" / "a.tsv")
