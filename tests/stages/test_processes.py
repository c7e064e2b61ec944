"""`pretrain` on several devices: processes that one call starts, hears and ends."""

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
from neurocontrast.exceptions import ConfigError, DataError, TrainingError, TrainingSuspended
from neurocontrast.progress import SILENT
from neurocontrast.stages.processes import _raise_failure, _relayed


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("several")
    neurocontrast.simulate(folder / "cohort", n_subjects=12, n_sites=2, spacing_mm=8.0)
    return folder


@pytest.fixture
def overrides(folder, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return [
        f"data.participants={folder / 'cohort/participants.tsv'}",
        f"data.cache_dir={folder / 'cache'}",
        "data.spacing_mm=10",
        "data.shape=[16,20,16]",
        "data.val_fraction=0",
        "data.n_workers=1",
        "encoder={name: lenet, projection: [8, 4]}",
        "training={epochs: 2, batch_size: 4, devices: 2, accelerator: cpu}",
    ]


class Listening(type(SILENT)):
    def __init__(self):
        self.said = []

    def message(self, text):
        self.said.append(text)


def processes_below(pid):
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    return [int(line) for line in found.stdout.split()]


def command_line(overrides, out, *more):
    settings = [part for each in overrides for part in ("--set", each)]
    return [Path(sys.executable).parent / "neurocontrast", "pretrain", *settings, "--out", str(out), *more]


def test_a_call_from_python_starts_the_processes_and_hears_the_first(overrides, tmp_path):
    progress = Listening()
    run = neurocontrast.pretrain(load_config(None, overrides), out=tmp_path / "run", progress=progress)
    encoder, contract = load_encoder(run)
    assert contract["epochs"] == 2
    assert [text[:10] for text in progress.said] == ["epoch 1/2:", "epoch 2/2:", f"{run}: finished."[:10]]
    assert sorted(path.name for path in run.iterdir() if path.name.startswith(".")) == []
    half, contract = load_encoder(run / "checkpoints/epoch-0001")
    assert contract["epochs"] == 1
    assert half.n_features == encoder.n_features
    with pytest.raises(ConfigError, match="already holds a run"):
        neurocontrast.pretrain(load_config(None, overrides), out=run)


def test_errors_of_the_processes_are_those_of_the_call(overrides, folder, tmp_path):
    missing = load_config(None, [*overrides, "data.images_root=nowhere"])
    with pytest.raises(DataError, match="nowhere"):
        neurocontrast.pretrain(missing, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            ["training.devices=3", "training.num_nodes=2"],
            r"3 × 2 = 6 processes, but this is 1\. Start them with torchrun",
        ),
        (["data.participants=null"], r"data\.participants: missing"),
    ],
)
def test_what_can_be_told_at_once_is_told_before_any_process_starts(overrides, tmp_path, changes, message):
    with pytest.raises(ConfigError, match=message):
        neurocontrast.pretrain(load_config(None, [*overrides, *changes]), out=tmp_path / "run")


@pytest.mark.slow
@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 1), (signal.SIGUSR1, 75)])
def test_a_signal_to_the_command_stops_all_processes_with_a_checkpoint(overrides, tmp_path, sent, code):
    out = tmp_path / "run"
    command = command_line([*overrides, "training.epochs=1000"], out)
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        while not (out / "checkpoints/epoch-0001.pt").exists():
            assert process.poll() is None
            time.sleep(0.02)
        below = processes_below(process.pid)
        process.send_signal(sent)
        said = process.communicate(timeout=60)[1]
    assert process.returncode == code
    assert said.count(f"stopped by {sent.name} after") == 1
    assert len(below) == 2
    assert not any(Path(f"/proc/{pid}").exists() for pid in below)
    saved = re.search(r"saved as (\S+\.pt)", said)
    assert saved is not None
    assert Path(saved[1]).exists()


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["command", "process"])
def test_killed_processes_leave_none_behind_and_the_run_resumes(overrides, tmp_path, victim):
    out = tmp_path / "run"
    with subprocess.Popen(
        command_line([*overrides, "training.epochs=1000"], out), stderr=subprocess.PIPE, text=True
    ) as process:
        while not (out / "checkpoints/epoch-0001.pt").exists():
            assert process.poll() is None
            time.sleep(0.02)
        below = processes_below(process.pid)
        os.kill(process.pid if victim == "command" else below[1], signal.SIGKILL)
        said = process.communicate(timeout=60)[1]
    if victim == "process":
        assert process.returncode == 1
        assert "process 1 of this run's 2 was ended by SIGKILL" in said
    deadline = time.monotonic() + 30
    while any(Path(f"/proc/{pid}").exists() for pid in below) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(Path(f"/proc/{pid}").exists() for pid in below)
    done = len((out / "metrics.csv").read_text().splitlines())
    single = [*overrides, f"training.epochs={done + 1}", "training.devices=1"]
    subprocess.run(command_line(single, out, "--resume"), check=True)
    assert (out / "encoder.json").exists()


@pytest.mark.slow
def test_torchrun_gives_the_same_run_and_the_first_process_alone_prints(overrides, tmp_path):
    command = command_line(overrides, tmp_path / "own")
    own = subprocess.run(command, capture_output=True, text=True, check=True)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--no-python"]
    there = [*launcher, *command_line(overrides, tmp_path / "torchrun")]
    done = subprocess.run(there, capture_output=True, text=True, check=True)
    assert own.stdout.splitlines()[-1] == str(tmp_path / "own")
    assert done.stdout.splitlines()[-1] == str(tmp_path / "torchrun")
    assert done.stdout.count("The last epoch") == 1
    assert done.stderr.count("epoch 1/2:") == 1
    encoders = [(tmp_path / name / "encoder.safetensors").read_bytes() for name in ("own", "torchrun")]
    assert encoders[0] == encoders[1]
    again = subprocess.run(there, capture_output=True, text=True, check=False)
    assert again.returncode != 0
    assert again.stderr.count("already holds a run") == 1


LOST = {"name": "OtherProcessEnded", "text": "another", "exit_code": 1, "errno": None, "filename": None}
FULL = {"name": "OSError", "text": "No space left on device", "exit_code": None, "errno": 28, "filename": "a.pt"}


@pytest.mark.parametrize(
    ("errors", "failed", "stopped_by", "error", "message"),
    [
        ({0: LOST}, {1: -9}, None, TrainingError, r"process 1 of this run's 2 was ended by SIGKILL"),
        ({0: FULL, 1: LOST}, {0: 1}, None, OSError, r"No space left on device: 'a\.pt'"),
        ({0: LOST, 1: LOST}, {}, None, TrainingError, "another"),
        ({0: LOST}, {1: -signal.SIGUSR1}, None, TrainingSuspended, "--resume goes on"),  # before it was taken over
        ({}, {}, signal.SIGUSR1, TrainingSuspended, "--resume goes on"),
        ({0: LOST}, {}, signal.SIGTERM, KeyboardInterrupt, None),
    ],
)
def test_of_several_failures_the_cause_is_raised(errors, failed, stopped_by, error, message):
    with pytest.raises(error, match=message):
        _raise_failure(errors, [], failed, stopped_by, 2)


def test_half_a_line_of_a_killed_process_does_not_stop_the_relay(tmp_path):
    progress = Listening()
    with _relayed(tmp_path / "told", progress):
        (tmp_path / "told").write_text('["message", "whole"]\n["mess')
    assert progress.said == ["whole"]


def test_a_progress_that_fails_is_the_error_of_the_call(tmp_path):
    class Failing(type(SILENT)):
        def message(self, text):
            raise ZeroDivisionError(text)

    with _relayed(tmp_path / "told", Failing()) as failures:
        (tmp_path / "told").write_text('["message", "first"]\n["warning", "second"]\n')
    with pytest.raises(ZeroDivisionError, match="first"):
        _raise_failure({}, failures, {}, None, 2)
