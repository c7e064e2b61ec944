"""Micro-batches give the gradient, the figures and the run of the whole batch, in the memory of one of them."""

import pytest
import torch
from lightning_fabric import Fabric
from lightning_fabric.plugins import MixedPrecision
from tiny import N_SCANS, Images, assert_resumes, data, run, settings, steps_of, views
from torch import nn

from neurocontrast import losses
from neurocontrast.encoders import ContrastiveModel, EncoderSettings, build_model
from neurocontrast.kernels import Categorical, Gaussian
from neurocontrast.losses import core
from neurocontrast.parallel.collectives import Processes
from neurocontrast.parallel.launch import Engine
from neurocontrast.training.data import fit_objective
from neurocontrast.training.position import Position
from neurocontrast.training.state import ContrastiveState
from neurocontrast.training.steps import drawing, parts_of
from tests.losses.specimens import SPECIMENS, random_batch

ROWS = [3, 0, 9, 4, 7, 1, 8]
METADATA = {
    "age": torch.linspace(20, 80, N_SCANS),
    "sex": torch.arange(N_SCANS) % 2,
    "label": torch.arange(N_SCANS) % 3,
}
OBJECTIVES = {
    "NT-Xent": lambda: losses.NTXent(temperature=0.5),
    "NT-Xent in tiles": lambda: losses.NTXent(temperature=0.5),
    "y-Aware": lambda: losses.YAwareInfoNCE(
        Gaussian("age", sigma=10.0) * Categorical("sex"), temperature=0.5
    ),
    "conditional": lambda: losses.ConditionalAlignmentUniformity(
        Gaussian("age", sigma=10.0), temperature=0.5
    ),
    "SupCon": lambda: losses.SupCon("label", temperature=0.5),
    "CCL-K": lambda: losses.WeaklySupervisedCCLK(Gaussian("age", sigma=10.0), temperature=0.5),
    "age": lambda: losses.Supervised("age"),
    "sum": lambda: losses.SumOfObjectives(
        {
            "learn": losses.YAwareInfoNCE(Gaussian("age", sigma=10.0)),
            "forget": losses.FairCCLK(Categorical("sex")),
        },
        weights={"forget": 0.5},
    ),
}


def network(norm="group", name="lenet", seed=0):
    return build_model(EncoderSettings(name=name, norm=norm, projection=(16, 8)), seed=seed)


def start(model, micro, *, objective=None, given=None, made_views=views, engine=None, **changes):
    chosen = settings(batch_size=len(ROWS), micro_batch_size=micro, **changes)
    content = given or data(metadata=METADATA)
    objective = objective or OBJECTIVES["y-Aware"]()
    fit_objective(
        objective,
        content.metadata,
        names=content.names,
        training_rows=content.training_rows,
        validation_rows=content.validation_rows,
    )
    sampler = content.sampler(chosen, 7)
    return ContrastiveState(
        model, objective, made_views, content, settings=chosen, sampler=sampler, engine=engine
    )


def step(model, micro, **how):
    """Take one step; return the gradients it was taken with, and its figures."""
    state = start(model, micro, **how)
    (figures,) = steps_of(state, [ROWS])
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()]), figures


def relative(found, expected):
    return ((found - expected).norm() / expected.norm()).item()


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("micro", [1, 3])
def test_gradient_and_figures_are_those_of_the_whole_batch(name, micro, monkeypatch):
    if name.endswith("in tiles"):
        monkeypatch.setattr(core, "AT_ONCE", 16)
    whole, figures = step(network(), None, objective=OBJECTIVES[name]())
    parts, again = step(network(), micro, objective=OBJECTIVES[name]())
    assert relative(parts, whole) < 1e-5
    assert again == pytest.approx(figures, rel=1e-4, abs=1e-6)
    assert figures["gradient_norm"] == pytest.approx(whole.norm().item(), rel=1e-5)


@pytest.mark.parametrize("specimen", SPECIMENS, ids=lambda specimen: specimen.name)
def test_every_loss_has_the_gradient_of_the_whole_batch(specimen):
    """In float32, in which everyone trains; dropout and views are those of the other pass."""
    _, _, metadata = random_batch(N_SCANS, 4, seed=5)
    columns = {
        name: column.float() if column.is_floating_point() else column
        for name, column in metadata.items()
    }
    given = data(metadata=columns)
    whole, _ = step(network(), None, objective=specimen.build(), given=given)
    parts, _ = step(network(), 3, objective=specimen.build(), given=given)
    assert whole.norm() > 0
    assert relative(parts, whole) < 2e-5


def gradient_of_one_graph(model, made_views=views):
    """Return the gradient with all micro-batches in one graph: what the two passes must amount to."""
    state = start(model, None, made_views=made_views)
    features = []
    for number, part in enumerate(parts_of(ROWS, 3)):
        volumes = torch.stack([Images()[row]["image"] for row in part])
        with drawing(state, Position(), number):
            features.append(state.encode_views(volumes, torch.tensor(part), epoch=0))
    both = torch.cat(features, dim=1)
    z1, z2 = state.project(both)
    state.objective(z1, z2, state.metadata_of(torch.tensor(ROWS), both)).backward()
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


def test_batch_norm_sees_micro_batches_and_moves_its_running_statistics_once():
    model = network("batch")
    found, _ = step(model, 3)
    reference = network("batch")
    assert relative(found, gradient_of_one_graph(reference)) < 1e-5
    assert (
        relative(found, step(network("batch"), None)[0]) > 1e-2
    )  # which is not the gradient of the whole batch
    statistics = {
        name: buffer for name, buffer in reference.named_buffers() if "batches" not in name
    }
    torch.testing.assert_close(
        {name: dict(model.named_buffers())[name] for name in statistics}, statistics
    )
    counts = {name: int(buffer) for name, buffer in model.named_buffers() if "batches" in name}
    assert counts == {name: 1 if name.startswith("head") else 3 for name in counts}
    assert all(
        module.track_running_stats
        for module in model.modules()
        if isinstance(module, nn.BatchNorm3d)
    )


def with_dropout():
    model = network()
    model.encoder.features.layers.append(nn.Dropout(0.5))
    return model


def test_both_passes_draw_the_same_dropout_and_views():
    def random_views(volumes, names, *, epoch):
        return volumes + torch.rand_like(volumes), volumes + torch.rand_like(volumes)

    model = with_dropout()
    torch.manual_seed(0)
    untouched = torch.random.get_rng_state()
    found, _ = step(model, 3, made_views=random_views)
    assert torch.equal(torch.random.get_rng_state(), untouched)
    assert relative(found, gradient_of_one_graph(with_dropout(), random_views)) < 1e-5
    assert relative(step(with_dropout(), 3, made_views=random_views)[0], found) == 0
    torch.manual_seed(1)  # a global state the step does not read
    assert relative(step(with_dropout(), 3, made_views=random_views)[0], found) == 0


def test_dropout_of_a_resumed_run_is_that_of_the_uninterrupted_one(tmp_path, monkeypatch):
    monkeypatch.setattr("tiny.model", lambda **_: with_dropout())
    for name, micro in (("direct", None), ("parts", 2)):
        assert_resumes(tmp_path / name, 3, micro_batch_size=micro)


def test_clipping_scales_the_gradient_of_the_whole_batch():
    whole, figures = step(network(), None)
    limit = figures["gradient_norm"] / 4
    for micro in (None, 2):
        clipped, again = step(network(), micro, clip_norm=limit)
        assert relative(clipped, whole / 4) < 1e-5
        assert again["gradient_norm"] == pytest.approx(
            figures["gradient_norm"], rel=1e-5
        )  # before clipping
        unclipped, _ = step(network(), micro, clip_norm=limit * 5)
        assert relative(unclipped, whole) < 1e-5


class Linear(nn.Module):
    """An encoder that half precision computes alike on a CPU."""

    n_features = 32

    def __init__(self):
        super().__init__()
        self.map = nn.Linear(512, self.n_features)

    def forward(self, volumes):
        return self.map(volumes.flatten(1)).relu()


@pytest.mark.parametrize("limit", [None, 0.01])
def test_the_loss_scaler_scales_once(limit):
    def one(micro, precision):
        with torch.random.fork_rng():
            torch.manual_seed(0)
            model = ContrastiveModel(Linear(), nn.Linear(32, 8))
        plugins = [] if precision == "32-true" else [MixedPrecision(precision, "cpu")]
        engine = Engine(Fabric(accelerator="cpu", plugins=plugins), Processes())
        return step(model, micro, engine=engine, precision=precision, clip_norm=limit)

    (half, of_half), (parts, of_parts) = one(None, "16-mixed"), one(2, "16-mixed")
    full, of_full = one(None, "32-true")
    assert relative(half, full) < 0.02
    assert relative(parts, full) < 0.02
    assert of_half["gradient_norm"] == pytest.approx(of_full["gradient_norm"], rel=0.02)
    assert of_parts["gradient_norm"] == pytest.approx(of_full["gradient_norm"], rel=0.02)


def test_run_of_micro_batches_is_the_run_of_whole_batches_to_rounding(tmp_path, monkeypatch):
    monkeypatch.setattr("tiny.model", lambda **_: network())
    (whole, of_whole), (parts, of_parts) = (
        run(
            tmp_path / str(micro),
            micro_batch_size=micro,
            batch_size=10,
            epochs=3,
            optimizer="sgd",
            learning_rate=0.1,
        )
        for micro in (None, 3)
    )
    for first, second in zip(of_whole.metrics, of_parts.metrics, strict=True):
        for name in set(first) - {"seconds", "samples_per_second"}:
            assert second[name] == pytest.approx(first[name], rel=1e-3, abs=1e-5), name
    torch.testing.assert_close(parts.state_dict(), whole.state_dict(), rtol=1e-3, atol=1e-5)
    assert of_parts.batchnorm["n_layers"] == of_parts.batchnorm["n_batches"] == 0


@pytest.mark.parametrize("validation_rows", [(), range(10, N_SCANS)])
def test_no_more_volumes_than_a_micro_batchs_two_views_pass_the_encoder(
    tmp_path, monkeypatch, validation_rows
):
    seen = []

    def watched(**_):
        model = network("batch")
        model.encoder.register_forward_hook(lambda _, inputs, __: seen.append(len(inputs[0])))
        return model

    monkeypatch.setattr("tiny.model", watched)
    given = data(validation_rows=list(validation_rows))
    run(tmp_path, given=given, batch_size=10, micro_batch_size=2, epochs=1, probe_every=1)
    assert max(seen) == 4


def test_dropout_differs_from_batch_to_batch():
    state = start(with_dropout(), None)
    drawn = []
    for position in (Position(), Position(batch=1), Position(epoch=1), Position()):
        with drawing(state, position):
            drawn.append(torch.rand(4).tolist())
    assert drawn[0] == drawn[3]
    assert drawn[0] not in drawn[1:3]
    assert drawn[1] != drawn[2]
