"""What is saved, when, and what becomes of a run whose disk fails it."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from tiny import after, rows_of, run, views, weights

from neurocontrast.exceptions import TrainingSuspended
from neurocontrast.training.loop import suspending

AT_ONCE = 1e-9
"""Minutes: after every batch."""


def names(folder):
    return sorted(path.name for path in (folder / "checkpoints").iterdir())


def test_within_an_epoch_checkpoints_change_no_bit(tmp_path):
    run(tmp_path / "whole")
    for n_batches in (1, 2, 4, 6):

        def vanish():
            raise KeyboardInterrupt  # as a kill: nothing is saved on the way out

        out = tmp_path / str(n_batches)
        with pytest.raises(KeyboardInterrupt):
            run(out, made_views=after(n_batches, vanish), checkpoint_minutes=AT_ONCE, keep_checkpoints=1)
        run(out, resume=True)
        assert weights(out) == weights(tmp_path / "whole")
        assert rows_of(out) == rows_of(tmp_path / "whole")


def test_checkpoints_fall_due_by_the_clock(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("neurocontrast.training.checkpoints.time.monotonic", lambda: now[0])

    def half_a_minute_later(volumes, names, *, epoch):
        now[0] += 30.0 if epoch >= 0 else 0.0
        return views(volumes, names, epoch=epoch)

    run(tmp_path, made_views=half_a_minute_later, checkpoint_minutes=1.0, epochs=2, keep_checkpoints=9)
    assert names(tmp_path) == [
        "epoch-0000-batch-000002.pt",
        "epoch-0001-batch-000002.pt",
        "epoch-0001.pt",
        "epoch-0002.pt",
    ]
    run(tmp_path / "never", checkpoint_minutes=0, epochs=1)
    assert names(tmp_path / "never") == ["epoch-0001.pt"]


FULL = """
import resource, sys
sys.path.insert(0, sys.argv[2])
import torch
from tiny import after, run
torch.set_num_threads(1)
limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, resource.RLIM_INFINITY))
try:
    run(sys.argv[1], made_views=after(5, limit))
except OSError as error:
    print(error)
    sys.exit(3)
"""


def test_a_full_disk_ends_with_the_checkpoint_before_intact(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", FULL, tmp_path / "run", Path(__file__).parent],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    assert "epoch-0002.pt" in done.stdout
    assert names(tmp_path / "run") == ["epoch-0001.pt"]
    run(tmp_path / "run", resume=True)
    assert names(tmp_path / "run") == ["epoch-0002.pt", "epoch-0003.pt"]
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY


def test_sigusr1_before_training_asks_to_be_started_again():
    with pytest.raises(TrainingSuspended, match="--resume goes on") as caught, suspending():
        os.kill(os.getpid(), 10)
    assert caught.value.exit_code == 75
