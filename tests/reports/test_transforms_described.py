"""Transforms from Python are told apart by all of their settings, and a run's contract names no file."""

import functools
import json
import operator
import os
import subprocess
import sys
from collections import OrderedDict, defaultdict, namedtuple
from dataclasses import dataclass
from pathlib import PurePosixPath

import nibabel as nib
import numpy as np
import pytest
import torch
from monai.data import MetaTensor
from monai.transforms import (
    Compose,
    EnsureChannelFirstd,
    Lambdad,
    LoadImaged,
    MapTransform,
    NormalizeIntensityd,
    OneOf,
    RandGaussianNoised,
    ResizeWithPadOrCropd,
    ScaleIntensityd,
    ScaleIntensityRanged,
    Transform,
)

from neurocontrast.data.datasets import deterministic_part
from neurocontrast.exceptions import DataError, NeurocontrastWarning
from neurocontrast.transforms import RandNoised
from neurocontrast.transforms.comparing import is_same
from neurocontrast.transforms.described import DescribedTransforms
from neurocontrast.transforms.describing import describe


class Filter:
    """A filter with a setting and methods."""

    def __init__(self, width=1.0):
        self.width = width

    def smooth(self, image):
        """Return the image times the width."""
        return image * self.width

    @classmethod
    def plain(cls, image):
        """Return the image."""
        return image


class OtherFilter(Filter):
    """A filter of another class."""


class Slotted:
    """A setting without a dictionary of attributes."""

    __slots__ = ("width",)

    def __init__(self, width):
        self.width = width


@dataclass(frozen=True)
class Settings:
    """Settings of a transform."""

    width: float
    method: object = None


def with_width(function, width):
    """Return a function with the name of another, and a setting of its own."""

    @functools.wraps(function)
    def widened(image):
        return function(image) * width

    return widened


def scale(image, width=1.0):
    """Return the image times the width."""
    return image * width


class Renaming(Filter):
    """A filter whose state has a name of its own."""

    def __getstate__(self):
        """Return the state under the name of earlier versions."""
        return {"w": self.width}


class MadeByFunctions(Filter):
    """A filter that is pickled as the call of a function."""

    def __reduce__(self):
        """Return the function of its width."""
        return ((narrow, wide)[self.width > 1], ())


def narrow():
    """Return a filter of width 1."""
    return MadeByFunctions(1.0)


def wide():
    """Return a filter of width 2."""
    return MadeByFunctions(2.0)


class Decorated:
    """A callable that binds as methods do, with a setting."""

    def __init__(self, width):
        self.width = width

    def __get__(self, instance, owner=None):
        """Return itself."""
        return self


class PartialOfOnesOwn(functools.partial):
    """A partial of another class."""


class Listing(list):
    """A list with a setting."""

    def __init__(self, items, width):
        super().__init__(items)
        self.width = width


class Table(dict):
    """A mapping with a setting."""

    def __init__(self, items, width):
        super().__init__(items)
        self.width = width


Box = namedtuple("Box", "low high")
Window = namedtuple("Window", "low high")


def image_of(values):
    """Return an image in memory."""
    return nib.Nifti1Image(np.asarray(values, dtype=np.float32), np.eye(4))


PAIRS = {
    "keywords of a partial": [functools.partial(scale, width=width) for width in (1.0, 2.0)],
    "arguments of a partial": [functools.partial(scale, width) for width in (1.0, 2.0)],
    "function of a partial": [functools.partial(f, 1.0) for f in (scale, with_width)],
    "partial of a partial": [
        functools.partial(functools.partial(scale, width=width)) for width in (1.0, 2.0)
    ],
    "object of a method": [Filter(width).smooth for width in (1.0, 2.0)],
    "class of a method": [OtherFilter.plain, Filter.plain],
    "partial of a method": [functools.partial(Filter(width).smooth) for width in (1.0, 2.0)],
    "method of a built-in": [{1: width}.get for width in (1.0, 2.0)],
    "getter": [operator.itemgetter(number) for number in (1, 2)],
    "slots": [Slotted(width) for width in (1.0, 2.0)],
    "data class": [Settings(1.0, Filter(width).smooth) for width in (1.0, 2.0)],
    "keys of two kinds": [{1: 2, "1": 3}, {1: 3, "1": 3}],
    "order of a pipeline": [
        OrderedDict(pairs) for pairs in ([("a", 1), ("b", 2)], [("b", 2), ("a", 1)])
    ],
    "order of layers": [
        torch.nn.Sequential(OrderedDict(pairs))
        for pairs in (
            [("a", torch.nn.ReLU()), ("b", torch.nn.Tanh())],
            [("b", torch.nn.Tanh()), ("a", torch.nn.ReLU())],
        )
    ],
    "state of another name": [Renaming(width) for width in (1.0, 2.0)],
    "function that makes it": [MadeByFunctions(width) for width in (1.0, 2.0)],
    "keywords of a method's caller": [operator.methodcaller("clip", min=n) for n in (0, 1)],
    "callable that binds": [Decorated(width) for width in (1.0, 2.0)],
    "partial of a method of a class": [functools.partialmethod(scale, n) for n in (1, 2)],
    "class of a partial": [functools.partial(scale), PartialOfOnesOwn(scale)],
    "class of a named tuple": [Box(0, 1), Window(0, 1)],
    "attribute of a list": [Listing([1], width) for width in (1.0, 2.0)],
    "attribute of a mapping": [Table({"a": 1}, width) for width in (1.0, 2.0)],
    "default of a mapping": [defaultdict(default, a=1) for default in (int, float)],
    "memory of a function": [functools.lru_cache(f) for f in (scale, with_width)],
    "sparse": [torch.eye(2).mul(n).to_sparse() for n in (1, 2)],
    "conjugate": [torch.tensor([complex(1, n)]).conj() for n in (1, 2)],
    "quarter precision": [torch.tensor([n]).to(torch.float8_e5m2) for n in (1.0, 2.0)],
    "texts with a path": [f"from /data/{name}/T1w.nii" for name in ("sub-01", "sub-02")],
    "affine": [MetaTensor(torch.ones(2, 2, 2), affine=torch.eye(4) * n) for n in (1, 2)],
    "array of objects": [np.array([Filter(width)], dtype=object) for width in (1.0, 2.0)],
    "mask of an array": [np.ma.masked_array([1, 2], mask=mask) for mask in ([0, 1], [1, 0])],
    "half precision": [torch.tensor([width], dtype=torch.bfloat16) for width in (1.0, 2.0)],
    "image in memory": [image_of(np.full((2, 2, 2), width)) for width in (1.0, 2.0)],
    "ufuncs": [np.log, np.exp],
    "infinite limit": [ScaleIntensityRanged("image", 0, a_max, 0, 1) for a_max in (1.0, np.inf)],
    "weights of one of several": [
        OneOf([ScaleIntensityd("i"), NormalizeIntensityd("i")], weights=weights)
        for weights in ((0.1, 0.9), (0.9, 0.1))
    ],
    "options of a pipeline": [Compose([ScaleIntensityd("i")], lazy=lazy) for lazy in (True, False)],
}


@pytest.mark.parametrize("name", PAIRS)
def test_other_settings_have_another_description_which_is_json(name):
    one, other = (json.dumps(describe(value), allow_nan=False) for value in PAIRS[name])
    assert one != other
    assert json.loads(one) == describe(PAIRS[name][0])


@pytest.mark.parametrize("lambdas", [[lambda image: image], [with_width(scale, 2.0)]])
def test_functions_that_no_module_can_give_again_are_refused_by_name(lambdas):
    with pytest.raises(DataError, match=r"Lambdad\.func.*functools\.partial"):
        describe(Lambdad("image", func=lambdas[0]))


@pytest.mark.parametrize("value", [np.frompyfunc(abs, 1, 1), torch.empty(2, device="meta")])
def test_values_that_have_no_content_or_name_are_refused(value):
    with pytest.raises(DataError, match=r"Settings\.method: .*could not"):
        describe(Settings(1.0, value))


def test_the_memory_of_a_closure_is_refused():
    with pytest.raises(DataError, match="has no name of its own"):
        describe(functools.lru_cache(with_width(scale, 2.0)))


@pytest.mark.parametrize("generator", [np.random.default_rng(0), torch.Generator()])
def test_generators_of_random_numbers_are_refused(generator):
    with pytest.raises(DataError, match=r"Settings\.method: a Generator draws random numbers"):
        describe(Settings(1.0, generator))


@pytest.mark.slow
def test_a_description_is_the_same_in_another_process():
    code = (
        "import json; from functools import partial;"
        "from neurocontrast.transforms.describing import describe;"
        "print(json.dumps(describe(partial(max, key=len, default={'b', 'a', 'c', 'd'}))))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    expected = describe(functools.partial(max, key=len, default={"b", "a", "c", "d"}))
    assert json.loads(done.stdout) == expected


def test_the_last_files_of_a_reader_and_numbers_drawn_are_no_settings(tmp_path):
    path = tmp_path / "sub-01_T1w.nii.gz"
    nib.save(image_of(np.arange(27).reshape(3, 3, 3)), path)
    load = LoadImaged("image", ensure_channel_first=True)
    noise = RandGaussianNoised("image", prob=1.0)
    before = describe([load, noise])
    noise(load({"image": path}))
    assert describe([load, noise]) == before


def test_an_absolute_path_is_described_by_the_file_s_content(tmp_path):
    path = tmp_path / "sub-01_template.npy"
    path.write_bytes(b"one")
    one = [describe(Settings(1.0, value)) for value in (path, str(path))]
    assert one[0]["method"] == one[1]["method"]
    assert "sub-01" not in json.dumps(one)
    assert str(tmp_path) not in json.dumps(describe(Settings(1.0, tmp_path / "no file")))
    path.write_bytes(b"others")
    assert describe(Settings(1.0, path)) != one[0]
    (tmp_path / "elsewhere.npy").write_bytes(b"one")
    assert describe(Settings(1.0, tmp_path / "elsewhere.npy")) == one[0]


@pytest.mark.parametrize(
    "value",
    [
        "file:///data/sub-01_T1w.nii",
        "~/data/sub-01_T1w.nii",
        "~somebody/sub-01_T1w.nii",
        "template=/data/sub-01_T1w.nii",
        {"/data/sub-01_T1w.nii": 1},
        {("/data/sub-01_T1w.nii", 1): 1},
        {(PurePosixPath("/data/sub-01_T1w.nii"),): 1},
    ],
)
def test_no_text_and_no_key_names_a_path(value):
    assert "sub-01" not in json.dumps(describe(Settings(1.0, value)))


@pytest.mark.parametrize(
    "text", ["T1w/T2w", "a/b/c", "mm/s", "1/2", "image", "~", "//", r"\d+/\d+", r"\s\w"]
)
def test_texts_that_are_no_paths_stay_texts(text):
    assert describe(text) == text
    assert describe({text: 1}) == {text: 1}


def test_a_key_of_objects_is_the_same_in_another_process():
    assert "0x" not in json.dumps(describe({(Filter(1.0), 1): 2}))


class Counting(MapTransform):
    """A transform that counts its calls."""

    def __init__(self, keys):
        super().__init__(keys)
        self.n_calls = 0

    def __call__(self, data):
        """Return the data."""
        self.n_calls += 1
        return data


class CountingApart(Counting):
    """A transform whose count is no part of its state."""

    def __getstate__(self):
        """Return the attributes without the count."""
        return {name: value for name, value in vars(self).items() if name != "n_calls"}


class Remembering(Transform):
    """A transform that remembers its scan, called on that scan before."""

    def __init__(self, path):
        self.last = ["seen", f"from {path}"]

    def __call__(self, data):
        """Return the data."""
        return data


def test_state_that_a_call_changes_is_refused_by_name(tmp_path):
    path = str(tmp_path / "sub-01_T1w.nii.gz")
    nib.save(image_of(np.arange(27).reshape(3, 3, 3)), path)
    load = [LoadImaged("image"), EnsureChannelFirstd("image")]
    with pytest.raises(DataError, match=r"Counting: n_calls is another after a scan.*__getstate__"):
        deterministic_part(Compose([*load, Counting("image")]), path)
    with pytest.raises(DataError, match="Remembering holds the path of the scan"):
        deterministic_part(Compose([*load, Remembering(path)]), path)
    described = deterministic_part(Compose([*load, CountingApart("image")]), path)
    assert "n_calls" not in json.dumps(described.contract())
    assert path not in json.dumps(described.contract())


def contract_of(transforms, stored):
    """Return a contract with stored descriptions."""
    contract = DescribedTransforms(Compose(transforms), (1, 3, 3, 3)).contract()
    return {**contract, "transforms": stored}


def test_contracts_of_earlier_versions_stay_valid(tmp_path):
    load = LoadImaged("image")
    stored = describe(load)
    stored["_loader"]["readers"][-1]["filenames"] = [str(tmp_path / "sub-01.nii")]
    stored = json.loads(json.dumps(stored))
    given = Compose([LoadImaged("image")])
    assert DescribedTransforms.from_contract(contract_of([load], [stored]), given)
    template = tmp_path / "template.nii"
    template.write_bytes(b"template")
    paths = [Settings(1.0, template), Settings(1.0, str(template))]
    name = f"{Settings.__module__}.Settings"
    texts = [f"PosixPath: {template!r}", str(template)]
    stored = [{"class": name, "method": text, "width": 1.0} for text in texts]
    assert DescribedTransforms.from_contract(contract_of(paths, stored), Compose(paths))


def test_a_default_that_is_written_makes_no_other_transform():
    noise = RandNoised("image", 0.5)
    written = RandNoised("image", 0.5, sigma=(0.1, 1.0))
    assert describe(noise) == describe(written)
    stored = json.loads(json.dumps(describe(noise)))
    stored["settings"]["__pydantic_fields_set__"] = ["probability"]  # as versions before wrote
    assert is_same(stored, describe(written))
    assert not is_same(stored, describe(RandNoised("image", 0.5, sigma=(0.1, 0.9))))


def test_a_partial_that_an_earlier_version_stored_is_warned_of():
    given = Compose([Lambdad("image", func=functools.partial(scale, width=2.0))])
    stored = json.loads(json.dumps(describe(given.transforms[0])))
    contract = contract_of([scale], [json.loads(json.dumps(stored))])
    assert DescribedTransforms.from_contract(contract, given).transforms is given
    other = Compose([Lambdad("image", func=functools.partial(scale, width=3.0))])
    with pytest.raises(DataError, match="Lambdad has other settings"):
        DescribedTransforms.from_contract(contract, other)
    _forget_settings(stored)
    message = "Lambdad: the run was written by a version"
    with pytest.warns(NeurocontrastWarning, match=message) as caught:
        DescribedTransforms.from_contract(contract_of([scale], [stored]), given)
    assert caught[0].filename == __file__


def test_containers_and_keys_that_an_earlier_version_stored_stay_valid():
    given = [Settings(1.0, Box(0, 1))]
    stored = [{"class": f"{Settings.__module__}.Settings", "method": [0, 1], "width": 1.0}]
    with pytest.warns(NeurocontrastWarning, match="Settings: the run was written by a version"):
        DescribedTransforms.from_contract(contract_of([scale], stored), Compose(given))
    given = Compose([Settings(1.0, {"/data/sub-01.nii": 1})])
    stored[0]["method"] = {"/data/sub-01.nii": 1}
    assert DescribedTransforms.from_contract(contract_of([scale], stored), given)
    given = Compose([Settings(1.0, MadeByFunctions(2.0))])
    stored[0]["method"] = {"class": f"{Settings.__module__}.MadeByFunctions", "arguments": []}
    with pytest.warns(NeurocontrastWarning, match="Settings: the run was written by a version"):
        DescribedTransforms.from_contract(contract_of([scale], stored), given)


def _forget_settings(stored):
    """Leave a partial's class alone, as earlier versions did."""
    for name, value in stored.items():
        if isinstance(value, dict):
            if value.get("class") == "functools.partial":
                stored[name] = {"class": "functools.partial"}
            else:
                _forget_settings(value)
        elif isinstance(value, list):
            for number, item in enumerate(value):
                if isinstance(item, dict) and item.get("class") == "functools.partial":
                    value[number] = {"class": "functools.partial"}


def test_caches_of_other_partials_are_others():
    digests = {
        DescribedTransforms(
            Compose([Lambdad("image", func=functools.partial(scale, width=width))]), (1, 3, 3, 3)
        ).digest()
        for width in (1.0, 2.0)
    }
    assert len(digests) == 2
    sized = DescribedTransforms(Compose([ResizeWithPadOrCropd("image", (3, 3, 3))]), (1, 3, 3, 3))
    assert sized.digest() not in digests
