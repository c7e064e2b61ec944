"""Settings of views of images: what they refuse, and that reading them needs neither torch nor Kornia."""

from __future__ import annotations

import subprocess
import sys

import pytest
from pydantic import ValidationError

from neurocontrast.transforms import ImageAugmentSettings
from neurocontrast.transforms.natural.settings import (
    ColourJitterSettings,
    ImageAffineSettings,
    ImageBlurSettings,
    ResizedCropSettings,
)


def test_reading_settings_needs_neither_torch_nor_kornia():
    program = (
        "import sys; from neurocontrast.transforms import ImageAugmentSettings; ImageAugmentSettings.simclr(); "
        "print(sorted({'torch', 'kornia'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: ResizedCropSettings(scale=(0.9, 0.2)), "swap the two numbers"),
        (lambda: ResizedCropSettings(scale=(0.0, 1.0)), "greater than 0"),
        (lambda: ResizedCropSettings(scale=(0.2, 1.5)), "less than or equal to 1"),
        (lambda: ResizedCropSettings(ratio=(0.0, 1.0)), "greater than or equal to 0.1"),
        (lambda: ResizedCropSettings(probability=1.2), "less than or equal to 1"),
        (lambda: ColourJitterSettings(hue=0.6), "less than or equal to 0.5"),
        (lambda: ColourJitterSettings(brightness=-0.1), "greater than or equal to 0"),
        (lambda: ImageBlurSettings(sigma_pixels=(0.0, 1.0)), "greater than 0"),
        (lambda: ImageAffineSettings(scale=(1.1, 0.9)), "swap the two numbers"),
        (lambda: ImageAffineSettings(degrees=float("nan")), "greater than or equal to 0|finite"),
        (lambda: ImageAugmentSettings(color_jitter=None), "color_jitter"),
        (lambda: ImageAugmentSettings(kind="volumes"), "'images'"),
    ],
)
def test_wrong_settings_are_refused(make, named):
    with pytest.raises(ValidationError, match=named):
        make()


def test_presets_say_what_the_papers_say():
    supcon, simclr = ImageAugmentSettings.supcon(), ImageAugmentSettings.simclr()
    assert supcon == ImageAugmentSettings()
    assert supcon.crop.scale == (0.2, 1.0)
    assert simclr.crop.scale == (0.08, 1.0)
    for preset in (supcon, simclr):
        jitter = preset.colour_jitter
        assert (jitter.probability, jitter.brightness, jitter.contrast) == (0.8, 0.4, 0.4)
        assert (jitter.saturation, jitter.hue) == (0.4, 0.1)
        assert (preset.flip.probability, preset.grayscale.probability, preset.blur) == (0.5, 0.2, None)
    digits = ImageAugmentSettings.digits()
    assert digits.flip is None
    assert digits.colour_jitter is None
    assert digits.grayscale is None


@pytest.mark.parametrize("preset", ["supcon", "simclr", "digits", "off"])
def test_settings_survive_being_written(preset):
    settings = getattr(ImageAugmentSettings, preset)()
    assert ImageAugmentSettings.model_validate_json(settings.model_dump_json()) == settings
