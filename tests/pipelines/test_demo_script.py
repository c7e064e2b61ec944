"""The demo's script, with commands that only say that they ran: each runs once, and failures are seen."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import typer

from neurocontrast.cli.app import app
from neurocontrast.config import load_config

ROOT = Path(__file__).resolve().parents[2]
SAY = r"""#!/bin/sh
words=$(printf "%s\037" "$@")
echo "$words" >>"$WORDS.$(basename "$0")"
echo "$(basename "$0") $* threads=${OMP_NUM_THREADS:-}"
"""
FAIL = 'case "$*" in *"$FAILS"*) exit 3 ;; esac\n'
SCRIPT = ROOT / "pipelines" / "demo.sh"
STEPS = {
    "simulate": 2,
    "check": 1,
    "pretrain": 3,
    "embed": 3,
    "evaluate": 6,
    "compare": 1,
    "report": 2,
    "predict": 1,
}


@pytest.fixture
def run_demo(tmp_path):
    """Run the script with stand-ins of the commands; those whose arguments have a text fail."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("neurocontrast", "python"):
        program = programs / name
        program.write_text(SAY + FAIL)
        program.chmod(0o755)

    def run(fails="nothing"):
        environment = {
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "FAILS": fails,
            "WORDS": str(tmp_path / "words"),
        }
        command = ["sh", str(SCRIPT), str(tmp_path / "demo")]
        return subprocess.run(command, env=environment, capture_output=True, text=True)

    return run


def test_every_command_runs_once_and_the_output_of_both_cores_is_shown(run_demo):
    done = run_demo()
    assert done.returncode == 0
    ran = [line for line in done.stdout.splitlines() if line.startswith("neurocontrast ")]
    counts = dict.fromkeys(STEPS, 0)
    for line in ran:
        counts[line.split()[1]] += 1
    assert counts == STEPS
    assert len(set(ran)) == len(ran)


def test_every_command_is_one_of_the_command_line_with_options_that_it_has(run_demo, tmp_path):
    run_demo()
    lines = (tmp_path / "words.neurocontrast").read_text().splitlines()
    assert len(lines) == sum(STEPS.values())
    program = typer.main.get_command(app)
    for line in lines:
        words = line.split("\037")[:-1]
        context = program.make_context("neurocontrast", words)
        _, command, rest = program.resolve_command(
            context, [*context._protected_args, *context.args]
        )
        parameters = command.make_context(words[0], rest, parent=context).params
        load_config(parameters.get("config"), parameters.get("overrides") or ())


def test_training_has_all_threads_and_commands_side_by_side_one_each(run_demo):
    lines = run_demo().stdout.splitlines()
    (training,) = [line for line in lines if "training.epochs=2 " in line and "threads=" in line]
    assert training.endswith("threads=")
    evaluated = [line for line in lines if line.startswith("neurocontrast evaluate")]
    assert all(line.endswith("threads=1") for line in evaluated)


@pytest.mark.parametrize(
    "step", ["healthy --n-subjects", "check", "run-age", "components-diagnosis --"]
)
def test_a_command_that_fails_on_either_core_ends_the_demo(run_demo, step):
    done = run_demo(step)
    assert done.returncode == 3
    assert "neurocontrast report" not in done.stdout


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_the_demo_installs_what_users_need_and_tests_install_all(tmp_path):
    installed = {}
    for target in ("demo", "test"):
        command = ["make", "--dry-run", target, f"VENV={tmp_path / 'absent'}"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        installed[target] = done.stdout
    assert "-e . -e ./weights/measures" in installed["demo"]
    assert "-e '.[dev,docs,images,prepare,slurm]' -e ./weights/brains" in installed["test"]
