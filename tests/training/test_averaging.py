"""The moving average of the weights is what the formula says, what is measured, and what is saved."""

import os
import signal

import pytest
import torch
from tiny import Contrast, after, data, model, rows_of, run, settings, views, weights
from torch.optim.swa_utils import update_bn

from neurocontrast.encoders import load_encoder
from neurocontrast.exceptions import TrainingInterrupted
from neurocontrast.training.checkpoints import load_checkpoint
from neurocontrast.training.session import Session
from neurocontrast.training.steps import train_batches


@pytest.fixture
def trajectory(monkeypatch):
    """The weights after every step of the runs of a test."""
    seen = []

    def watching(session, batches, position):
        for result in train_batches(session, batches, position):
            seen.append({name: weight.detach().clone() for name, weight in session.model.named_parameters()})
            yield result

    monkeypatch.setattr("neurocontrast.training.loop.train_batches", watching)
    return seen


def average_of(trajectory, decay):
    average = trajectory[0]
    for weights_of_step in trajectory[1:]:
        average = {name: decay * average[name] + (1 - decay) * weight for name, weight in weights_of_step.items()}
    return average


def test_the_model_ends_as_the_average_of_its_steps(tmp_path, trajectory):
    trained, _ = run(tmp_path / "averaged", ema_decay=0.7)
    expected = average_of(trajectory, 0.7)
    torch.testing.assert_close(dict(trained.named_parameters()), expected)
    run(tmp_path / "plain")
    n_steps = len(trajectory) // 2
    for first, second in zip(trajectory[:n_steps], trajectory[n_steps:], strict=True):
        assert all(torch.equal(first[name], second[name]) for name in first)  # averaging does not change training
    loaded, _ = load_encoder(tmp_path / "averaged")
    saved = {f"encoder.{name}": weight for name, weight in loaded.named_parameters()}
    torch.testing.assert_close(saved, {name: weight for name, weight in expected.items() if name in saved})
    assert weights(tmp_path / "averaged") != weights(tmp_path / "plain")


def test_statistics_are_those_of_the_averaged_weights(tmp_path, monkeypatch):
    seen = {}

    def watching(batches, model):
        volumes = list(batches)
        update_bn(volumes, model)
        seen["mean"] = model.encoder.features.layers[0](torch.cat(volumes)).mean(dim=(0, 2, 3, 4))

    monkeypatch.setattr("neurocontrast.training.validation.update_bn", watching)
    trained, _ = run(tmp_path, ema_decay=0.7, learning_rate=0.1, batch_size=10)
    torch.testing.assert_close(trained.encoder.features.layers[1].running_mean, seen["mean"])
    torch.testing.assert_close(load_encoder(tmp_path)[0].features.layers[1].running_mean, seen["mean"])


def test_checkpoints_keep_both_and_a_stop_at_the_very_end_loses_neither(tmp_path):
    run(tmp_path / "whole", ema_decay=0.7, epochs=2)
    n_calls = 2 * (3 + 1)  # views of three batches and of validation; the next reading is of BatchNorm's statistics
    stopping = after(n_calls, lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(TrainingInterrupted):
        run(tmp_path / "cut", made_views=stopping, ema_decay=0.7, epochs=2)
    checkpoint = max((tmp_path / "cut/checkpoints").iterdir())
    _, tensors = load_checkpoint(checkpoint)
    name = "encoder.features.layers.0.weight"
    assert not torch.equal(tensors["model"][name], tensors["average"][f"module.{name}"])
    run(tmp_path / "cut", resume=True, ema_decay=0.7, epochs=2)
    assert weights(tmp_path / "cut") == weights(tmp_path / "whole")
    assert rows_of(tmp_path / "cut") == rows_of(tmp_path / "whole")


def test_validation_and_probe_see_the_average_and_give_the_trained_weights_back(tmp_path):
    _, averaged = run(tmp_path / "averaged", ema_decay=0.999999, learning_rate=0.05, probe_every=1)
    _, plain = run(tmp_path / "plain", learning_rate=0.05, probe_every=1)
    for first, second in zip(averaged.metrics, plain.metrics, strict=True):
        assert first["train_loss"] == second["train_loss"]
    # So slow an average stays where it began, and so does what is measured of it.
    for name in ("val_loss", "val_effective_rank", "probe_age_r2"):
        moved = [abs(each.metrics[-1][name] - each.metrics[0][name]) for each in (averaged, plain)]
        assert moved[0] < moved[1] / 100, name


def test_weights_come_back_when_something_fails():
    network = model()
    session = Session(network, Contrast(), views, data(), settings=settings(ema_decay=0.5), seed=0)
    before = {name: tensor.clone() for name, tensor in network.named_parameters()}
    with torch.no_grad():
        for weight in session.average.module.parameters():
            weight.add_(1.0)

    def fail():
        with session.averaged():
            assert all(torch.equal(tensor, before[name] + 1.0) for name, tensor in network.named_parameters())
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.named_parameters())
    session.exchange_average()
    assert all(torch.equal(tensor, before[name] + 1.0) for name, tensor in network.named_parameters())
