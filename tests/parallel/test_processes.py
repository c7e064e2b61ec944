"""`pretrain` on several devices: processes that one call starts and ends."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import neurocontrast
from neurocontrast.config import load_config
from neurocontrast.encoders import load_encoder
from neurocontrast.exceptions import ConfigError


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("several")
    neurocontrast.simulate(folder / "cohort", n_subjects=12, n_sites=2, spacing_mm=8.0)
    return folder


@pytest.fixture
def overrides(folder, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    paths = f"participants: {folder / 'cohort/participants.tsv'}, cache_dir: {folder / 'cache'}"
    return [
        f"data={{{paths}, spacing_mm: 10, shape: [16, 20, 16], val_fraction: 0, n_workers: 1}}",
        "encoder={name: lenet, projection: [8, 4]}",
        "training={epochs: 2, batch_size: 4, devices: 2, accelerator: cpu}",
    ]


def command_line(overrides, out, *more):
    settings = [part for each in overrides for part in ("--set", each)]
    return [
        Path(sys.executable).parent / "neurocontrast",
        "pretrain",
        *settings,
        "--out",
        str(out),
        *more,
    ]


@contextlib.contextmanager
def training(overrides, out):
    """Start a long run, and give its process and the one below it once the first epoch is saved."""
    command = command_line([*overrides, "training.epochs=1000"], out)
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        while not (out / "checkpoints/epoch-0001.pt").exists():
            assert process.poll() is None
            time.sleep(0.02)
        found = subprocess.run(
            ["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True, check=False
        )
        (below,) = map(int, found.stdout.split())
        yield process, below
    while Path(f"/proc/{below}").exists():  # or the test is stopped by its limit
        time.sleep(0.05)


@pytest.mark.slow
def test_the_command_starts_the_processes_and_one_of_them_speaks(overrides, tmp_path):
    # Layers behind the block that is read out have no gradient, for which no process may wait.
    command = command_line([*overrides, "encoder.read_out={blocks: [2]}"], tmp_path / "run")
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.count("The last epoch") == 1
    assert done.stdout.splitlines()[-1] == str(tmp_path / "run")
    assert done.stderr.count("epoch 1/2:") == 1
    assert load_encoder(tmp_path / "run")[1].epochs == 2
    missing = command_line([*overrides, "data.images_root=nowhere"], tmp_path / "other")
    done = subprocess.run(missing, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.count("nowhere") == 1
    assert not (tmp_path / "other").exists()


def test_what_can_be_told_at_once_is_told_before_any_process_starts(overrides, tmp_path):
    with pytest.raises(ConfigError, match=r"data\.participants: missing"):
        neurocontrast.pretrain(
            load_config(None, [*overrides, "data.participants=null"]), out=tmp_path / "run"
        )
    overrides += ["training.devices=3", "training.num_nodes=2"]
    with pytest.raises(ConfigError, match=r"3 × 2 = 6 processes, but this is 1\. .* torchrun"):
        neurocontrast.pretrain(load_config(None, overrides), out=tmp_path / "run")


@pytest.mark.slow
@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 1), (signal.SIGUSR1, 75)])
def test_a_signal_to_the_command_stops_all_processes_with_a_checkpoint(
    overrides, tmp_path, sent, code
):
    with training(overrides, tmp_path / "run") as (process, _):
        process.send_signal(sent)
        said = process.communicate()[1]
    assert process.returncode == code
    assert said.count(f"stopped by {sent.name} after") == 1
    saved = re.search(r"saved as (\S+\.pt)", said)
    assert saved is not None
    assert Path(saved[1]).exists()


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["command", "process"])
def test_killed_processes_leave_none_behind_and_the_run_resumes(overrides, tmp_path, victim):
    out = tmp_path / "run"
    with training(overrides, out) as (process, below):
        os.kill(process.pid if victim == "command" else below, signal.SIGKILL)
        said = process.communicate()[1]
    if victim == "process":
        assert process.returncode == 1
        assert "another process of this run has ended" in said
    done = len((out / "metrics.csv").read_text().splitlines())
    single = [*overrides, f"training.epochs={done + 1}", "training.devices=1"]
    subprocess.run(command_line(single, out, "--resume"), check=True)
    assert (out / "encoder.json").exists()


@pytest.mark.slow
def test_torchrun_gives_the_same_run_and_the_first_process_alone_prints(overrides, tmp_path):
    command = command_line(overrides, tmp_path / "own")
    subprocess.run(command, capture_output=True, check=True)
    launcher = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc-per-node",
        "2",
        "--no-python",
    ]
    there = [*launcher, *command_line(overrides, tmp_path / "torchrun")]
    done = subprocess.run(there, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == str(tmp_path / "torchrun")
    assert done.stdout.count("The last epoch") == 1
    assert done.stderr.count("epoch 1/2:") == 1
    encoders = [
        (tmp_path / name / "encoder.safetensors").read_bytes() for name in ("own", "torchrun")
    ]
    assert encoders[0] == encoders[1]
    again = subprocess.run(there, capture_output=True, text=True, check=False)
    assert again.returncode != 0
    assert again.stderr.count("already holds a run") == 1
