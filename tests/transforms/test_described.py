"""What tells one transform from another."""

import functools
import json

import numpy as np
import pytest
import torch
from monai.transforms import (
    Compose,
    LoadImaged,
    NormalizeIntensityd,
    ScaleIntensityRanged,
    Spacingd,
)

from neurocontrast.exceptions import DataError
from neurocontrast.transforms import LoadScand, brain_transforms
from neurocontrast.transforms.described import DescribedTransforms
from neurocontrast.transforms.describing import describe


def test_equal_settings_are_described_alike_and_others_are_not():
    makers = [
        functools.partial(LoadImaged, "image"),
        functools.partial(LoadImaged, "image", dtype=np.float64),
        functools.partial(LoadScand, "image"),
        functools.partial(LoadScand, "image", spacing_mm=2.0),
        functools.partial(Spacingd, "image", pixdim=(2, 2, 2)),
        functools.partial(Spacingd, "image", pixdim=(2, 2, 3)),
        functools.partial(NormalizeIntensityd, "image", subtrahend=np.arange(3)),
        functools.partial(NormalizeIntensityd, "image", subtrahend=np.arange(3) + 1),
        functools.partial(NormalizeIntensityd, "image", subtrahend=torch.arange(3.0)),
        functools.partial(ScaleIntensityRanged, "image", 0, 1, 0, 1),
        functools.partial(brain_transforms, spacing_mm=2.0),
        functools.partial(brain_transforms, spacing_mm=2.5),
    ]
    texts = [json.dumps(describe(make()), sort_keys=True) for make in makers]
    assert texts == [json.dumps(describe(make()), sort_keys=True) for make in makers]
    assert len(set(texts)) == len(texts)


def test_given_transforms_must_be_those_of_the_contract():
    given = Compose([LoadScand("image")])
    contract = DescribedTransforms(given, (1, 8, 8, 8)).contract()
    assert DescribedTransforms.from_contract(contract, given).transforms is given
    with pytest.raises(DataError, match="LoadScand has other settings"):
        DescribedTransforms.from_contract(contract, Compose([LoadScand("image", spacing_mm=2.0)]))


def test_a_digest_holds_every_transform_of_nested_ones_in_their_order():
    one = LoadScand("image")
    two = NormalizeIntensityd("image")
    digests = {
        DescribedTransforms(Compose(chain), (1, 8, 8, 8)).digest()
        for chain in ([one, two], [two, one], [one])
    }
    assert len(digests) == 3
    nested = DescribedTransforms(Compose([Compose([one]), two]), (1, 8, 8, 8))
    assert nested.digest() in digests
    assert DescribedTransforms(nested.transforms, (2, 8, 8, 8)).digest() not in digests


def test_what_has_no_description_is_refused():
    with pytest.raises(DataError, match="<lambda>' has no name of its own"):
        describe({"function": lambda value: value})
    with pytest.raises(DataError, match="a generator has no description"):
        describe(each for each in ())
