from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from neurocontrast.exceptions import DataError
from neurocontrast.transforms import AugmentSettings, Preprocessing


def test_the_reference_protocol_is_the_published_one():
    reference = AugmentSettings.reference()
    operations = (reference.flip, reference.blur, reference.noise, reference.cutout, reference.crop)
    assert [operation.probability for operation in operations if operation] == [0.5] * 5
    assert reference.blur is not None
    assert reference.blur.sigma_voxels == (0.1, 1.0)
    assert reference.noise is not None
    assert reference.noise.sigma == (0.1, 1.0)
    assert reference.cutout is not None
    assert (reference.cutout.fraction, reference.cutout.value) == ((0.25, 0.25), 0.0)
    assert reference.crop is not None
    assert reference.crop.fraction == (0.75, 0.75)


SITE_OPERATIONS = {
    "affine",
    "contrast",
    "bias_field",
    "sharpness",
    "rician",
    "tight_mask",
    "mask_edge",
}


def test_what_imitates_sites_is_off_unless_asked_for():
    for settings in (AugmentSettings(), AugmentSettings.reference(), AugmentSettings.off()):
        assert all(getattr(settings, name) is None for name in SITE_OPERATIONS | {"tissue_shift"})


def test_sites_is_all_that_imitates_sites_and_the_cutout():
    on = {name for name, value in AugmentSettings.sites() if value is not None}
    assert on == SITE_OPERATIONS | {"cutout"}
    assert AugmentSettings.sites() == AugmentSettings.model_validate(
        {"blur": None, "noise": None, **{name: {} for name in SITE_OPERATIONS}}
    )


def test_the_settings_that_the_documentation_gives_are_settings():
    text = (Path(__file__).parents[2] / "docs" / "training.md").read_text(encoding="utf-8")
    (block,) = (part for part in text.split("```yaml\n")[1:] if part.startswith("augment:"))
    settings = AugmentSettings.model_validate(yaml.safe_load(block.split("```")[0])["augment"])
    assert {name for name, value in settings if value is not None} == SITE_OPERATIONS | {"cutout"}


@pytest.mark.parametrize("name", sorted(SITE_OPERATIONS))
def test_the_defaults_that_the_documentation_gives_are_the_defaults(name):
    text = (Path(__file__).parents[2] / "docs" / "training.md").read_text(encoding="utf-8")
    (row,) = (line for line in text.splitlines() if line.startswith(f"| `{name}` |"))
    given = dict(re.findall(r"`(\w+): ([^`]+)`", row))
    documented = {key: yaml.safe_load(value) for key, value in given.items()}
    operation = type(getattr(AugmentSettings.sites(), name))
    assert operation.model_validate(documented) == operation()
    assert set(documented) == set(operation.model_fields) - {"probability"}


def test_the_size_of_the_brain_stays_unless_asked_for():
    affine = AugmentSettings.sites().affine
    assert affine is not None
    assert (affine.scale, affine.anisotropic) == ((1.0, 1.0), False)


def test_settings_travel_through_json():
    for settings in (AugmentSettings(), AugmentSettings.reference(), AugmentSettings.off(), AugmentSettings.sites()):
        assert AugmentSettings.model_validate(settings.model_dump(mode="json")) == settings


def test_null_switches_an_operation_off_and_an_empty_section_means_the_published_ranges():
    settings = AugmentSettings.model_validate({"blur": None, "crop": {}})
    assert settings.blur is None
    assert settings.crop == AugmentSettings.reference().crop


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"blur": {"probability": 1.5}}, r"(?s)blur\.probability.*less than or equal to 1"),
        ({"blur": {"sigma_voxels": [1.0, 0.1]}}, r"(?s)blur\.sigma_voxels.*\[lowest, highest\]\. Got \[1, 0\.1\]"),
        ({"noise": {"sigma": [-0.1, 1.0]}}, r"(?s)noise\.sigma.*greater than or equal to 0"),
        ({"noise": {"sigma": [0.1, float("nan")]}}, r"(?s)noise\.sigma.*finite"),
        ({"cutout": {"fraction": [0.0, 0.5]}}, r"(?s)cutout\.fraction.*greater than 0"),
        ({"crop": {"fraction": [0.5, 1.2]}}, r"(?s)crop\.fraction.*less than or equal to 1"),
        ({"flip": {"axes": []}}, r"(?s)flip\.axes.*at least 1 item"),
        ({"flip": {"axes": [0, 0]}}, r"(?s)flip\.axes.*distinct. Got \[0, 0\]"),
        ({"flip": {"axes": [3]}}, r"(?s)flip\.axes.*0, 1 or 2"),
        ({"blurr": {}}, "Extra inputs"),
        ({"contrast": {"gamma": [0.0, 1.0]}}, r"(?s)contrast\.gamma.*greater than or equal to 0\.2"),
        ({"contrast": {"gamma": [1.2, 0.8]}}, r"(?s)contrast\.gamma.*\[lowest, highest\]\. Got \[1\.2, 0\.8\]"),
        ({"bias_field": {"order": 0}}, r"(?s)bias_field\.order.*greater than or equal to 1"),
        ({"bias_field": {"strength": [0.0, 1.5]}}, r"(?s)bias_field\.strength.*less than or equal to 1"),
        ({"sharpness": {"amount": [-2.0, 0.0]}}, r"(?s)sharpness\.amount.*greater than or equal to -1"),
        ({"rician": {"sigma": 0.1}}, r"(?s)rician\.sigma.*tuple"),
        ({"affine": {"scale": [0.0, 1.0]}}, r"(?s)affine\.scale.*greater than or equal to 0\.5"),
        ({"affine": {"rotation_degrees": [-90, 90]}}, r"(?s)rotation_degrees.*greater than or equal to -45"),
        ({"tight_mask": {"depth_voxels": [0.0, 1.0]}}, r"(?s)tight_mask\.depth_voxels.*greater than 0"),
        ({"mask_edge": {"depth_voxels": [-4, 1]}}, r"(?s)mask_edge\.depth_voxels.*greater than or equal to -3"),
        ({"mask_edge": {"variation": 1.0}}, "Extra inputs"),
        ({"tissue_shift": {"order": 0}}, r"(?s)tissue_shift\.order.*greater than or equal to 1"),
        ({"tissue_shift": {"gain": [0.3, 0.1]}}, r"(?s)tissue_shift\.gain.*\[lowest, highest\]"),
        ({"tissue_shift": {"shift": [-0.1, 0.1]}}, r"(?s)tissue_shift\.shift.*greater than or equal to 0"),
        ({"tissue_shift": {"strength": [0.0, 0.1]}}, "Extra inputs"),
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
        ({"landmarks": [0.0, 1.0]}, "'landmarks' is no more in neurocontrast from version 0.3"),
        ({"normalise": "histogram"}, "'histogram' is no more in neurocontrast from version 0.3"),
        ({"normalise": "white-matter"}, "'white-matter' is no more in neurocontrast from version 0.3"),
        ({"common_view": "cohort", "view": "eJw"}, "'common_view' is no more in neurocontrast from version 0.3"),
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
