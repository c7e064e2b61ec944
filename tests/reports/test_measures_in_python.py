"""A DataFrame of regional measures from Python: read where tables are read, and refused clearly in a configuration."""

import numpy as np
import pandas as pd
import pytest

import neurocontrast as nc
from neurocontrast.config import load_config
from neurocontrast.data.measures import read_measures, read_tables
from neurocontrast.exceptions import ConfigError, DataError
from tests.reports.people import draw_measures

PEOPLE = [f"sub-{number:02d}" for number in range(12)]


@pytest.fixture
def people():
    return pd.DataFrame({"participant_id": PEOPLE[::-1], "age": np.arange(20.0, 32.0)})


def test_a_frame_of_measures_is_read_as_its_file_is(people, tmp_path):
    measures = draw_measures(PEOPLE)
    measures.to_csv(tmp_path / "measures.tsv", sep="\t", index=False)
    of_file = read_measures(people, tmp_path / "measures.tsv").measures.values
    for given in (measures, [measures], measures.set_index("participant_id")):
        pd.testing.assert_frame_equal(read_measures(people, given).measures.values, of_file)
    halves = [measures.iloc[:, :20], measures.drop(columns=measures.columns[1:20])]
    joined = read_tables(halves).values
    pd.testing.assert_frame_equal(joined[list(of_file)], read_tables(measures).values)


def test_sessions_missing_cells_and_subjects_of_a_frame(people):
    measures = draw_measures(PEOPLE).astype({"lh_cuneus_thickness": "Float64"})
    measures.loc[3, "lh_cuneus_thickness"] = pd.NA
    measures["session"] = 1
    table = read_tables(measures)
    assert table.values.index[3] == ("sub-03", "1")
    assert table.values["lh_cuneus_thickness"].isna().to_numpy().nonzero()[0].tolist() == [3]


def test_bad_rows_of_a_frame_are_named(people):
    measures = draw_measures(PEOPLE)
    measures.loc[2, "lh_cuneus_thickness"] = -1.0
    with pytest.raises(DataError, match=r"measures: .*sub-02.*lh_cuneus_thickness"):
        read_measures(people, measures)
    with pytest.raises(DataError, match="measures: no column of identifiers"):
        read_tables(measures.drop(columns="participant_id"))
    twice = pd.concat([measures, measures[["lh_cuneus_thickness"]]], axis=1)
    with pytest.raises(DataError, match="several columns 'lh_cuneus_thickness'"):
        read_tables(twice)


def test_a_frame_in_a_configuration_is_refused_with_the_key(people, tmp_path):
    measures = draw_measures(PEOPLE)
    for given in (measures, [measures]):
        with pytest.raises(ConfigError, match=r"data\.measures: found a DataFrame; allowed is the"):
            load_config({"data": {"kind": "measures", "measures": given}})
    with pytest.raises(
        ConfigError, match=r"data\.participants: found a DataFrame; .*participants="
    ):
        nc.pretrain({"data": {"kind": "measures", "participants": people}}, out=tmp_path / "run")
