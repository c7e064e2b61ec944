import os

import pytest
import torch

from neurocontrast.exceptions import ConfigError
from neurocontrast.parallel.devices import COMMAND, Launched, launched, refuse_several
from neurocontrast.parallel.hardware import Hardware
from neurocontrast.parallel.launch import _environment_of, launch

TORCHRUN = {"TORCHELASTIC_RUN_ID": "x", "RANK": "5", "LOCAL_RANK": "1", "WORLD_SIZE": "8"}
STEP = {"STEP_NUM_TASKS": "4", "NTASKS": "4", "PROCID": "3", "LOCALID": "1", "NODEID": "0"}
SRUN = {f"SLURM_{name}": value for name, value in STEP.items()}


@pytest.mark.parametrize(
    ("environment", "place"),
    [
        ({}, Launched()),
        (TORCHRUN, Launched("torchrun", 5, 1, 8, 8)),
        (SRUN, Launched("srun", 3, 1, 4, 4)),
        ({**SRUN, **TORCHRUN}, Launched("torchrun", 5, 1, 8, 8)),  # srun torchrun …
        (
            {"SLURM_NTASKS": "4", "SLURM_PROCID": "0", "SLURM_LOCALID": "0"},
            Launched(),
        ),  # the batch script itself
        ({**SRUN, "SLURM_STEP_NUM_TASKS": "1"}, Launched()),
        ({"LOCAL_RANK": "1", "WORLD_SIZE": "2"}, Launched()),  # of something else
        ({"LOCAL_RANK": "1", "WORLD_SIZE": "2", COMMAND: "1"}, Launched("fabric", 1, 1, 2, 2)),
        ({"LOCAL_RANK": "0", "WORLD_SIZE": "2", COMMAND: str(os.getpid())}, Launched()),
    ],
)
def test_the_place_is_read_from_the_launcher(environment, place):
    assert launched(environment) == place


def step_of_srun(monkeypatch, **changes):
    for name in ("MASTER_ADDR", "MASTER_PORT", "SLURM_NTASKS_PER_NODE"):
        monkeypatch.setenv(name, "")  # so that what is set here is put back
        monkeypatch.delenv(name)
    for name, value in (STEP | changes).items():
        monkeypatch.setenv(f"SLURM_{name}", value)


def start(accelerator="cpu", *, devices):
    return launch(Hardware(accelerator, devices))


def test_tasks_of_srun_are_those_of_its_step(monkeypatch):
    step_of_srun(monkeypatch, NTASKS_PER_NODE="8", STEP_TASKS_PER_NODE="2(x2)", NNODES="2")
    environment = _environment_of("srun")
    environment.validate_settings(num_devices=2, num_nodes=2)
    assert (environment.world_size(), environment.global_rank(), environment.local_rank()) == (
        4,
        3,
        1,
    )
    with pytest.raises(
        ConfigError, match=r"training\.devices, training\.num_nodes: .*--ntasks-per-node=2"
    ):
        start(devices=4)
    with pytest.raises(
        ConfigError, match=r"2 × 1 = 2 processes, but srun started 4\. Set both to that"
    ):
        start(devices=2)
    with pytest.raises(ConfigError, match=r"embed: works in one process, and srun started 4"):
        refuse_several("embed")
    step_of_srun(monkeypatch, STEP_TASKS_PER_NODE="3,1")
    with pytest.raises(ConfigError, match=r"srun: this step has 3,1 tasks .*--ntasks-per-node"):
        start(devices=4)


def test_gpus_that_are_not_there_are_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(
        ConfigError, match=r"training\.devices: 2 asked for, but PyTorch sees 1 GPU"
    ):
        start("cuda", devices=2)


def test_a_call_from_python_is_one_process():
    with pytest.raises(
        ConfigError, match=r"training\.devices: 2 processes are started by the command line"
    ):
        start(devices=2)
