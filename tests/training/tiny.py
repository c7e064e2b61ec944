"""A training run small enough for a fraction of a second."""

import contextlib
import csv
import os
import signal
from pathlib import Path

import numpy as np
import torch
from torch.nn.functional import cross_entropy, normalize

from neurocontrast.documents.encoder import EncoderDescription
from neurocontrast.encoders import EncoderSettings, build_model, save_encoder
from neurocontrast.exceptions import TrainingInterrupted
from neurocontrast.progress import SILENT
from neurocontrast.seeds import derive_generator
from neurocontrast.training import PretextTask, TrainingData, TrainingOutput, TrainingSettings, fit
from neurocontrast.training.position import Position
from neurocontrast.training.steps import contrastive_step, open_batches

N_SCANS = 14
SITES = np.array(
    ["rome"] * 6 + ["oslo", "oslo", "bonn", "rome"] + ["rome", "oslo", "oslo", "bonn"], dtype=object
)


class Images:
    """Blobs whose brightness follows a number, the same on every reading."""

    def __init__(self, broken=(), side=8):
        self.broken = broken
        self.shape = (1, side, side, side)

    def __len__(self):
        return N_SCANS

    def __getitem__(self, index):
        noise = derive_generator("image", index).standard_normal(self.shape).astype(np.float32)
        image = torch.from_numpy(noise) + index / N_SCANS
        return {"image": image * torch.nan if index in self.broken else image, "index": index}


class Pictures:
    """Colours in bytes, brighter from picture to picture, read straight into their batch."""

    image_shape = (3, 12, 10)
    image_dtype = np.dtype(np.uint8)

    def __len__(self):
        return N_SCANS

    def read_into(self, out, index):
        noise = derive_generator("picture", index).integers(0, 128, self.image_shape)
        out[:] = noise + 127 * index // N_SCANS

    def __getitem__(self, index):
        image = np.empty(self.image_shape, self.image_dtype)
        self.read_into(image, index)
        return {"image": torch.from_numpy(image), "index": index}


class Contrast(torch.nn.Module):
    """Cross-view InfoNCE in three lines, with a fitted state and two terms that sum to it."""

    kernel = None
    contrasts = True
    reads_features = False

    def __init__(self):
        super().__init__()
        self.register_buffer("sigma", torch.tensor(1.0))

    def check(self, metadata, *, names):
        if self.kernel is not None:
            self.kernel.check(metadata, names=names)

    def fit(self, metadata):
        if self.kernel is not None:
            self.kernel.fit(metadata)

    def forward(self, z1, z2, metadata=None):
        return sum(self.terms(z1, z2, metadata).values())

    def terms(self, z1, z2, metadata=None):
        scores = normalize(z1, dim=1) @ normalize(z2, dim=1).T / 0.5
        loss = cross_entropy(scores, torch.arange(len(scores)))
        alignment = -scores.diagonal().mean()
        return {"alignment": alignment, "uniformity": loss - alignment}

    def figures(self, z1, z2, metadata=None):
        return {f"term_{name}": value for name, value in self.terms(z1, z2, metadata).items()}


def views(volumes, names, *, epoch):
    made = []
    for view in (0, 1):
        shape = volumes.shape[1:]
        noise = [
            derive_generator("view", epoch, int(name[4:]), view).standard_normal(shape)
            for name in names
        ]
        made.append(volumes + 0.5 * torch.tensor(np.stack(noise), dtype=torch.float32))
    return tuple(made)


def views_of_pictures(pictures, names, *, epoch):
    return tuple(view.clamp(0, 1) for view in views(pictures.float() / 255, names, epoch=epoch))


def data(**changes):
    ages = np.linspace(20, 80, N_SCANS)
    sexes = np.array(["F", "M"] * (N_SCANS // 2), dtype=object)
    content = {
        "images": Images(),
        "names": [f"sub-{row:02d}" for row in range(N_SCANS)],
        "metadata": {},
        "training_rows": list(range(10)),
        "validation_rows": list(range(10, N_SCANS)),
        "targets": {"age": ages, "sex": sexes},
        "traits": {"age": ages, "sex": sexes, "site": SITES},
    }
    return TrainingData(**{**content, **changes})


def settings(**changes):
    content = {
        "epochs": 3,
        "batch_size": 4,
        "learning_rate": 1e-2,
        "step_epochs": 2,
        "step_factor": 0.5,
    }
    return TrainingSettings(**{**content, "accelerator": "cpu", **changes})


LENET = EncoderSettings(name="lenet", projection=(8, 4))


def model(seed=0, encoder=LENET):
    return build_model(encoder, seed=seed)


def run(folder, *, resume=False, objective=None, made_views=views, given=None, progress=SILENT, encoder=LENET,
        save=True, **changes):  # fmt: skip
    trained = model(encoder=encoder)
    objective = objective or Contrast()
    given = given or data()
    task = PretextTask(made_views, objective)
    output = TrainingOutput(Path(folder), resume=resume, progress=progress)
    result = fit(trained, task, given, settings=settings(**changes), seed=7, output=output)
    if save:  # of several processes the first
        described = EncoderDescription.model_validate(
            {"preprocessing": {}, "batchnorm": result.batchnorm}
        )
        save_encoder(folder, trained.encoder, described)
    return trained, result


def steps_of(state, batches):
    """Take a step a batch, all of the first position, and yield the figures of each."""
    with contextlib.closing(open_batches(state, batches)) as reading:
        for batch in reading:
            yield contrastive_step(state, batch, Position())


TIMING = ("seconds", "samples_per_second")


def rows_of(folder):
    """Return what ``metrics.csv`` says, but for the time it took."""
    with open(folder / "metrics.csv", newline="") as stream:
        return [{k: v for k, v in row.items() if k not in TIMING} for row in csv.DictReader(stream)]


def weights(folder):
    return (folder / "encoder.safetensors").read_bytes()


def assert_same(folder, other):
    """Assert that two runs have the same weights, and the same rows but for time."""
    assert weights(folder) == weights(other)
    assert rows_of(folder) == rows_of(other)


def after(n_batches, action, made_views=views):
    """Views that act when they are asked for the n-th batch."""
    calls = []

    def acting(volumes, names, *, epoch):
        calls.append(epoch)
        if len(calls) == n_batches:
            action()
        return made_views(volumes, names, epoch=epoch)

    return acting


def assert_resumes(folder, n_batches, number=signal.SIGTERM, *, made_views=views, **how):
    """Stop a run by a signal at its n-th batch and continue it: bytes and rows are those of one that was not stopped.

    Return the result of the whole run, and what was said when the other stopped.
    """
    _, result = run(folder / "whole", made_views=made_views, **how)
    stopping = after(n_batches, lambda: os.kill(os.getpid(), number), made_views)
    try:
        run(folder / "cut", made_views=stopping, **how)
    except TrainingInterrupted as error:
        said = str(error)
    assert not (folder / "cut/encoder.json").exists()
    torch.rand(5)  # a global state that no run reads
    run(folder / "cut", resume=True, made_views=made_views, **how)
    assert_same(folder / "cut", folder / "whole")
    return result, said
