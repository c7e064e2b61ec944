from __future__ import annotations

import numpy as np
import pytest
import torch

from neurocontrast.augment import AugmentSettings, TwoViews, draw_site

NAMES = (
    "affine",
    "contrast",
    "histogram",
    "bias_field",
    "sharpness",
    "resolution",
    "ghosting",
    "rician",
    "tight_mask",
    "mask_edge",
)
DRAWN = dict(
    zip(
        NAMES,
        ("affine", "gamma", "slopes", "bias", "sharpness", "slices", "ghosts", "noise", "tight", "edge"),
        strict=True,
    )
)
SITES = AugmentSettings.sites()


def raw_brain(seed: int = 0, shape: tuple[int, int, int] = (20, 24, 22)) -> np.ndarray:
    """A skull-stripped ellipsoid of positive intensities in a box of zeros."""
    places = np.stack(np.meshgrid(*(np.linspace(-1.2, 1.2, side) for side in shape), indexing="ij"))
    values = np.random.default_rng(seed).uniform(40.0, 160.0, shape)
    return np.where((places**2).sum(0) < 1.0, values, 0.0).astype(np.float32)


def only(name: str, **changes) -> AugmentSettings:
    setting = getattr(SITES, name).model_copy(update={"probability": 1.0} | changes)
    return AugmentSettings.off().model_copy(update={name: setting})


@pytest.fixture
def volumes():
    brains = torch.from_numpy(np.stack([raw_brain(seed) for seed in range(4)]))[:, None]
    return (brains - brains.mean((1, 2, 3, 4), keepdim=True)) / brains.std((1, 2, 3, 4), keepdim=True, correction=0)


@pytest.mark.parametrize("name", NAMES)
def test_each_operation_alone_changes_the_volume(name, volumes):
    made = TwoViews(only(name), seed=0).view(volumes, range(4), epoch=0, view=0)
    assert made.isfinite().all()
    assert all(not torch.allclose(one, before, atol=1e-3) for one, before in zip(made, volumes, strict=True))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("probability", [0.0, 0.3, 1.0])
def test_an_operation_is_applied_as_often_as_asked(name, probability):
    settings = only(name, probability=probability)
    drawn = [draw_site(settings, seed=0, epoch=0, sample=sample, view=0) for sample in range(1500)]
    assert np.mean([getattr(one, DRAWN[name]) is not None for one in drawn]) == pytest.approx(probability, abs=0.04)
