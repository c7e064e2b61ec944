import subprocess
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
