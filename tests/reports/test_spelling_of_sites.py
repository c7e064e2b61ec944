"""Sites whose names differ in their spelling alone, where one is left out or tested elsewhere."""

import numpy as np
import pandas as pd
import pytest

from neurocontrast import evaluate
from neurocontrast.data.levels import spelled_alike
from neurocontrast.exceptions import DataError


def table(sites, *, first=0):
    n_people = 40
    random = np.random.default_rng(first)
    people = pd.DataFrame(
        {
            "participant_id": [f"sub-{first + row:03d}" for row in range(n_people)],
            "site": [sites[row % len(sites)] for row in range(n_people)],
            "diagnosis": [("control", "patient")[row // 4 % 2] for row in range(n_people)],
        }
    )
    names = [f"feature_{number:04d}" for number in range(4)]
    return pd.concat(
        [people, pd.DataFrame(random.normal(size=(n_people, 4)), columns=names)], axis=1
    )


PAIRS = [("London", "london"), ("Zürich", "Zurich"), ("1", "01"), ("site-1", "Site 01")]


@pytest.mark.parametrize("pair", PAIRS)
class TestSitesOfOneNameAreRefused:
    def test_where_one_is_left_out(self, tmp_path, pair):
        with pytest.raises(DataError, match="spelled nearly alike, and would be different sites"):
            evaluate(
                table([*pair, "Paris"]),
                target="diagnosis",
                splits="leave-site-out",
                out=tmp_path / "e",
                progress=False,
            )

    def test_in_an_external_table(self, tmp_path, pair):
        study = table([pair[0], "Paris"])
        external = table([pair[1], "Paris"], first=100)
        with pytest.raises(DataError, match=r"test: .*spelled nearly alike"):
            evaluate(
                study,
                test=external,
                target="diagnosis",
                n_folds=2,
                new_site=False,
                out=tmp_path / "e",
                progress=False,
            )


def test_names_of_different_sites_are_not_alike():
    assert not spelled_alike(["1", "10", "100", "1.5", "1.05", "A1", "A2", "London", "Londonderry"])
