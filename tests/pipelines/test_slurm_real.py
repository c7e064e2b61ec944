"""srun, the batch script and the workflow on a real SLURM: a cluster of this machine, which the tests start and end.

`make slurm` installs the programs. All three take the commands that a user would type, and nothing
of the package.
"""

import csv
import importlib.util
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file

import neurocontrast
from tests.pipelines.one_node_slurm import missing_programs, one_node_slurm

pytestmark = pytest.mark.slow

PIPELINES = Path(__file__).resolve().parents[2] / "pipelines"
SECONDS = 900  # for one command; far less where nothing runs beside
RECIPE = {
    "data": {"participants": "cohort/participants.tsv", "cache_dir": "cache", "spacing_mm": 6, "shape": [32, 36, 32],
             "val_fraction": 0.25, "n_workers": 1},
    "augment": {"cutout": None},
    "encoder": {"name": "densenet_small", "norm": "group", "projection": [32, 16], "projection_norm": "none"},
    "objective": {"loss": "yaware", "temperature": 0.5, "kernel": [{"column": "age", "type": "gaussian", "sigma": 5}]},
    # Adam turns a gradient that is zero but for rounding into a whole step, of any sign, and at ten
    # times this rate rounding grows to 1e-5 of a loss within twelve epochs.
    "training": {"epochs": 12, "batch_size": 6, "optimizer": "sgd", "learning_rate": 1.0e-4, "accelerator": "cpu",
                 "probe_every": 0},
}  # fmt: skip
TWO_TASKS = ["--ntasks-per-node=2", "--cpus-per-task=1", "--mem=8000"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """The environment of a cluster's commands."""
    missing = missing_programs()
    if missing:
        pytest.skip(
            f"SLURM is not installed (no {', '.join(missing)}); on Debian or Ubuntu, as root: make slurm"
        )
    with one_node_slurm(tmp_path_factory.mktemp("slurm")) as environment:
        own = {
            key: value
            for key, value in environment.items()
            if key == "SLURM_CONF" or not key.startswith("SLURM_")
        }
        path = os.pathsep.join([str(Path(sys.executable).parent), environment["PATH"]])
        yield own | {"PATH": path, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder to run in: a cohort and a recipe."""
    folder = tmp_path_factory.mktemp("submitted")
    alike = {"n_sites": 2, "spacing_mm": 6.0, "site_seed": 0}
    neurocontrast.simulate(folder / "cohort", n_subjects=16, seed=0, **alike)
    neurocontrast.simulate(folder / "study", n_subjects=12, seed=1, **alike)
    (folder / "recipe.yaml").write_text(yaml.safe_dump(RECIPE))
    return folder


@pytest.fixture(scope="module")
def call(cluster, folder):
    """Run a command there, and return what it says on standard output."""

    def call(*command):
        done = subprocess.run(
            [str(part) for part in command],
            cwd=folder,
            env=cluster,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
        return done.stdout

    return call


def rows_of(run):
    with open(run / "metrics.csv", newline="") as stream:
        timing = ("seconds", "samples_per_second")
        return [
            {key: float(row[key] or 0) for key in row if key not in timing}
            for row in csv.DictReader(stream)
        ]


def wait_until(happens, what, log):
    deadline = time.monotonic() + SECONDS
    while not happens():
        printed = log.read_text() if log.exists() else ""
        if time.monotonic() > deadline:
            pytest.fail(f"waited for {what}\n{printed}")
        time.sleep(0.1)


@pytest.fixture(scope="module")
def two_tasks(call, folder):
    """A run by two tasks of srun, never stopped."""
    command = [
        "neurocontrast",
        "pretrain",
        "--config",
        "recipe.yaml",
        "--set",
        "training.devices=2",
    ]
    assert (
        call("srun", "--ntasks=2", *TWO_TASKS[1:], *command, "--out", "two").splitlines()[-1]
        == "two"
    )  # the first task alone prints
    return folder / "two"


def test_tasks_of_srun_are_one_process(two_tasks, call, folder):
    call("neurocontrast", "pretrain", "--config", "recipe.yaml", "--out", "one")
    one = rows_of(folder / "one")
    two = rows_of(two_tasks)
    assert len(one) == 12
    for row, expected in zip(two, one, strict=True):
        for name in expected:
            tolerance = 1e-5 if "loss" in name else 1e-3
            assert row[name] == pytest.approx(expected[name], rel=tolerance, abs=tolerance), name
    tensors = load_file(folder / "one/encoder.safetensors")
    for name, tensor in load_file(two_tasks / "encoder.safetensors").items():
        torch.testing.assert_close(tensor, tensors[name], rtol=1e-3, atol=5e-5)


def test_preempted_job_is_queued_again_to_the_weights_of_one_never_stopped(two_tasks, call, folder):
    options = ["--parsable", *TWO_TASKS, "--gpus-per-node=2", "--output=%j.log"]
    job = call(
        "sbatch", *options, PIPELINES / "slurm_pretrain.sh", "preempted", "--config", "recipe.yaml"
    ).strip()
    log = folder / f"{job}.log"
    state = ["squeue", "--noheader", "--states=all", "--jobs", job, "--format=%T"]
    wait_until(lambda: any(folder.glob("preempted/checkpoints/*.pt")), "a checkpoint", log)
    call("scancel", "--signal=USR1", job)
    ended = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")
    wait_until(lambda: call(*state).strip() in ended, "the end of the job", log)
    printed = log.read_text()
    assert call(*state).strip() == "COMPLETED", printed
    assert printed.count("stopped by SIGUSR1 after") == 1, printed
    assert "queued again, to go on with preempted" in printed
    assert printed.count("continuing from") == 1, printed
    assert "Restarts=1 " in call("scontrol", "show", "job", job)
    assert rows_of(folder / "preempted") == rows_of(two_tasks)
    weights = [
        (run / "encoder.safetensors").read_bytes() for run in (folder / "preempted", two_tasks)
    ]
    assert weights[0] == weights[1]


def test_batch_script_gives_every_task_its_cores(cluster, tmp_path):
    asked = tmp_path / "neurocontrast"
    asked.write_text(
        "#!/bin/sh\nscontrol show step $SLURM_JOB_ID.$SLURM_STEP_ID\necho threads $OMP_NUM_THREADS\n"
    )
    asked.chmod(0o755)
    without = {key: value for key, value in cluster.items() if key != "OMP_NUM_THREADS"}
    environment = without | {"PATH": f"{tmp_path}:{cluster['PATH']}"}
    options = [
        "--wait",
        "--mem=8000",
        f"--output={tmp_path / 'job.log'}",
    ]  # four tasks of eight cores, as it is
    script = [PIPELINES / "slurm_pretrain.sh", "RUN"]
    subprocess.run(
        ["sbatch", *options, *script], cwd=tmp_path, env=environment, check=True, timeout=SECONDS
    )
    printed = (tmp_path / "job.log").read_text()
    assert "CPUs=32 Tasks=4" in printed
    assert "TresPerTask=cpu:8" in printed
    assert printed.count("threads 8\n") == 4


@pytest.mark.skipif(
    importlib.util.find_spec("snakemake_executor_plugin_slurm") is None,
    reason="needs Snakemake's SLURM executor: pip install 'neurocontrast[slurm]'",
)
def test_workflow_by_its_slurm_profile_to_the_reports(call, folder):
    sweep = {
        "pretraining": "cohort/participants.tsv",
        "evaluation": "study/participants.tsv",
        "recipes": {"tiny": "recipe.yaml"},
        "settings": {
            "training.epochs": 1,
            "evaluation.n_bootstraps": 50,
            "evaluation.n_folds": 2,
            "evaluation.voxels": "off",
            "evaluation.confounds": False,
            "evaluation.new_site": False,
            "evaluation.outlyingness": False,
        },
        "targets": ["age"],
        "splits": ["stratified"],
    }
    (folder / "sweep.yaml").write_text(yaml.safe_dump(sweep))
    profile = [
        "--profile",
        PIPELINES / "profiles/slurm",
        "--slurm-init-seconds-before-status-checks",
        "2",
    ]
    snakemake = [
        sys.executable,
        "-m",
        "snakemake",
        "--snakefile",
        PIPELINES / "Snakefile",
        *profile,
    ]
    call(*snakemake, "--configfile", "sweep.yaml", "--slurm-keep-successful-logs")
    assert "<html" in (folder / "results/tiny/age-stratified/report.html").read_text()
    submitted = {path.name for path in (folder / ".snakemake/slurm_logs").iterdir()}
    assert submitted == {"rule_check", "rule_pretrain", "rule_embed", "rule_evaluate"}
