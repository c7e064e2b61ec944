"""The batch script, with an `srun` that starts its tasks here and an `scontrol` that writes down what it is told."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "pipelines/slurm_pretrain.sh"
SRUN = """#!/bin/bash
while [[ $1 == --* ]]; do shift; done
for ((task = 0; task < SLURM_NTASKS; task++)); do
    SLURM_STEP_NUM_TASKS=$SLURM_NTASKS SLURM_PROCID=$task SLURM_LOCALID=$task SLURM_NODEID=0 "$@" &
    tasks="$tasks $!"
done
highest=0
for task in $tasks; do
    wait $task; code=$?
    (( code > highest )) && highest=$code
done
exit $highest
"""
SCONTROL = '#!/bin/bash\necho "$@" >> scontrol.log\n'


@pytest.fixture
def cluster(tmp_path):
    """A folder to run in, and the environment of a job of two tasks."""

    def program(name, text):
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    program("srun", SRUN)
    program("scontrol", SCONTROL)
    slurm = {
        "JOB_ID": "4217",
        "NTASKS": "2",
        "NTASKS_PER_NODE": "2",
        "NNODES": "1",
        "NODELIST": "127.0.0.1",
    }
    environment = {
        **os.environ,
        **{f"SLURM_{key}": value for key, value in slurm.items()},
        "OMP_NUM_THREADS": "1",
    }
    environment["PATH"] = f"{tmp_path / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    return tmp_path, environment, program


QUEUED = "requeue 4217\n"


ENDS = [(0, 0, ""), (75, 0, QUEUED), (138, 0, QUEUED), (2, 2, ""), (1, 1, "")]


@pytest.mark.parametrize(("code", "ended", "queued"), ENDS)
def test_only_a_suspended_run_is_queued_again(cluster, code, ended, queued):
    folder, environment, program = cluster
    program("neurocontrast", f'#!/bin/bash\necho "$@" >> commands.log\nexit {code}\n')
    done = subprocess.run(
        ["bash", SCRIPT, "RUN", "--config", "a b.yaml"], cwd=folder, env=environment, check=False
    )
    assert done.returncode == ended
    log = folder / "scontrol.log"
    assert (log.read_text() if log.exists() else "") == queued
    command = "pretrain --out RUN --resume --config a b.yaml --set training.devices=2 --set training.num_nodes=1\n"
    assert (folder / "commands.log").read_text() == 2 * command


def test_a_job_that_cannot_be_queued_again_does_not_pass_for_finished(cluster):
    folder, environment, program = cluster
    program("neurocontrast", "#!/bin/bash\nexit 75\n")
    program("scontrol", "#!/bin/bash\nexit 1\n")
    done = subprocess.run(
        ["bash", SCRIPT, "RUN"], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 75
    assert "queued again, to go on" not in done.stdout
    assert "not queued again" in done.stderr


def test_without_a_run_the_script_says_how_it_is_called(cluster):
    folder, environment, _ = cluster
    done = subprocess.run(
        ["bash", SCRIPT], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr[:6]) == (2, "usage:")
