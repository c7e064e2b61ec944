"""`kill -9` at any moment, then resume: the bytes are those of a run that was never killed."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tiny import assert_same

from neurocontrast.training.checkpoints import newest_checkpoint

PROGRAM = Path(__file__).parent / "tiny.py"
EPOCHS = 30


@pytest.fixture(scope="module")
def server():
    """A process that starts a run's process for each folder it is given."""
    command = [sys.executable, PROGRAM, str(EPOCHS)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.stdin.close()


def start(server, folder):
    server.stdin.write(f"{folder}\n")
    server.stdin.flush()
    return int(server.stdout.readline())


def finish(server, folder):
    start(server, folder)
    assert int(server.stdout.readline()) == 0


@pytest.fixture(scope="module")
def whole(tmp_path_factory, server):
    folder = tmp_path_factory.mktemp("whole")
    finish(server, folder)
    return folder


def saved(folder):
    return sorted(path.name for path in folder.glob("checkpoints/*"))


def killed_after(seconds, server, folder, *, saves=True):
    """Start or continue the run, kill it so long after it began, or after it saved; say whether it still ran."""
    before = saved(folder)
    child = start(server, folder)
    while saves and saved(folder) == before and Path(f"/proc/{child}").exists():
        time.sleep(0.001)
    time.sleep(seconds)
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    return int(server.stdout.readline()) != 0


def test_killed_twice_then_resumed_is_the_uninterrupted_run(whole, server, tmp_path):
    killed = [killed_after(0.4, server, tmp_path, saves=False), killed_after(0.2, server, tmp_path)]
    assert any(killed)
    assert saved(tmp_path)
    finish(server, tmp_path)
    assert_same(tmp_path, whole)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_killed_at_many_moments_is_the_uninterrupted_run(whole, server, tmp_path, seed):
    moments = random.Random(seed)
    resumed_from = []
    for _ in range(5):  # 20 in all
        killed_after(moments.uniform(0.0, 0.3), server, tmp_path, saves=moments.random() < 0.8)
        resumed_from.append(newest_checkpoint(tmp_path / "checkpoints"))
    finish(server, tmp_path)
    assert_same(tmp_path, whole)
    assert any(path is not None and "-batch-" in path.name for path in resumed_from)
