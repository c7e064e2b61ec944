import sys
from pathlib import Path

import pytest

import neurocontrast
from neurocontrast.config import load_config

# Tests are imported by path; this lets them share `small_run`.
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="module")
def cohort(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cohort")
    return neurocontrast.simulate(folder / "simulated", n_subjects=14, n_sites=2, spacing_mm=8.0, seed=5)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def settings(cohort, cache):
    def make(*overrides):
        return load_config(
            None,
            [
                f"data.participants={cohort}",
                f"data.cache_dir={cache}",
                "data.spacing_mm=10",
                "data.shape=[16,20,16]",
                "data.val_fraction=0.3",
                "data.n_workers=1",
                "encoder={name: lenet, projection: [8, 4]}",
                "training={epochs: 2, batch_size: 4, learning_rate: 1e-2, accelerator: cpu}",
                *overrides,
            ],
        )

    return make


@pytest.fixture(scope="module")
def whole(tmp_path_factory, cohort, cache):
    """The uninterrupted run that others are compared with."""
    out = tmp_path_factory.mktemp("runs") / "whole"
    config = {
        "data": {
            "participants": str(cohort),
            "cache_dir": str(cache),
            "spacing_mm": 10,
            "shape": [16, 20, 16],
            "val_fraction": 0.3,
            "n_workers": 1,
        },
        "encoder": {"name": "lenet", "projection": [8, 4]},
        "training": {"epochs": 2, "batch_size": 4, "learning_rate": 1e-2, "accelerator": "cpu"},
    }
    return neurocontrast.pretrain(config, out=out)
