"""A stage in several processes of this machine: start them, share the work, and report once.

The processes are commands of their own, with the environment that torchrun would give them: the first shows progress
and errors on standard error. Their standard input ends with the process that started them, and they with it.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import torch
import yaml

from neurocontrast.collectives import Processes
from neurocontrast.config import Config
from neurocontrast.exceptions import NeurocontrastError, OtherProcessEnded, TrainingError, TrainingSuspended
from neurocontrast.machine import launched, usable_accelerator
from neurocontrast.progress import SILENT, Progress

__all__ = ["after_first", "is_run_elsewhere", "sharing", "speaking_once"]

_SECONDS_TO_END = 30.0
"""How long the other processes may take to save and end when one has failed."""
_LOST = (
    "another process of this run has ended, and this one cannot go on alone. If it has not said why, it was killed, "
    "perhaps for lack of memory. The last checkpoint, if there is one, is kept: continue with --resume."
)

Made = TypeVar("Made")


def is_run_elsewhere(
    command: Sequence[object], options: Mapping[str, Any], config: Config, *, n_processes: int, progress: Progress
) -> bool:
    """Run a command in several processes where that is asked for and not done yet; say whether it was run.

    Options that are None or False are left out. A signal to this process goes to all of them.
    """
    if n_processes == 1 or launched().by is not None:
        return False
    given = {
        name: value for name, value in {**options, "quiet": progress is SILENT}.items() if value not in (None, False)
    }
    flags = [part for name, value in given.items()
             for part in (f"--{name.replace('_', '-')}", *([] if value is True else [value]))]  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="neurocontrast-") as folder:
        content = config.model_dump(mode="json", exclude_unset=True)
        (Path(folder) / "config.yaml").write_text(yaml.safe_dump(content, allow_unicode=True), encoding="utf-8")
        whole = [*command, *flags, "--config", Path(folder) / "config.yaml"]
        workers = _start([sys.executable, "-m", "neurocontrast", *map(str, whole)], n_processes)
        try:
            with _forwarding_signals(workers):
                failed = _wait(workers)
        finally:
            for worker in workers:
                worker.kill()
                worker.communicate()
    if not failed:
        return True
    rank, code = next(iter(failed.items()))
    if code == -signal.SIGUSR1:  # before it could be taken over
        raise TrainingSuspended("stopped by SIGUSR1 with nothing to save; the same command with --resume goes on.")
    if code == 128 + signal.SIGINT:
        raise KeyboardInterrupt
    if code < 0:
        raise TrainingError(
            f"process {rank} of this run's {n_processes} was ended by {signal.Signals(-code).name}, perhaps for lack "
            "of memory, and the others with it. The last checkpoint, if there is one, is kept: continue with --resume."
        )
    raise OtherProcessEnded("the processes of this run have ended, and say why on standard error.", code, is_shown=True)


@contextmanager
def sharing(accelerator: str, *, section: str) -> Iterator[tuple[torch.device, Processes]]:
    """Join the other processes of this stage, if there are any; give this one's device, and all processes."""
    if launched().n_processes == 1:
        yield torch.device(usable_accelerator(accelerator, section=section)), Processes()
        return
    from neurocontrast.training.distributed import launch_sharing, leave

    device, processes = launch_sharing(accelerator, section=section)
    with speaking_once(processes):
        yield device, processes
        leave(processes)


@contextmanager
def speaking_once(processes: Processes) -> Iterator[None]:
    """Turn errors that another process shows, and lost connections, into `OtherProcessEnded`."""
    from neurocontrast.training.distributed import is_lost_connection

    try:
        yield
    except RuntimeError as error:
        if processes.size == 1 or not is_lost_connection(error):
            raise
        raise OtherProcessEnded(_LOST) from error
    except TrainingError as error:
        if processes.is_first:
            raise
        raise OtherProcessEnded(str(error), error.exit_code) from error


def after_first(
    processes: Processes, first: Callable[[], tuple[Made, Any]], follow: Callable[[Any], Made] | None = None
) -> Made:
    """Call `first` in the first process and then `follow` in the others, which end where `first` fails.

    `first` returns its result, and JSON-ready content that `follow` is given; by default the others call `first` too.
    """
    if not processes.is_first:
        received = processes.from_first(None)
        if "exit_code" in received:
            raise OtherProcessEnded("the first process of this run has ended, and says why.", received["exit_code"])
        return first()[0] if follow is None else follow(received["known"])
    try:
        made, known = first()
    except NeurocontrastError as error:
        processes.from_first({"exit_code": error.exit_code})
        raise
    processes.from_first({"known": known})
    return made


def _start(command: list[str], n_processes: int) -> list[subprocess.Popen[bytes]]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    common = {"WORLD_SIZE": n_processes, "LOCAL_WORLD_SIZE": n_processes, "GROUP_RANK": 0, "MASTER_PORT": port}
    common |= {
        "MASTER_ADDR": "127.0.0.1",
        "TORCHELASTIC_RUN_ID": "neurocontrast",
        "NEUROCONTRAST_LAUNCHER": os.getpid(),
    }
    workers = []
    for rank in range(n_processes):
        place = {name: str(value) for name, value in {**common, "RANK": rank, "LOCAL_RANK": rank}.items()}
        # In sessions of their own: Ctrl-C reaches them once, by way of this process.
        workers.append(
            subprocess.Popen(
                command,
                env=os.environ | place,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
        )
    return workers


@contextmanager
def _forwarding_signals(workers: Sequence[subprocess.Popen[bytes]]) -> Iterator[None]:
    """Pass the signals that this process receives on to others."""

    def forward(number: int, frame: Any) -> None:
        del frame
        for worker in workers:
            worker.send_signal(number)

    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)}
    if before.get(signal.SIGUSR1) is signal.SIG_DFL:  # only pretraining has a use for it; it ends other stages
        del before[signal.SIGUSR1]
    try:
        for number in before:
            signal.signal(number, forward)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _wait(workers: Sequence[subprocess.Popen[bytes]]) -> dict[int, int]:
    """Wait for processes, and end those that go on after one has failed; return who failed first, with exit codes."""
    failed: dict[int, int] = {}
    since = 0.0
    while True:
        running = [worker for worker in workers if worker.poll() is None]
        if not failed:
            failed = {rank: worker.returncode for rank, worker in enumerate(workers) if worker.returncode}
            since = time.monotonic()
        if not running:
            return failed
        if failed and time.monotonic() - since > _SECONDS_TO_END:
            for worker in running:
                worker.kill()
        time.sleep(0.05)
