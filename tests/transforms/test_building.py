"""Descriptions of transforms: what is built, and that a hostile file runs nothing."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import monai.transforms
import pytest
import torch
from monai.transforms import Compose, Transform
from pydantic import TypeAdapter, ValidationError

from neurocontrast.exceptions import ConfigError
from neurocontrast.transforms.described import ALLOWED, build_transforms
from neurocontrast.transforms.description import TargetList

FLIP = {"_target_": "monai.transforms.Flipd", "keys": ["image"], "spatial_axis": 0}


def test_a_description_becomes_the_transforms_it_names_and_these_may_hold_transforms() -> None:
    nested = {"_target_": "monai.transforms.OneOf", "transforms": [FLIP], "weights": [1.0]}
    made = build_transforms([nested, {"_target_": "monai.transforms.ScaleIntensityd", "keys": "image"}], source="x")
    image = torch.arange(8.0).reshape(1, 2, 2, 2)
    assert isinstance(made, Compose)
    torch.testing.assert_close(torch.as_tensor(made({"image": image})["image"]), image.flip(1) / 7)


@pytest.mark.parametrize(
    "target",
    [
        "os.system",
        "builtins.eval",
        "monai.transforms.utils.os.system",
        "monai.transforms.io.array.locate",
        "neurocontrast.transforms.loading.os.system",
        "Flipd",
    ],
)
def test_anything_outside_the_two_packages_is_refused_by_name(target: str) -> None:
    with pytest.raises(ConfigError, match=rf"'{target}' is refused"):
        build_transforms([{"_target_": target, "keys": ["image"]}], source="encoder.json: transforms")


def test_of_monai_s_transforms_those_of_the_list_alone_may_be_named() -> None:
    others = []
    for name, found in vars(monai.transforms).items():
        if inspect.isclass(found) and issubclass(found, Transform) and found.__name__ not in ALLOWED:
            others.append(name)
            with pytest.raises(ConfigError, match=r"is refused: .*docs/data\.md"):
                build_transforms([{"_target_": f"monai.transforms.{name}", "keys": ["image"]}], source="x")
    assert {"SimulateDelay", "SimulateDelayd", "Lambdad", "LambdaD", "SaveImaged", "RandTorchVisionDict"} <= set(others)
    assert {"CopyItemsd", "ConcatItemsd", "RepeatChanneld", "ToDeviced", "SplitDimd"} <= set(others)


def test_what_is_in_the_list_is_there_takes_no_function_and_is_documented() -> None:
    for name in ALLOWED - {"Compose", "OneOf", "RandomOrder", "SomeOf"}:
        parameters = inspect.signature(getattr(monai.transforms, name)).parameters.values()
        needed = [each.name for each in parameters if "Callable" in str(each.annotation) and each.default is each.empty]
        assert not needed, name
    text = (Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")
    listed = text.partition("### Transforms that a file may name")[2].split("\n\n")[2]
    assert set(listed.replace("`", "").split()) == ALLOWED


@pytest.mark.parametrize(
    "arguments",
    [
        {"keys": "$__import__('os').system('touch {marker}')"},
        {"keys": ["image"], "prob": "$open('{marker}', 'w').close() or 0.5"},
        {"keys": ["$__import__('pathlib').Path('{marker}').touch()"]},
        {"keys": "@other"},
        {"keys": "%{marker}::x"},
        {"keys": " $1"},
        {"keys": ["image"], "_mode_": "debug"},
        {"keys": ["image"], "_requires_": "$__import__('os').system('touch {marker}')"},
        {"keys": ["image"], "$x": 1},
        {"keys": ["image"], "a::b": 1},
        {"keys": ["image"], "prob": {"_target_": "os.system", "command": "touch {marker}"}},
        {"keys": ["image"], "prob": [{"_target_": "monai.transforms.Lambdad", "keys": "image", "func": "x"}]},
        {"keys": ["image"], "prob": object()},
    ],
)
def test_hostile_arguments_are_refused_and_nothing_runs(arguments: dict[str, Any], tmp_path: Path) -> None:
    marker = tmp_path / "marker"

    def planted(value: Any) -> Any:
        if isinstance(value, str):
            return value.replace("{marker}", str(marker))
        if isinstance(value, dict):
            return {key: planted(each) for key, each in value.items()}
        return [planted(each) for each in value] if isinstance(value, list) else value

    step = {"_target_": "monai.transforms.RandFlipd", **planted(arguments)}
    with pytest.raises(ConfigError, match=r"x\[0\]"):
        build_transforms([step], source="x")
    assert not marker.exists()


@pytest.mark.parametrize("reader", ["os.system", "monai.data.NibabelReader"])
def test_a_reader_is_one_of_monais_by_name(reader: str) -> None:
    with pytest.raises(ConfigError, match="reader"):
        build_transforms([{"_target_": "monai.transforms.LoadImaged", "keys": "image", "reader": reader}], source="x")


def test_pickled_data_cannot_be_asked_for() -> None:
    load = {"_target_": "monai.transforms.LoadImaged", "keys": "image", "reader": "NumpyReader", "allow_pickle": True}
    with pytest.raises(ConfigError, match="pickled data are never read"):
        build_transforms([load], source="x")


def test_all_problems_are_told_together_with_their_places() -> None:
    steps = [{"_target_": "os.system"}, FLIP, {"_target_": "monai.transforms.RandFlip_d", "keys": "image"}]
    with pytest.raises(ConfigError) as caught:
        build_transforms(steps, source="data.transforms")
    lines = str(caught.value).splitlines()
    assert lines[0].startswith("data.transforms[0]._target_: 'os.system' is refused")
    assert "data.transforms[2]._target_" in lines[1]
    assert "Did you mean 'RandFlipd'?" in lines[1]


def test_arguments_that_the_class_does_not_take_are_told() -> None:
    with pytest.raises(ConfigError, match=r"x\[0\]: monai\.transforms\.Flipd cannot be built: .*probability"):
        build_transforms([{**FLIP, "probability": 1}], source="x")


def test_the_form_is_checked_as_a_field_of_settings() -> None:
    adapter = TypeAdapter(TargetList)
    assert adapter.validate_python([FLIP]) == (FLIP,)
    for wrong in ([], [{"keys": ["image"]}], [{**FLIP, "keys": "$1"}], {"_target_": "x"}):
        with pytest.raises(ValidationError):
            adapter.validate_python(wrong)
