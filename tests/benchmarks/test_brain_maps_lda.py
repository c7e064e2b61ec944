"""``benchmarks/weights``: published weights say whom they learned from, by content too."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import safetensors.torch
import torch

from benchmarks.weights import brain_maps_lda


@pytest.fixture
def made(monkeypatch, tmp_path, run_of_maps):
    """Return what is published of a run."""
    contract = SimpleNamespace(content=lambda: {"n_features": 2})
    monkeypatch.setattr(brain_maps_lda, "read_contract", lambda run: contract)
    folder = tmp_path / "published"
    folder.mkdir()
    brain_maps_lda.shrink(run_of_maps, folder)
    return folder


@pytest.fixture
def run_of_maps(tmp_path):
    """Write a run as `shrink` reads it."""
    run = tmp_path / "run"
    run.mkdir()
    tensors = {"features.layers.mean": torch.tensor([0.0, 0.5, 0.2])}
    (run / "encoder.safetensors").write_bytes(safetensors.torch.save(tensors))
    known = {
        **{"format": 1, "seed": 0, "cohort": {"path": "/somewhere"}, "simulated": False},
        **{"n_training_scans": 2, "preprocessing": {}, "pretraining_subjects": ["a" * 16]},
        **{"pretraining_contents": ["b" * 16], "pretraining_contents_complete": True},
        "environment": {"neurocontrast": "0.3.0", "python": "3.11", "packages": {}, "host": "x"},
    }
    (run / "provenance.json").write_text(json.dumps(known))
    return run


def test_published_weights_hold_digests_of_contents(made):
    published = json.loads((made / "provenance.json").read_text())
    assert published["pretraining_contents"] == ["b" * 16]
    assert published["pretraining_contents_complete"]
    assert published["pretraining_subjects"] == ["a" * 16]
    assert "host" not in published["environment"]
    tensors = safetensors.torch.load_file(made / "encoder.safetensors")
    assert tensors["features.layers.mean"].dtype == torch.float16
    assert np.isclose(tensors["features.layers.mean"].numpy(), [0.5, 0.2], rtol=1e-3).all()
