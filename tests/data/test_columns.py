import numpy as np
import pandas as pd
import pytest
import torch

from neurocontrast.cells import Refusal
from neurocontrast.data.columns import as_age, is_numeric, number_in
from neurocontrast.data.metadata import encode_metadata
from neurocontrast.data.sexes import as_sex
from neurocontrast.exceptions import DataError


@pytest.mark.parametrize(
    ("cell", "age"),
    [("0", 0), ("34.25", 34.25), ("120", 120), ("89+", 89), ("90.0+", 90), ("1e1", 10)],
)
def test_ages(cell, age):
    assert as_age(cell) == number_in("age", cell) == age
    assert (number_in("iq", "89+"), number_in("iq", "189"), number_in("age", "189")) == (
        None,
        189,
        None,
    )


@pytest.mark.parametrize(
    "cell", ["-3", "900", "120.1", "34,5", "old", "1_0", "0x10", "inf", "٣٤", "34Y", "20-25"]
)
def test_what_is_no_age_is_refused(cell):
    refusal = as_age(cell)
    assert isinstance(refusal, Refusal)
    assert "0 to 120" in refusal.rule
    assert ("decimal point" in refusal.hint) == ("," in cell)


def test_sexes():
    assert {as_sex(cell) for cell in ("M", "m", "Male", "1", "1.0")} == {"M"}
    assert {as_sex(cell) for cell in ("F", "FEMALE", "2", "2.0")} == {"F"}
    assert all(isinstance(as_sex(cell), Refusal) for cell in ("0", "3", "x", "w", "other"))
    assert "0/1 is not accepted" in as_sex("0").hint
    assert not as_sex("x").hint


def test_a_column_is_numeric_when_every_known_cell_is():
    assert is_numeric(["1.5", "n/a", "-2", "0", "0.5", ".5", "1e-3"])
    for cells in (["1", "2", "x"], ["001", "2"], ["n/a", ""], ["inf", "1"]):
        assert not is_numeric(cells)


TABLE = pd.DataFrame(
    {
        "participant_id": ["s1", "s2", "s3", "s4"],
        "age": [30.5, np.nan, 50.0, 60.0],
        "sex": ["M", "F", np.nan, "F"],
        "label": [1.0, 0.0, 1.0, np.nan],
    }
)


def test_metadata_become_numbers_and_codes():
    metadata, categories = encode_metadata(
        TABLE, {"age": "continuous", "sex": "categorical", "label": "categorical"}
    )
    assert categories == {"sex": ["F", "M"], "label": ["0", "1"]}
    assert metadata["age"].dtype == torch.float32
    assert metadata["age"].isnan().tolist() == [False, True, False, False]
    assert metadata["sex"].tolist() == [1, 0, -1, 0]
    assert metadata["sex"].dtype == torch.int64
    assert metadata["label"].tolist() == [1, 0, 1, -1]
    assert encode_metadata(TABLE, {}) == ({}, {})


def test_wrong_columns_are_named():
    with pytest.raises(DataError, match=r"people.tsv has no column 'ag'\. Did you mean 'age'"):
        encode_metadata(TABLE, {"ag": "continuous"}, place="people.tsv")
    with pytest.raises(DataError, match="column 'sex' holds text"):
        encode_metadata(TABLE, {"sex": "continuous"})
