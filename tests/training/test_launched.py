import pytest
import torch
from tiny import run, settings, weights

from neurocontrast.exceptions import ConfigError
from neurocontrast.training.distributed import launch
from neurocontrast.training.launched import Launched, launched

TORCHRUN = {"TORCHELASTIC_RUN_ID": "x", "RANK": "5", "LOCAL_RANK": "1", "WORLD_SIZE": "8"}
SRUN = {
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_NTASKS": "4",
    "SLURM_PROCID": "3",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "0",
}


@pytest.mark.parametrize(
    ("environment", "place"),
    [
        ({}, Launched()),
        (TORCHRUN, Launched("torchrun", 5, 1, 8)),
        (SRUN, Launched("srun", 3, 1, 4)),
        ({**SRUN, **TORCHRUN}, Launched("torchrun", 5, 1, 8)),  # srun torchrun …
        ({"SLURM_NTASKS": "4", "SLURM_PROCID": "0", "SLURM_LOCALID": "0"}, Launched()),  # the batch script itself
        ({**SRUN, "SLURM_STEP_NUM_TASKS": "1"}, Launched()),
        ({"LOCAL_RANK": "1", "WORLD_SIZE": "2"}, Launched()),  # of something else
        ({"NEUROCONTRAST_PROCESS": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2"}, Launched("neurocontrast", 1, 1, 2)),
    ],
)
def test_the_place_is_read_from_the_launcher(environment, place):
    assert launched(environment) == place


def test_srun_without_tasks_per_node_is_told(monkeypatch):
    for name, value in SRUN.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=r"srun: .*--ntasks-per-node=4"):
        launch(settings(devices=4))
    monkeypatch.setenv("SLURM_NTASKS_PER_NODE", "2")
    with pytest.raises(ConfigError, match=r"training\.devices, training\.num_nodes: .*--ntasks-per-node=2"):
        launch(settings(devices=4))
    with pytest.raises(ConfigError, match=r"2 × 1 = 2 processes, but srun started 4\. Set both to that"):
        launch(settings(devices=2))


def test_gpus_that_are_not_there_are_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(ConfigError, match=r"training\.devices: 2 asked for, but PyTorch sees 1 GPU"):
        launch(settings(devices=2, accelerator="cuda"))


def test_a_group_of_one_process_is_one_process(tmp_path):
    run(tmp_path / "auto", epochs=1)
    try:
        run(tmp_path / "ddp", epochs=1, strategy="ddp")
    finally:
        torch.distributed.destroy_process_group()
    assert weights(tmp_path / "auto") == weights(tmp_path / "ddp")
