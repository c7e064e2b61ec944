"""Supervised pretraining: errors of predictions, on the scale of the training scans."""

import pytest
import torch

from neurocontrast import losses
from neurocontrast.config import as_config
from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.kernels import Categorical
from tests.losses import naive
from tests.losses.specimens import random_batch


def test_the_value_is_the_mean_error_over_views_and_samples(prediction):
    z1, z2, metadata = random_batch(7, 4, seed=1)
    expected = prediction.reference(naive.Batch([z1, z2]), metadata)
    torch.testing.assert_close(prediction.build()(z1, z2, metadata), expected)
    (part,) = prediction.build().terms(z1, z2, metadata).values()
    torch.testing.assert_close(part, expected)


def test_ages_are_predicted_in_standard_deviations_of_the_training_scans():
    loss = losses.Supervised("age")
    loss.fit({"age": torch.tensor([20.0, 40.0])})
    exact = torch.tensor([[-1.0], [1.0], [3.0]])
    assert loss(exact, exact, {"age": torch.tensor([20.0, 40.0, 60.0])}) == 0
    assert loss.target({"age": torch.tensor([20.0, 40.0])}, {}) == {
        "column": "age", "kind": "continuous", "mean": 30.0, "sd": 10.0, "lowest": 20.0, "highest": 40.0,
    }  # fmt: skip


def test_the_scale_is_part_of_the_checkpoint():
    fitted = losses.Supervised("age")
    other = losses.Supervised("age")
    fitted.fit({"age": torch.tensor([20.0, 40.0])})
    other.load_state_dict(fitted.state_dict())
    assert (other.mean, other.sd) == (30.0, 10.0)


def test_a_class_without_training_scans_is_refused():
    loss = losses.Supervised("sex", error="cross-entropy")
    codes = {"sex": torch.tensor([0, 2, 0])}
    with pytest.raises(
        DataError, match=r"no training scan has 'sex' 'b', which only validation scans have"
    ):
        loss.target(codes, {"sex": ["a", "b", "c"]})
    assert loss.target({"sex": torch.tensor([0, 1])}, {"sex": ["a", "b"]})["classes"] == ["a", "b"]


def test_a_prediction_is_no_part_of_a_sum():
    with pytest.raises(ConfigError, match="objectives must be a contrastive loss"):
        losses.SumOfObjectives(
            {"age": losses.Supervised("age"), "fair": losses.FairCCLK(Categorical("site"))}
        )
    parts = {"age": {"loss": "supervised", "column": "age"}}
    with pytest.raises(
        ConfigError, match=r"objective\.objectives\.age\.loss: .*found 'supervised'"
    ):
        as_config({"objective": {"loss": "sum", "objectives": parts}})
