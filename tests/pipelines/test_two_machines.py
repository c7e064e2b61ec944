"""torchrun on two machines: the run is that of one, and goes on when a process or a machine is lost."""

import contextlib
import os
import signal
import subprocess
import sys
import time

import pytest
import yaml

import neurocontrast
from tests.pipelines.two_machines import two_machines

pytestmark = pytest.mark.slow

SECONDS = 300  # for one run; far less where nothing runs beside
EPOCHS = 30
RECIPE = {
    "data": {"participants": "cohort/participants.tsv", "cache_dir": "cache", "spacing_mm": 10, "shape": [16, 20, 16],
             "val_fraction": 0, "n_workers": 1},
    "encoder": {"name": "lenet", "norm": "group", "projection": [8, 4], "projection_norm": "none"},
    "objective": {"loss": "yaware", "temperature": 0.5, "kernel": [{"column": "age", "type": "gaussian", "sigma": 5}]},
    "training": {"epochs": EPOCHS, "batch_size": 4, "optimizer": "sgd", "learning_rate": 1.0e-4, "accelerator": "cpu",
                 "probe_every": 0},
}  # fmt: skip
ON_TWO = ["--set", "training.devices=1", "--set", "training.num_nodes=2"]
OWN = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
# As docs/several_processes.md says: otherwise restarted processes find the addresses of those before them.
ENVIRONMENT = {**os.environ, **OWN, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}


def write_folder(folder):
    """Write a cohort and a recipe."""
    neurocontrast.simulate(folder / "cohort", n_subjects=12, n_sites=2, spacing_mm=8.0)
    (folder / "recipe.yaml").write_text(yaml.safe_dump(RECIPE))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder that both machines see, with a run of one machine's two processes in it."""
    folder = tmp_path_factory.mktemp("machines")
    write_folder(folder)
    command = [
        sys.executable,
        "-m",
        "neurocontrast",
        "pretrain",
        "--config",
        "recipe.yaml",
        "--out",
        "alone",
    ]
    subprocess.run(
        [*command, "--set", "training.devices=2"], cwd=folder, env=os.environ | OWN, check=True
    )
    return folder


@pytest.fixture
def machines():
    with contextlib.ExitStack() as stack:
        try:
            pair = stack.enter_context(two_machines())
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"network namespaces cannot be made here: {error}")
        yield pair


class Job:
    """One command on both machines."""

    def __init__(self, machines, folder, name, *command, max_restarts=0):
        self.machines = machines
        self.folder = folder
        self.name = name
        self.command = command
        self.max_restarts = max_restarts
        self.parts = [self.start(machine) for machine in machines]

    def start(self, machine):
        line = [*machine.torchrun(self.name, max_restarts=self.max_restarts), *self.command]
        with (self.folder / f"{self.name}-{machine.name}.log").open("a") as log:
            return machine.start(line, cwd=self.folder, env=ENVIRONMENT, stdout=log, stderr=log)

    def said(self, machine):
        return (self.folder / f"{self.name}-{machine.name}.log").read_text()

    def wait(self):
        codes = [part.wait(timeout=SECONDS) for part in self.parts]
        assert codes == [0, 0], "\n".join(map(self.said, self.machines))

    def wait_for(self, path):
        deadline = time.monotonic() + SECONDS
        while not (self.folder / path).exists():
            if time.monotonic() > deadline:
                pytest.fail("\n".join([f"waited for {path}", *map(self.said, self.machines)]))
            time.sleep(0.05)


def pretraining(machines, folder, name):
    command = ["pretrain", "--config", "recipe.yaml", "--out", name, "--resume", *ON_TWO]
    return Job(machines, folder, name, *command, max_restarts=3)


def weights(folder, name):
    return (folder / name / "encoder.safetensors").read_bytes()


def test_a_run_is_that_of_one_machine(machines, folder):
    job = pretraining(machines, folder, "both")
    job.wait()
    assert weights(folder, "both") == weights(folder, "alone")
    shown = [job.said(machine).count(f"epoch {EPOCHS}/{EPOCHS}:") for machine in machines]
    assert sorted(shown) == [0, 1]


@pytest.mark.parametrize("victim", [0, 1])
def test_torchrun_restarts_the_run_from_its_checkpoint_when_a_process_is_killed(
    machines, folder, victim
):
    name = f"process-{victim}"
    job = pretraining(machines, folder, name)
    job.wait_for(f"{name}/checkpoints/epoch-0004.pt")
    os.kill(machines[victim].worker(), signal.SIGKILL)
    job.wait()
    assert any("continuing from epoch-" in job.said(machine) for machine in machines)
    assert weights(folder, name) == weights(folder, "alone")


def test_a_lost_machine_joins_again_with_the_same_line(machines, folder):
    job = pretraining(machines, folder, "machine")
    job.wait_for("machine/checkpoints/epoch-0004.pt")
    machines[1].lose()
    assert job.parts[0].poll() is None
    job.parts[1] = job.start(machines[1])
    job.wait()
    assert any("continuing from epoch-" in job.said(machine) for machine in machines)
    assert weights(folder, "machine") == weights(folder, "alone")
