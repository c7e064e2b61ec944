import math

import pytest
import torch
from pydantic import ValidationError
from tiny import assert_resumes, run

from neurocontrast.training import TrainingSettings
from neurocontrast.training.optimizers import LARS, learning_rate_of
from neurocontrast.training.steps import contrastive_step


def rates(n_batches=4, **given):
    settings = TrainingSettings(learning_rate=2.0, **given)
    return [
        learning_rate_of(epoch, settings, batch=batch, n_batches=n_batches)
        for epoch in range(settings.epochs)
        for batch in range(n_batches)
    ]


def test_cosine_falls_from_the_whole_rate_towards_zero_at_every_step():
    found = rates(epochs=5, schedule="cosine")
    assert found == pytest.approx([1 + math.cos(math.pi * step / 20) for step in range(20)])
    assert found[-1] > 0


def test_warm_up_rises_in_equal_steps_then_the_schedule_takes_over():
    found = rates(epochs=5, schedule="cosine", warmup_epochs=1.5)
    assert found[:6] == pytest.approx([2 * step / 6 for step in range(1, 7)])
    assert found[6:] == pytest.approx([1 + math.cos(math.pi * step / 14) for step in range(14)])
    assert rates(epochs=2, schedule="constant", warmup_epochs=1) == [
        0.5,
        1.0,
        1.5,
        2.0,
        2.0,
        2.0,
        2.0,
        2.0,
    ]
    stepped = rates(epochs=4, schedule="step", step_epochs=2, step_factor=0.5, warmup_epochs=0.5)
    assert stepped == [1.0] + [2.0] * 7 + [1.0] * 8


def test_a_cosine_rises_from_and_falls_to_its_smallest_rate():
    found = rates(epochs=5, schedule="cosine", warmup_epochs=1, min_learning_rate=0.5)
    assert found[:4] == pytest.approx([0.5 + 1.5 * step / 4 for step in range(1, 4)] + [2.0])
    assert found[4:] == pytest.approx(
        [0.5 + 0.75 * (1 + math.cos(math.pi * step / 16)) for step in range(16)]
    )
    with pytest.raises(
        ValidationError, match="min_learning_rate must be at most learning_rate, got 3 and 2"
    ):
        rates(schedule="cosine", min_learning_rate=3.0)
    with pytest.raises(ValidationError, match="min_learning_rate belongs to cosine"):
        rates(schedule="constant", min_learning_rate=0.1)


def test_rates_of_a_run_are_those_of_the_schedule(tmp_path, monkeypatch):
    seen = []

    def watching(state, batch, position):
        figures = contrastive_step(state, batch, position)
        seen.append(state.optimizer.param_groups[0]["lr"])
        return figures

    monkeypatch.setattr("neurocontrast.training.loop.contrastive_step", watching)
    _, result = run(tmp_path, epochs=4, schedule="cosine", warmup_epochs=1, learning_rate=2.0)
    assert seen == rates(n_batches=3, epochs=4, schedule="cosine", warmup_epochs=1)
    assert [row["learning_rate"] for row in result.metrics] == seen[2::3]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"momentum": 0.9},
            "momentum belongs to sgd and lars, and nothing reads it with optimizer: adam; remove it",
        ),
        (
            {"optimizer": "adamw", "momentum": 0.0, "trust_coefficient": 0.1},
            "momentum belongs to sgd and lars; trust_coefficient belongs to lars, and nothing reads",
        ),
        ({"epochs": 5, "warmup_epochs": 5}, "warmup_epochs must be less than epochs, got 5 of 5"),
    ],
)
def test_settings_that_nothing_would_read_are_refused(given, message):
    with pytest.raises(ValidationError, match=message):
        TrainingSettings(**given)


def reference_step(weight, gradient, buffer, *, rate, momentum, decay, trust):
    """The paper's update for one weight, in plain numbers; a vector is neither scaled nor decayed."""
    if weight.ndim > 1:
        local = trust * weight.norm() / (gradient.norm() + decay * weight.norm())
        gradient = local * (gradient + decay * weight)
    buffer = momentum * buffer + gradient
    return weight - rate * buffer, buffer


def test_lars_follows_the_paper_and_leaves_biases_and_norms_to_sgd():
    generator = torch.Generator().manual_seed(0)
    shapes = ((4, 3), (2, 1, 3, 3, 3), (5,))
    found = [torch.nn.Parameter(torch.randn(shape, generator=generator)) for shape in shapes]
    expected = [weight.detach().clone() for weight in found]
    buffers = [torch.zeros(shape) for shape in shapes]
    optimizer = LARS(found, lr=0.3, momentum=0.8, weight_decay=0.1, trust_coefficient=0.05)
    for _ in range(3):
        for place, weight in enumerate(found):
            weight.grad = torch.randn(weight.shape, generator=generator)
            how = {"rate": 0.3, "momentum": 0.8, "decay": 0.1, "trust": 0.05}
            expected[place], buffers[place] = reference_step(
                expected[place], weight.grad, buffers[place], **how
            )
        optimizer.step()
    torch.testing.assert_close([weight.detach() for weight in found], expected)
    sgd = torch.nn.Parameter(torch.ones(5))
    lars = torch.nn.Parameter(torch.ones(5))
    sgd.grad = lars.grad = torch.arange(5.0)
    torch.optim.SGD([sgd], lr=0.3, momentum=0.9).step()
    LARS([lars], lr=0.3, momentum=0.9, weight_decay=0.5).step()
    assert torch.equal(sgd, lars)


def test_lars_step_does_not_depend_on_the_gradients_scale_and_survives_zeros():
    steps = []
    for scale in (1.0, 1000.0):
        weight = torch.nn.Parameter(torch.eye(3))
        weight.grad = scale * torch.arange(9.0).view(3, 3)
        LARS([weight], lr=1.0, momentum=0.0, trust_coefficient=0.1).step()
        steps.append(weight.detach() - torch.eye(3))
    torch.testing.assert_close(*steps)
    assert steps[0].norm() == pytest.approx(0.1 * torch.eye(3).norm().item())
    empty = torch.nn.Parameter(torch.zeros(2, 2))
    empty.grad = torch.ones(2, 2)
    LARS([empty], lr=1.0, momentum=0.0).step()
    assert torch.equal(empty, -torch.ones(2, 2))  # as SGD would: a weight of 0 has no scale
    still = torch.nn.Parameter(torch.ones(2, 2))
    still.grad = torch.zeros(2, 2)
    LARS([still], lr=1.0, momentum=0.0).step()
    assert torch.equal(still, torch.ones(2, 2))


@pytest.mark.parametrize(
    "recipe",
    [
        {"optimizer": "sgd", "schedule": "cosine", "warmup_epochs": 0.5},
        {"optimizer": "lars", "learning_rate": 5.0, "schedule": "cosine", "clip_norm": 0.5},
        {"optimizer": "adamw", "micro_batch_size": 2},
    ],
    ids=["sgd", "lars", "averaged"],
)
@pytest.mark.parametrize("n_batches", [2, 5])
def test_every_recipe_resumes_to_the_bit_within_an_epoch(tmp_path, recipe, n_batches):
    result, _ = assert_resumes(tmp_path, n_batches, **recipe)
    first = result.metrics[0]["train_loss"]
    last = result.metrics[-1]["train_loss"]
    assert math.isfinite(last)
    assert last != first
