import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import yaml
from pydantic import ValidationError

from neurocontrast.config import load_config
from neurocontrast.exceptions import DataError
from neurocontrast.transforms import AugmentSettings, Preprocessing, TwoViews
from tests.transforms.conftest import AT_SITE


def test_the_reference_protocol_is_the_published_one():
    reference = AugmentSettings.reference().model_dump()
    assert {name: chosen for name, chosen in reference.items() if chosen is not None} == {
        "flip": {"probability": 0.5, "axes": (0, 1, 2)},
        "blur": {"probability": 0.5, "sigma_voxels": (0.1, 1.0)},
        "noise": {"probability": 0.5, "sigma": (0.1, 1.0)},
        "cutout": {"probability": 0.5, "fraction": (0.25, 0.25), "value": 0.0},
        "crop": {"probability": 0.5, "fraction": (0.75, 0.75)},
    }


def test_sites_is_all_that_imitates_sites_and_the_cutout():
    on = {name for name, value in AugmentSettings.sites() if value is not None}
    assert on == {*AT_SITE, "cutout"}
    assert AugmentSettings.sites() == AugmentSettings.model_validate(
        {"blur": None, "noise": None, **{name: {} for name in AT_SITE}}
    )


@pytest.mark.parametrize("recipe", ["yaware", "conditional", "ntxent"])
def test_recipes_that_the_documentation_names_have_all_operations_of_sites(recipe):
    settings = load_config(recipe).augment
    assert {name for name, value in settings if value is not None} == {*AT_SITE, "cutout"}


def test_the_transforms_of_the_documentation_make_views():
    text = (Path(__file__).parents[2] / "docs" / "training.md").read_text(encoding="utf-8")
    (snippet,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    given = {}
    pretrain = SimpleNamespace(pretrain=lambda *_, **options: given.update(options))
    exec(compile(snippet, "training.md", "exec"), {"neurocontrast": pretrain, "config": {}})
    volume = torch.zeros(1, 1, 16, 18, 16)
    volume[..., 3:12, 3:12, 3:12] = torch.rand(9, 9, 9, generator=torch.Generator().manual_seed(0))
    first, second = TwoViews(given["augment"], seed=0)(volume, ["sub-01"], epoch=0)
    assert first.shape == volume.shape
    assert not torch.equal(first, second)


@pytest.mark.parametrize("name", AT_SITE)
def test_the_defaults_that_the_documentation_gives_are_the_defaults(name):
    text = (Path(__file__).parents[2] / "docs" / "training.md").read_text(encoding="utf-8")
    (row,) = (line for line in text.splitlines() if line.startswith(f"| `{name}` |"))
    given = dict(re.findall(r"`(\w+): ([^`]+)`", row))
    documented = {key: yaml.safe_load(value) for key, value in given.items()}
    operation = type(getattr(AugmentSettings.sites(), name))
    assert operation.model_validate(documented) == operation()
    assert set(documented) == set(operation.model_fields) - {"probability"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"blur": {"sigma_voxels": [1.0, 0.1]}},
            r"(?s)blur\.sigma_voxels.*\[lowest, highest\]\. Got \[1, 0\.1\]",
        ),
        ({"flip": {"axes": [0, 0]}}, r"(?s)flip\.axes.*distinct. Got \[0, 0\]"),
        ({"flip": {"axes": [3]}}, r"(?s)flip\.axes.*0, 1 or 2"),
        ({"blurr": {}}, "Extra inputs"),
    ],
)
def test_wrong_settings_are_named(given, message):
    with pytest.raises(ValidationError, match=message):
        AugmentSettings.model_validate(given)


CHANGES = {
    "spacing_mm": 2.0,
    "shape": (121, 145, 120),
    "normalise": "zscore",
    "percentiles": (2.0, 99.0),
    "erode_mm": 6.0,
    "smooth_mm": 8.0,
    "n_channels": 2,
}


def test_every_field_of_the_preprocessing_is_in_its_digest():
    """What is in use and not in the digest would give scans of other settings from the cache."""
    assert set(Preprocessing.model_fields) == {*CHANGES, "orientation"}  # which has one value
    plain = Preprocessing(normalise="percentile")
    digests = {plain.digest()}
    for field, value in CHANGES.items():
        changed = Preprocessing(**{"normalise": "percentile", field: value})
        digests.add(changed.digest())
        assert Preprocessing.from_contract(changed.contract()) == changed
    assert len(digests) == 1 + len(CHANGES)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"landmarks": [0.0, 1.0]}, "landmarks: unknown key"),
        ({"transform_version": 99}, "transform_version is 99"),
        ({"normalise": "histogram"}, "normalise: must be .*'histogram'"),
        ({"erode_mm": 0.5}, r"data.erode_mm must be 0 or at least the spacing \(1.5 mm\), got 0.5"),
        ({"percentiles": [20, 99]}, "percentiles.0: .*less than 10"),
    ],
)
def test_a_contract_of_what_is_gone_or_damaged_is_refused(changed, words):
    with pytest.raises(DataError, match=words):
        Preprocessing.from_contract(Preprocessing(normalise="percentile").contract() | changed)


def test_what_is_off_leaves_contracts_as_they_were():
    assert Preprocessing().contract() == {
        "transform_version": 1,
        "spacing_mm": 1.5,
        "shape": [121, 145, 121],
        "normalise": "zscore",
        "orientation": "RAS",
    }
    # Of an installation before there was anything to fit: its cache is found again.
    assert Preprocessing().digest() == "df60c0f5378511d908490fae5f1c36ba"
