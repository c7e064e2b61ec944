"""Training, embedding, fine-tuning and explaining on a GPU, beside the same on the processor."""

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_allclose
from safetensors.torch import load_file

import neurocontrast
from neurocontrast.documents.embeddings import read_embeddings

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

# The first gradient is steep: at a small rate both devices stay together.
SMALL_STEPS = ("encoder.norm=group", "training.learning_rate=1e-6", "training.epochs=2")


@pytest.fixture(autouse=True)
def exact(monkeypatch):
    """Convolutions in float32, which PyTorch rounds to TF32 on a GPU."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


@pytest.fixture(scope="module")
def run(settings, tmp_path_factory):
    on_gpu = settings("training.accelerator=cuda", *SMALL_STEPS)
    return neurocontrast.pretrain(on_gpu, out=tmp_path_factory.mktemp("gpu") / "run")


def assert_close(one, other):
    here, there = (load_file(each / "encoder.safetensors") for each in (one, other))
    for name, value in there.items():
        torch.testing.assert_close(here[name], value, rtol=1e-3, atol=1e-5, msg=name)


def test_training_is_the_processor_s(run, settings, tmp_path):
    assert_close(run, neurocontrast.pretrain(settings(*SMALL_STEPS), out=tmp_path / "cpu"))


@pytest.mark.parametrize("micro_batch_size", [2, 3])
def test_micro_batches_are_the_whole_batch(run, settings, tmp_path, micro_batch_size):
    parts = settings(
        "training.accelerator=cuda", *SMALL_STEPS, f"training.micro_batch_size={micro_batch_size}"
    )
    assert_close(neurocontrast.pretrain(parts, out=tmp_path / "run"), run)


def test_a_run_begun_on_a_gpu_goes_on_there_and_on_the_processor(settings, tmp_path):
    shorter = settings("training.accelerator=cuda", *SMALL_STEPS, "training.epochs=1")
    for accelerator in ("cuda", "cpu"):
        out = tmp_path / accelerator
        neurocontrast.pretrain(shorter, out=out)
        longer = settings(*SMALL_STEPS, f"training.accelerator={accelerator}")
        neurocontrast.pretrain(longer, out=out, resume=True)
    assert_close(tmp_path / "cuda", tmp_path / "cpu")


@pytest.mark.parametrize("precision", ["bf16-mixed", "16-mixed"])
def test_half_precision_trains(settings, tmp_path, precision):
    half = settings(
        "training.accelerator=cuda",
        f"training.precision={precision}",
        "training.learning_rate=1e-3",
    )
    run = neurocontrast.pretrain(half, out=tmp_path / "run")
    weights = load_file(run / "encoder.safetensors")
    assert all(torch.isfinite(value.float()).all() for value in weights.values())


def test_embeddings_are_the_processor_s(run, others, tmp_path):
    found = []
    for name in ("cuda", "cpu"):
        out = tmp_path / f"{name}.parquet"
        config = {"embedding": {"accelerator": name}}
        made = neurocontrast.embed(run, participants=others, out=out, config=config)
        found.append(read_embeddings(made).features)
    assert_allclose(*found, rtol=1e-3, atol=1e-4)
    assert np.ptp(found[0], axis=0).max() > 0


def test_an_explanation_is_the_processor_s(run, others, tmp_path):
    table = neurocontrast.embed(run, participants=others, out=tmp_path / "embeddings.parquet")
    evaluation = neurocontrast.evaluate(table, target="age", out=tmp_path / "evaluation")
    scores = []
    for name in ("cuda", "cpu"):
        folder = neurocontrast.explain(
            evaluation, run=run, participants=others, out=tmp_path / name,
            config={"explanation": {"accelerator": name, "n_subjects": 4, "patch_mm": 40.0}},
        )  # fmt: skip
        scores.append(pd.read_csv(folder / "saliency.tsv", sep="\t")["score"].to_numpy())
    assert_allclose(*scores, rtol=1e-3, atol=1e-3)


def test_fine_tuning_runs_on_a_gpu(run, others, tmp_path):
    settings = {
        "finetune": {"accelerator": "cuda", "epochs": 2},
        "evaluation": {"n_folds": 2, "n_repeats": 1},
    }
    out = neurocontrast.finetune(
        run, participants=others, target="sex", out=tmp_path / "finetuned", config=settings
    )
    assert (out / "predictions.tsv").is_file()
