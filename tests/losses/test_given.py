"""Losses and kernels take metadata as people have them: lists, arrays, words, a DataFrame, a batch of a DataLoader."""

import numpy as np
import pandas as pd
import pytest
import torch
from monai.data import MetaTensor

from neurocontrast.exceptions import DataError
from neurocontrast.kernels import Categorical, Different, Gaussian
from neurocontrast.losses import (
    SINCERE,
    ConditionalAlignmentUniformity,
    FairCCLK,
    SupCon,
    Supervised,
    Triplet,
    WeaklySupervisedCCLK,
    YAwareInfoNCE,
)

AGES = [20, 31, 45, 62, 33, 50]
SEXES = ["F", "M", "F", "F", "M", "M"]
SITES = list("aabbca")
TENSORS = {
    "age": torch.tensor(AGES, dtype=torch.float32),
    "sex": torch.tensor([0, 1, 0, 0, 1, 1]),
    "site": torch.tensor([0, 0, 1, 1, 2, 0]),
}
KINDS = {
    "lists": {"age": AGES, "sex": SEXES, "site": SITES},
    "arrays": {
        "age": np.array(AGES),
        "sex": np.array(SEXES),
        "site": np.array(SITES, dtype=object),
    },
    "DataFrame": pd.DataFrame({"age": AGES, "sex": pd.Categorical(SEXES), "site": SITES}),
    "mixed": {"age": TENSORS["age"].double(), "sex": np.array(SEXES) == "M", "site": tuple(SITES)},
}
KERNEL = Gaussian("age", sigma=5.0) * Categorical("sex")
LOSSES = [
    YAwareInfoNCE(KERNEL),
    ConditionalAlignmentUniformity(KERNEL),
    YAwareInfoNCE(Gaussian("age", sigma=5.0) * Different("site")),
    SupCon("site"),
    SINCERE("sex"),
    Triplet("sex"),
    FairCCLK(Categorical("site")),
    WeaklySupervisedCCLK(Gaussian("age", sigma=9.0)),
]


@pytest.fixture
def views():
    torch.manual_seed(0)
    return torch.randn(2, len(AGES), 8)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_a_loss_is_the_same_however_metadata_are_given(loss, kind, views):
    assert torch.equal(loss(*views, KINDS[kind]), loss(*views, TENSORS))


@pytest.mark.parametrize("kind", KINDS)
def test_a_kernel_is_the_same_however_metadata_are_given(kind):
    given = KINDS[kind]
    kernel = Gaussian("age", sigma=5.0) * Categorical("sex") * Different("site")
    assert torch.allclose(kernel(given).float(), kernel(TENSORS))
    site = Categorical("site")
    few = {"site": list(given["site"])[:2]}
    assert torch.equal(
        site(few, given), site(TENSORS)[:2]
    )  # a word is the same code in rows and in columns


def test_embeddings_may_be_arrays_or_what_monai_made_of_them(views):
    loss = YAwareInfoNCE(KERNEL)
    assert loss(*views.numpy(), TENSORS) == loss(*views, TENSORS)
    z = MetaTensor(views).requires_grad_()
    value = loss(z[0], z[1], {**TENSORS, "age": MetaTensor(TENSORS["age"])})
    assert (type(value), value) == (torch.Tensor, loss(*views, TENSORS))
    assert torch.autograd.grad(value, z)[0].abs().max() > 0


@pytest.mark.parametrize("missing", [None, float("nan"), "", "n/a", pd.NA])
def test_missing_words_and_numbers_are_missing(missing):
    with pytest.raises(DataError, match="sex"):
        Categorical("sex")({"sex": ["F", missing, "M"]})
    weights = Categorical("sex", missing="marginal")({"sex": ["F", missing, "F", "M"]})
    assert weights[0, 1] == pytest.approx(1 / 3)
    if not isinstance(missing, str):
        with pytest.raises(DataError, match="age"):
            Gaussian("age", sigma=5.0)({"age": [20, missing, 30]})


def test_the_columns_of_a_data_frame_are_taken_without_a_warning(recwarn):
    people = pd.DataFrame({"age": [20.0, 30.0], "sex": ["F", "M"], "group": [1, 2]})
    for kernel in (Gaussian("age", sigma=5.0), Categorical("sex"), Categorical("group")):
        kernel(people)
    assert not recwarn.list


@pytest.mark.parametrize("ages", [["20", "35-40"], ["young", "old"], [[20], [30, 40]]])
def test_words_are_no_numbers(ages, views):
    for refused in (Gaussian("age", sigma=5.0), YAwareInfoNCE(Gaussian("age", sigma=5.0))):
        with pytest.raises((DataError, ValueError), match=r"age|inhomogeneous"):
            refused({"age": ages}) if isinstance(refused, Gaussian) else refused(
                *views[:, :2], {"age": ages}
            )


def test_classes_to_predict_must_be_codes(views):
    with pytest.raises(DataError, match="metadata\\['sex'\\] must hold numbers"):
        Supervised("sex", error="cross-entropy")(*views[..., :2], {"sex": SEXES})
