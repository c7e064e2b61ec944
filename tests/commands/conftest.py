import subprocess
import sys
from pathlib import Path

import pytest

import neurocontrast
from neurocontrast.config import load_config

# Tests are imported by path; this lets them share `small_run`.
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def cohort(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cohort")
    return neurocontrast.simulate(folder / "simulated", n_subjects=14, n_sites=2, spacing_mm=8.0, seed=5)


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def settings(cohort, cache):
    """``settings(*overrides)``: the configuration of a small run."""
    small = [
        f"data={{participants: {cohort}, cache_dir: {cache}, spacing_mm: 10, shape: [16, 20, 16], n_workers: 1}}",
        "data.val_fraction=0.3",
        "encoder={name: lenet, projection: [8, 4]}",
        "training={epochs: 2, batch_size: 4, learning_rate: 1e-2, accelerator: cpu}",
    ]
    return lambda *overrides: load_config(None, [*small, *overrides])


@pytest.fixture(scope="session")
def whole(tmp_path_factory, settings):
    """The uninterrupted run that others are compared with, which no test changes."""
    return neurocontrast.pretrain(settings(), out=tmp_path_factory.mktemp("runs") / "whole")


@pytest.fixture(scope="session")
def brain_run(tmp_path_factory, settings):
    """A run whose preprocessing is not the default: what embeds scans must take it from the run."""
    other = settings("data.normalise=zscore-brain", "data.cache_dtype=float32", "training.epochs=1")
    return neurocontrast.pretrain(other, out=tmp_path_factory.mktemp("runs") / "run")


PROGRAM = """
import os, signal, sys
import torch, neurocontrast, neurocontrast.training.checkpoints as checkpoints
from neurocontrast import pretrain
from neurocontrast.runs import folder as run_folder

torch.set_num_threads(1)


def act(config, out, then):
    if then == "die":
        save = checkpoints.save_checkpoint

        def save_and_die(*given, **options):
            save(*given, **options)
            os.kill(os.getpid(), signal.SIGKILL)

        checkpoints.save_checkpoint = save_and_die
    elif then != "finish":
        left = int(then)

        def die_at_a_file(event, given):
            nonlocal left
            if event in ("open", "os.rename", "os.mkdir", "os.remove") and str(given[0]).startswith(out):
                left -= 1
                if not left:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(die_at_a_file)
    neurocontrast.pretrain(config, out=out, resume=True)


for line in sys.stdin:
    if not (child := os.fork()):
        act(*line.rstrip("\\n").split("\\t"))
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.fixture(scope="module")
def pretrain_apart():
    """``pretrain_apart(config, out, then)``: the exit code of a process that begins or continues a run.

    Each is a copy of one that has done nothing but import.
    """
    command = [sys.executable, "-c", PROGRAM]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:

        def act(config, out, then="finish"):
            server.stdin.write(f"{config}\t{out}\t{then}\n")
            server.stdin.flush()
            return int(server.stdout.readline())

        yield act
        server.stdin.close()
