"""Start the processes of a run on this machine, relay what the first says, and end them together.

The processes are fresh interpreters that run `pretrain` alone. (Fabric's own launcher would run the caller's
script once more for each of them, and end all with SIGKILL when one fails, the one that has the message included.)
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import Any

from neurocontrast import exceptions
from neurocontrast.config import Config
from neurocontrast.exceptions import NeurocontrastError, TrainingError, TrainingSuspended
from neurocontrast.progress import Progress, Task
from neurocontrast.training.launched import OWN_LAUNCHER

__all__ = ["pretrain_in_processes"]

_GRACE = 20.0
"""Seconds that the others have to end by themselves when one has failed; a GPU may wait for it for ever."""

Said = dict[str, Any]


def pretrain_in_processes(config: Config, folder: Path, *, resume: bool, progress: Progress) -> None:
    """Run `pretrain` in as many processes as the configuration has devices.

    A signal to this process goes to all of them; when one of them fails, the others end.

    Raises
    ------
    NeurocontrastError
        What the first process to fail has raised.
    """
    job = json.dumps({"config": config.model_dump(mode="json"), "out": str(folder), "resume": resume})
    heard: queue.SimpleQueue[tuple[int, Said | None]] = queue.SimpleQueue()
    processes = _start(config.training.devices, job)
    try:
        for rank, process in enumerate(processes):
            threading.Thread(target=_listen, args=(rank, process, heard), daemon=True).start()
        with _forwarding_signals(processes), _Relay(progress) as relay:
            _wait(processes, heard, relay)
    finally:
        for process in processes:
            process.kill()  # those that have ended are not touched
            process.wait()
            if process.stdin is not None:
                with contextlib.suppress(OSError):
                    process.stdin.close()
    _raise_failure(processes, relay.errors)


def _start(n_processes: int, job: str) -> list[subprocess.Popen[str]]:
    own = {
        OWN_LAUNCHER: "1",
        "NODE_RANK": "0",
        "WORLD_SIZE": str(n_processes),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(_free_port()),
    }
    processes = []
    for rank in range(n_processes):
        # A session of its own: Ctrl-C comes through this process alone, once.
        process = subprocess.Popen(
            [sys.executable, "-m", "neurocontrast.stages.process"],
            env={**os.environ, **own, "LOCAL_RANK": str(rank)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        processes.append(process)
    for process in processes:
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # its exit code tells
            process.stdin.write(job + "\n")
            process.stdin.flush()
    return processes


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def _listen(rank: int, process: subprocess.Popen[str], heard: queue.SimpleQueue[tuple[int, Said | None]]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        with contextlib.suppress(json.JSONDecodeError):  # a process that is killed may leave half a line
            heard.put((rank, json.loads(line)))
    process.wait()
    heard.put((rank, None))


def _wait(
    processes: list[subprocess.Popen[str]], heard: queue.SimpleQueue[tuple[int, Said | None]], relay: _Relay
) -> None:
    """Relay until all have ended, or until the grace is over that one's failure leaves the others."""
    running, deadline = set(range(len(processes))), float("inf")
    while running and time.monotonic() < deadline:
        try:
            rank, said = heard.get(timeout=0.2)
        except queue.Empty:
            continue
        if said is not None:
            relay.hear(rank, said)
            continue
        running.discard(rank)
        if processes[rank].returncode:
            deadline = min(deadline, time.monotonic() + _GRACE)


@contextlib.contextmanager
def _forwarding_signals(processes: list[subprocess.Popen[str]]) -> Iterator[None]:
    def forward(number: int, frame: FrameType | None) -> None:
        del frame
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
    before = {number: signal.signal(number, forward) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Relay:
    """What the processes say, told to the caller's progress: the first's work, and everybody's failure."""

    def __init__(self, progress: Progress) -> None:
        self.errors: dict[int, Said] = {}
        self._progress = progress
        self._tasks: dict[int, tuple[ExitStack, Task]] = {}

    def __enter__(self) -> _Relay:
        return self

    def __exit__(self, *_: object) -> None:
        for number in list(self._tasks):
            self._close(number)

    def hear(self, rank: int, said: Said) -> None:
        content = dict(said)
        kind = content.pop("kind")
        if kind == "error":
            self.errors.setdefault(rank, content)
        elif kind == "open":
            number, stack = content.pop("number"), ExitStack()
            self._tasks[number] = stack, stack.enter_context(self._progress.task(**content))
        elif kind == "advance":
            self._tasks[content["number"]][1].advance(content["n"], **content["shown"])
        elif kind == "close":
            self._close(content["number"])
        elif kind == "warning":
            self._progress.warning(content["text"])
        else:
            self._progress.message(content["text"])

    def _close(self, number: int) -> None:
        self._tasks.pop(number)[0].close()


def _raise_failure(processes: list[subprocess.Popen[str]], errors: dict[int, Said]) -> None:
    codes = [process.returncode for process in processes]
    if not any(codes):
        return
    told = [errors[rank] for rank in sorted(errors)]
    causes = [said for said in told if said["name"] != "OtherProcessEnded"]
    if causes:
        raise _error_of(causes[0])
    if -signal.SIGUSR1 in codes:  # before it could take the signal over
        raise TrainingSuspended("stopped by SIGUSR1; the same command with --resume goes on.")
    silent = [rank for rank, code in enumerate(codes) if code and rank not in errors]
    rank = silent[0] if silent else codes.index(next(filter(None, codes)))
    how = f"by {signal.Signals(-codes[rank]).name}" if codes[rank] < 0 else f"with exit code {codes[rank]}"
    raise TrainingError(
        f"process {rank} of this run's {len(codes)} was ended {how}, perhaps for lack of memory, and the others with "
        "it. The last checkpoint, if there is one, stands: continue with --resume."
    )


def _error_of(said: Said) -> BaseException:
    name, text = said["name"], said["text"]
    if name == "KeyboardInterrupt":
        return KeyboardInterrupt()
    if name == "MemoryError":
        return MemoryError()
    if said["errno"] is not None:
        return OSError(said["errno"], text, said["filename"])
    if said["exit_code"] is None:
        return RuntimeError(f"{name}: {text}")
    known = getattr(exceptions, name, NeurocontrastError)
    error: NeurocontrastError = known(text)
    error.exit_code = said["exit_code"]
    return error
