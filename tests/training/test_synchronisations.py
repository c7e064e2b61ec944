"""How often a step of training waits for its device: once, for its figures."""

from collections import Counter
from types import SimpleNamespace

import pytest
import torch
from monai.transforms import RandomizableTransform
from torch.utils._python_dispatch import TorchDispatchMode

from neurocontrast import losses
from neurocontrast.encoders import EncoderSettings, build_model
from neurocontrast.exceptions import ConfigError
from neurocontrast.kernels import Categorical, Gaussian
from neurocontrast.training import TrainingSettings
from neurocontrast.training.state import ContrastiveState, TrainerState
from neurocontrast.training.validation import measure_contrast
from neurocontrast.transforms import AugmentSettings, TwoViews, brain_views
from tests.training import tiny

WAITING = {
    *("aten::_local_scalar_dense", "aten::nonzero", "aten::masked_select", "aten::unique_dim"),
    *("aten::_unique2", "aten::equal", "aten::is_nonzero", "aten::repeat_interleave.Tensor"),
}


class Waits(TorchDispatchMode):
    """Count what would wait for an accelerator; shapes that depend on values count too."""

    def __init__(self):
        super().__init__()
        self.found = Counter()

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        name = operator.name()
        indices = args[1] if name in ("aten::index.Tensor", "aten::index_put_") else ()
        by_mask = any(index is not None and index.dtype == torch.bool for index in indices)
        if name in WAITING or by_mask:
            self.found[name] += 1
        return operator(*args, **(kwargs or {}))


@pytest.fixture
def waits(monkeypatch):
    """Count within a block; lists of numbers are read past the dispatcher, those of rows lie on the CPU."""
    waits = Waits()
    tolist = torch.Tensor.tolist

    def counted(tensor):
        if tensor.is_floating_point():
            waits.found["tolist"] += 1
        return tolist(tensor)

    monkeypatch.setattr(torch.Tensor, "tolist", counted)
    # Checks that are for tensors of a CPU alone are left out, as on an accelerator.
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    return waits


def plain_views(volumes, names, *, epoch):
    return volumes.float(), volumes.float() * 1.1


AGES = torch.linspace(20.0, 80.0, tiny.N_SCANS)
METADATA = {"age": AGES, "sex": torch.arange(tiny.N_SCANS) % 2}
OBJECTIVES = {
    "ntxent": lambda: losses.NTXent(),
    "learnable": lambda: losses.NTXent(temperature="learnable"),
    "yaware": lambda: losses.YAwareInfoNCE(Gaussian("age", sigma=5.0)),
    "conditional": lambda: losses.ConditionalAlignmentUniformity(
        Gaussian("age", sigma=5.0) * Categorical("sex")
    ),
    "sincere": lambda: losses.SINCERE("sex"),
    "missing": lambda: losses.YAwareInfoNCE(Gaussian("age", sigma=5.0, missing="marginal")),
}


def state_of(objective, views=plain_views, **settings):
    columns = {name: METADATA[name] for name in objective.columns}
    model = build_model(EncoderSettings(name="lenet", projection=(16, 8)))
    data = tiny.data(metadata=columns)
    chosen = TrainingSettings(batch_size=5, accelerator="cpu", **settings)
    sampler = data.sampler(chosen, 0)
    return ContrastiveState(model, objective, views, data, settings=chosen, sampler=sampler)


@pytest.mark.parametrize("micro_batch_size", [None, 2])
@pytest.mark.parametrize("name", OBJECTIVES)
def test_a_step_waits_once(name, micro_batch_size, waits):
    state = state_of(OBJECTIVES[name](), micro_batch_size=micro_batch_size, clip_norm=1.0)
    steps = tiny.steps_of(state, [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]])
    next(steps)  # the optimiser makes its state
    waits.found.clear()
    with waits:
        next(steps)
    steps.close()
    assert dict(waits.found) == {"tolist": 1}


@pytest.mark.parametrize("micro_batch_size", [None, 2])
def test_a_step_waits_once_for_its_figures_and_its_views(micro_batch_size, waits):
    views = TwoViews(brain_views(AugmentSettings.sites()), seed=0)
    state = state_of(losses.NTXent(), views, micro_batch_size=micro_batch_size)
    steps = tiny.steps_of(state, [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]])
    next(steps)
    waits.found.clear()
    with waits:
        next(steps)
    steps.close()
    assert dict(waits.found) == {"tolist": 1}


class RandHoled(RandomizableTransform):
    """Make a voxel infinite in half of the views."""

    def __call__(self, data):
        self.randomize(None)
        image = data["image"].clone()
        if self.R.random() < 0.5:
            image[0, 0, 0, 0] = float("inf")
        return {"image": image}


@pytest.mark.parametrize("micro_batch_size", [None, 2])
def test_a_view_that_is_not_finite_is_refused_by_name_before_weights_change(micro_batch_size):
    state = state_of(
        losses.NTXent(), TwoViews(RandHoled(), seed=0), micro_batch_size=micro_batch_size
    )
    before = [parameter.detach().clone() for parameter in state.model.parameters()]
    steps = tiny.steps_of(state, [[0, 1, 2, 3, 4]])
    with pytest.raises(ConfigError, match=r"augment: the view of .* that are not finite"):
        next(steps)
    for parameter, weights in zip(state.model.parameters(), before, strict=True):
        torch.testing.assert_close(parameter.detach(), weights, rtol=0, atol=0)


def test_a_view_that_is_not_finite_is_refused_by_name_in_validation():
    state = state_of(losses.NTXent(), TwoViews(RandHoled(), seed=0))
    with pytest.raises(ConfigError, match=r"augment: the view of .* that are not finite"):
        measure_contrast(state, after_batch=lambda: None)


def test_the_count_sees_what_waits(waits):
    values = torch.arange(3.0)
    with waits:
        float(values.sum())
        values[values > 1]
        values.tolist()
    assert waits.found.total() == 3


@pytest.mark.parametrize("is_pair", [False, True])
def test_images_go_to_a_gpu_from_pinned_memory(is_pair, monkeypatch):
    pinned = []
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda image: pinned.append(image) or image)
    fabric = SimpleNamespace(device=torch.device("cuda"), to_device=lambda images: images)
    state = SimpleNamespace(fabric=fabric, is_pair=is_pair)
    images = torch.zeros(2, 1, 4, 4, 4)
    TrainerState.send(state, (images, images) if is_pair else images)
    assert len(pinned) == 1 + is_pair
