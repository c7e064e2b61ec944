"""What two machines take: samples a second beside one machine's two processes, and how long a lost process costs.

The machines are two network namespaces of this one, joined by a virtual cable
(`tests/pipelines/two_machines.py`), so nothing here says how fast a real network is: it shows what
the launcher and the restart add. As root::

    python benchmarks/two_machines.py                  # one minute on two free cores
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd

HERE = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(HERE))
from tests.pipelines.test_two_machines import ENVIRONMENT, ON_TWO, OWN, RECIPE, write_folder  # noqa: E402
from tests.pipelines.two_machines import two_machines  # noqa: E402

KILLED_AT = 4


def samples_a_second(run: Path) -> float:
    """Return the median over the epochs, without the first, which warms up."""
    return float(pd.read_csv(run / "metrics.csv")["samples_per_second"][1:].median())


def start(machines, folder: Path, name: str) -> list[subprocess.Popen]:
    command = ["pretrain", "--config", "recipe.yaml", "--out", name, "--resume", *ON_TWO]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return [
        machine.start(
            [*machine.torchrun(name, max_restarts=3), *command],
            cwd=folder,
            env=ENVIRONMENT,
            **quiet,
        )
        for machine in machines
    ]


def wait_for_epoch(run: Path, epoch: int) -> float:
    """Wait until an epoch of the run has its checkpoint; return when that was."""
    while last_epoch(run) < epoch:
        time.sleep(0.02)
    return time.monotonic()


def last_epoch(run: Path) -> int:
    return max(
        (int(path.stem[-4:]) for path in (run / "checkpoints").glob("epoch-*.pt")), default=0
    )


def seconds_lost(machines, folder: Path, name: str, *, whole_machine: bool) -> float:
    """Return the seconds from a kill to the end of the next epoch, whole machines being started again at once."""
    parts = start(machines, folder, name)
    wait_for_epoch(folder / name, KILLED_AT)
    killed = time.monotonic()
    if whole_machine:
        machines[1].lose()
        parts[1] = start(machines[1:], folder, name)[0]
    else:
        os.kill(machines[1].worker(), signal.SIGKILL)
    after = wait_for_epoch(folder / name, last_epoch(folder / name) + 2) - killed
    for part in parts:
        part.wait()
    return after


def main() -> None:
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    with tempfile.TemporaryDirectory() as name, two_machines() as machines:
        folder = Path(name)
        write_folder(folder)
        line = [
            sys.executable,
            "-m",
            "neurocontrast",
            "pretrain",
            "--config",
            "recipe.yaml",
            "--out",
            "alone",
            "--quiet",
        ]
        subprocess.run(
            [*line, "--set", "training.devices=2"], cwd=folder, env=os.environ | OWN, check=True
        )
        for part in start(machines, folder, "both"):
            part.wait()
        print(f"batches of {RECIPE['training']['batch_size']}, lenet\n\n| | |\n|---|---|")
        print(
            f"| samples a second, two processes of one machine | {samples_a_second(folder / 'alone'):.0f} |"
        )
        print(f"| on two machines | {samples_a_second(folder / 'both'):.0f} |")
        for label, whole in (("a process", False), ("a machine, started again at once", True)):
            seconds = seconds_lost(machines, folder, f"lost-{whole}", whole_machine=whole)
            print(
                f"| seconds from the kill of {label}, to the end of two more epochs | {seconds:.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
