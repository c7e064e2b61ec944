from __future__ import annotations

import pytest
from pydantic import ValidationError

from neurocontrast.augment import AugmentSettings


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


def test_settings_travel_through_json():
    for settings in (AugmentSettings(), AugmentSettings.reference(), AugmentSettings.off()):
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
    ],
)
def test_wrong_settings_are_named(given, message):
    with pytest.raises(ValidationError, match=message):
        AugmentSettings.model_validate(given)
