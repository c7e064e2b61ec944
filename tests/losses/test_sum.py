"""A sum of objectives, each with its own kernel and weight."""

import pytest
import torch

from neurocontrast import losses
from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.kernels import Categorical, Gaussian, Linear
from tests.losses.specimens import random_batch


@pytest.fixture
def learn_and_forget():
    return losses.SumOfObjectives(
        {
            "learn": losses.ConditionalAlignmentUniformity(
                Gaussian("age", sigma=5.0) * Categorical("sex")
            ),
            "forget": losses.FairCCLK(Categorical("label")),
            "spread": losses.NTXent(),
        },
        weights={"forget": 0.5, "spread": 0.0},
    )


def test_it_is_the_weighted_sum_of_prefixed_terms(learn_and_forget):
    z1, z2, metadata = random_batch(8, 5, seed=0)
    terms = learn_and_forget.terms(z1, z2, metadata)
    assert {"learn/alignment", "learn/uniformity", "forget/alignment", "forget/uniformity"} < set(
        terms
    )
    torch.testing.assert_close(
        sum(terms.values()), learn_and_forget(z1, z2, metadata), rtol=1e-12, atol=1e-12
    )
    learn = losses.ConditionalAlignmentUniformity(Gaussian("age", sigma=5.0) * Categorical("sex"))
    forget = losses.FairCCLK(Categorical("label"))
    expected = learn(z1, z2, metadata) + 0.5 * forget(z1, z2, metadata)
    value = learn_and_forget(z1, z2, metadata)
    torch.testing.assert_close(value, expected, rtol=1e-12, atol=1e-12)
    gradients = [torch.autograd.grad(each, (z1, z2)) for each in (value, expected)]
    torch.testing.assert_close(*gradients, rtol=1e-12, atol=1e-12)


def test_columns_are_merged_and_must_agree(learn_and_forget):
    assert learn_and_forget.columns == {
        "age": "continuous",
        "sex": "categorical",
        "label": "categorical",
    }
    with pytest.raises(ConfigError, match="'age' is read as categorical by 'b' and as continuous"):
        losses.SumOfObjectives(
            {"a": losses.FairCCLK(Linear("age")), "b": losses.FairCCLK(Categorical("age"))}
        )


def test_kernels_are_fitted_and_stored():
    _, _, metadata = random_batch(30, 4, seed=3)

    fitted, loaded = (
        losses.SumOfObjectives(
            {"a": losses.YAwareInfoNCE(Gaussian("age", sigma="scott")), "b": losses.NTXent()}
        )
        for _ in range(2)
    )
    fitted.fit(metadata)
    loaded.load_state_dict(fitted.state_dict())
    z1, z2, batch = random_batch(5, 4, seed=4)
    torch.testing.assert_close(loaded(z1, z2, batch), fitted(z1, z2, batch))


def test_the_cohort_is_checked_by_each_objective():
    _, _, metadata = random_batch(6, 4, seed=5)
    both = losses.SumOfObjectives(
        {"a": losses.NTXent(), "b": losses.YAwareInfoNCE(Linear("scores"))}
    )
    with pytest.raises(DataError, match="needs weights of at least 0"):
        both.check(metadata)
    metadata["scores"][1] = torch.nan
    with pytest.raises(DataError, match="sub-1"):
        both.check(metadata, names=[f"sub-{i}" for i in range(6)])


def test_no_column_where_nothing_is_read():
    nothing = losses.SumOfObjectives({"a": losses.NTXent(), "b": losses.InfoNCE()})
    nothing.fit({})
    assert nothing.columns == {}


@pytest.mark.parametrize(
    ("objectives", "weights", "message"),
    [
        ({}, {}, "objectives .*at least 1 item"),
        ({"a b": losses.NTXent()}, {}, "objectives .*pattern"),
        ({"a": torch.nn.Identity()}, {}, "objectives must be a contrastive loss"),
        ({"learn": losses.NTXent()}, {"lern": 1.0}, "Did you mean 'learn'"),
        ({"a": losses.NTXent()}, {"a": -1.0}, "weights .*greater than or equal to 0"),
        ({"a": losses.NTXent()}, {"a": True}, "weights .*number"),
    ],
)
def test_what_cannot_be_used_is_named(objectives, weights, message):
    with pytest.raises(ConfigError, match=message):
        losses.SumOfObjectives(objectives, weights=weights)
