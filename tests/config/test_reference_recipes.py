"""Recipes of the published protocol hold its numbers, whatever the loss."""

from pathlib import Path

import pytest
import torch

from neurocontrast.config import load_config
from neurocontrast.encoders import build_model

FOLDER = Path(__file__).parents[2] / "neurocontrast" / "recipes" / "brain"
AGE = ("gaussian", "age", 5.0)
LOSSES = {
    "yaware": ("yaware", [AGE]),
    "yaware_age_sex": ("yaware", [AGE, ("categorical", "sex", None)]),
    "conditional": ("conditional", [AGE, ("categorical", "sex", None)]),
}


def _recipe(name):
    return load_config(FOLDER / f"{name}_reference.yaml")


@pytest.mark.parametrize("name", [path.stem.removesuffix("_reference") for path in FOLDER.glob("*_reference.yaml")])
def test_images_views_and_training_are_the_published_ones(name):
    config = _recipe(name)
    assert (config.data.spacing_mm, config.data.shape) == (1.5, (121, 145, 121))
    views = config.augment.model_dump(exclude_none=True, exclude={"kind"})
    chances = {key: each["probability"] for key, each in views.items() if isinstance(each, dict)}
    assert chances == dict.fromkeys(("flip", "blur", "noise", "cutout", "crop"), 0.5)
    assert config.augment.blur.sigma_voxels == config.augment.noise.sigma == (0.1, 1.0)
    assert (config.augment.cutout.fraction, config.augment.crop.fraction) == ((0.25, 0.25), (0.75, 0.75))
    training = config.training
    assert (training.batch_size, training.epochs, training.optimizer) == (64, 50, "adam")
    assert (training.learning_rate, training.weight_decay) == (1e-4, 5e-5)
    assert (training.schedule, training.step_epochs, training.step_factor) == ("step", 10, 0.9)
    encoder = config.encoder
    assert (encoder.name, encoder.norm, encoder.final_norm, encoder.projection_norm) == (
        "densenet121", "batch", False, "none",
    )  # fmt: skip


@pytest.mark.parametrize("name", LOSSES)
def test_loss_and_head_are_the_published_ones(name):
    config, (loss, kernel) = _recipe(name), LOSSES[name]
    assert (config.objective.loss, config.objective.temperature) == (loss, 0.1)
    found = [(each.type, each.column, getattr(each, "sigma", None)) for each in config.objective.kernel]
    assert found == kernel
    assert getattr(config.objective, "uniformity_weight", 1.0) == 1.0
    head = build_model(config.encoder).head
    shapes = [layer.weight.shape for layer in head if isinstance(layer, torch.nn.Linear)]
    assert ([type(layer).__name__ for layer in head], shapes) == (
        ["Linear", "ReLU", "Linear"],
        [(512, 1024), (128, 512)],
    )


def test_age_is_predicted_by_one_linear_layer():
    config = _recipe("age_supervised")
    assert (config.objective.column, config.objective.error) == ("age", "absolute")
    head = build_model(config.encoder, n_outputs=1).head
    assert [tuple(layer.weight.shape) for layer in head] == [(1, 1024)]
