"""`kill -9` at any moment, then resume: the bytes are those of a run that was never killed."""

import contextlib
import os
import random
import signal
import time
from pathlib import Path

import pytest
from several import finish, start
from tiny import assert_same

from neurocontrast.training.checkpoints import newest_checkpoint

EPOCHS = 16
RUN = {"resume": True, "epochs": EPOCHS, "probe_every": 2, "checkpoint_minutes": 1e-9}


def run_to_its_end(folder):
    ended = finish(start(folder, **RUN))
    assert ended == [(0, "")]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "run"
    run_to_its_end(folder)
    return folder


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "run"


def saved(folder):
    return sorted(path.name for path in folder.glob("checkpoints/*"))


def killed_after(seconds, folder, *, saves=True):
    """Start or continue the run, kill it so long after it began, or after it saved; say whether it still ran."""
    before = saved(folder)
    started = start(folder, **RUN)
    (child,) = started.numbers
    while saves and saved(folder) == before and Path(f"/proc/{child}").exists():
        time.sleep(0.001)
    time.sleep(seconds)
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    ((code, _),) = finish(started)
    return code != 0


def test_killed_twice_then_resumed_is_the_uninterrupted_run(whole, folder):
    killed = [killed_after(0.4, folder, saves=False), killed_after(0.2, folder)]
    assert any(killed)
    assert saved(folder)
    run_to_its_end(folder)
    assert_same(folder, whole)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_killed_at_many_moments_is_the_uninterrupted_run(whole, folder, seed):
    moments = random.Random(seed)
    resumed_from = []
    for _ in range(5):  # 20 in all
        killed_after(moments.uniform(0.0, 0.3), folder, saves=moments.random() < 0.8)
        resumed_from.append(newest_checkpoint(folder / "checkpoints"))
    run_to_its_end(folder)
    assert_same(folder, whole)
    assert any(path is not None and "-batch-" in path.name for path in resumed_from)
