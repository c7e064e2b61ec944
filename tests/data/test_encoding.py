import numpy as np
import pandas as pd
import pytest
import torch

from neurocontrast.data.metadata import encode_metadata
from neurocontrast.exceptions import DataError

TABLE = pd.DataFrame(
    {
        "participant_id": ["s1", "s2", "s3", "s4"],
        "age": [30.5, np.nan, 50.0, 60.0],
        "sex": ["M", "F", np.nan, "F"],
        "label": [1.0, 0.0, 1.0, np.nan],
    }
)


def test_metadata_become_numbers_and_codes():
    metadata, categories = encode_metadata(TABLE, {"age": "continuous", "sex": "categorical", "label": "categorical"})
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
