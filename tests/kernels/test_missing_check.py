"""The one check of a column before its weights: all that is missing is refused, and nothing else."""

import math

import pytest
import torch

from neurocontrast import losses
from neurocontrast.exceptions import DataError
from neurocontrast.kernels import Categorical, ColumnKernel, Gaussian

INF = math.inf


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("column", [[1.0, math.nan, 3.0], [[1.0, 2.0], [3.0, math.nan]]])
def test_a_missing_number_is_refused(column, dtype):
    with pytest.raises(DataError, match="'age' is missing for 1 row: 1"):
        Gaussian("age", sigma=5.0)({"age": torch.tensor(column, dtype=dtype)})


@pytest.mark.parametrize("column", [[INF, -INF, 0.0], [3e38, 3e38, 1.0]])
def test_numbers_whose_sum_is_none_are_not_missing(column):
    weights = Gaussian("age", sigma=5.0)({"age": torch.tensor(column)})
    assert weights[0, 2] == 0


@pytest.mark.parametrize(
    "column",
    [
        torch.tensor([0, 1, -1]),
        torch.tensor([[0, 0], [1, 1], [2**62, -(2**62)]]),
        torch.tensor([0.0, 1.0, math.nan]),
    ],
)
def test_a_missing_code_is_refused(column):
    with pytest.raises(DataError, match="'sex' is missing for 1 row: 2"):
        Categorical("sex")({"sex": column})


def test_codes_of_any_size_are_read():
    weights = Categorical("sex")({"sex": torch.tensor([2**62, 0, 2**62])})
    assert weights[0].tolist() == [1, 0, 1]


class Positive(ColumnKernel):
    """A kernel whose own rule says what is missing."""

    def observed(self, values):
        return (values > 0).all(dim=1)

    def weights(self, rows, cols, dtype):
        return torch.exp(-(rows - cols.T).abs()).to(dtype)


def test_the_rule_of_a_kernel_of_ones_own_is_asked():
    with pytest.raises(DataError, match="'score' is missing for 2 rows: 0, 2"):
        Positive("score")({"score": torch.tensor([-1.0, 2.0, 0.0])})


@pytest.mark.parametrize("value", [math.nan, INF, -INF])
def test_an_age_that_cannot_be_ranked_is_refused(value):
    z = torch.eye(3)
    with pytest.raises(DataError, match="'age' is missing or infinite for 1 row: 1"):
        losses.RankNContrast("age")(z, z, {"age": torch.tensor([20.0, value, 60.0])})


def test_ages_of_an_infinite_sum_are_ranked():
    z = torch.eye(3)
    assert losses.RankNContrast("age")(z, z, {"age": torch.tensor([3e38, 3e38, 1.0])}).isfinite()
