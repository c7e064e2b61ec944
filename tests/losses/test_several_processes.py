"""Every loss in 2 and 4 processes with unequal batches, beside one process with all of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow  # by default their gradients are compared under DistributedDataParallel (test_distributed.py)
@pytest.mark.parametrize("world_size", [2, 4])
def test_loss_and_gradient_equal_those_of_one_process(tmp_path, world_size):
    result = tmp_path / "errors.json"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    script = Path(__file__).with_name("distributed_worker.py")
    done = subprocess.run(
        [sys.executable, str(script), str(world_size), str(result)],
        capture_output=True, text=True, env=environment, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    errors = json.loads(result.read_text())
    assert len(errors) > 30
    wrong = {name: found for name, found in errors.items() if max(found) > 1e-10}
    assert not wrong
