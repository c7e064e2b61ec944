"""Losses under DistributedDataParallel equal those of one process, dense and tiled, with unequal batches."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.losses.specimens import SPECIMENS

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("world_size", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_parameter_gradients_after_the_mean_of_ddp(tmp_path, world_size):
    result = tmp_path / "errors.json"
    done = subprocess.run(
        [
            sys.executable,
            str(Path(__file__).with_name("ddp_worker.py")),
            str(world_size),
            str(result),
        ],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    errors = json.loads(result.read_text())
    assert len(errors) == 2 * (len(SPECIMENS) + 16)
    assert not {name: found for name, found in errors.items() if max(found) > 1e-10}
