"""The tiny run in processes of its own, forked by one that has imported what they need."""

import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path

import torch
from tiny import LENET, N_SCANS, Images, Pictures, run, views, views_of_pictures
from tiny import data as tiny_data

from neurocontrast import losses
from neurocontrast.encoders import EncoderSettings
from neurocontrast.exceptions import NeurocontrastError
from neurocontrast.kernels import Gaussian

PROGRAM = Path(__file__)


class Server:
    """A process that has imported all that a run needs, and forks the processes of a run."""

    def __init__(self):
        self._process = subprocess.Popen(
            [sys.executable, str(PROGRAM)],
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(self, processes):
        """Start a run's processes and return their numbers; `processes` says what each does."""
        self._process.stdin.write(f"{json.dumps(processes)}\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def exit_codes(self, numbers, timeout):
        """Return the exit codes of the processes that were started last; kill them if they hang."""
        ready, _, _ = select.select([self._process.stdout], [], [], timeout)
        if not ready:
            for number in numbers:
                os.kill(number, signal.SIGKILL)
        return json.loads(self._process.stdout.readline())


@functools.cache
def server():
    """Return the server of this process, which ends with it."""
    return Server()


@dataclass(frozen=True)
class Started:
    """Processes of a run, and the files of what each says on standard error."""

    numbers: list[int]
    said: list[Path]


def start(folder, n_processes=1, *, resume=False, **changes):
    """Start the run's processes."""
    environment = {}
    if n_processes > 1:
        environment = environment_of(n_processes)
        changes["devices"] = n_processes
    folder.mkdir(parents=True, exist_ok=True)
    said = [folder.parent / f"{folder.name}-{rank}.txt" for rank in range(n_processes)]
    processes = []
    for rank in range(n_processes):
        if n_processes > 1:
            environment = environment | {"RANK": str(rank), "LOCAL_RANK": str(rank)}
        process = {"folder": str(folder), "changes": {**changes, "resume": resume}}
        processes.append({**process, "environment": environment, "said": str(said[rank])})
    return Started(server().start(processes), said)


def environment_of(n_processes):
    """Return the variables by which torchrun tells processes of each other."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
    return {
        "WORLD_SIZE": str(n_processes),
        "LOCAL_WORLD_SIZE": str(n_processes),
        "TORCHELASTIC_RUN_ID": "tiny",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }


def finish(started, timeout=300):  # far less where nothing runs beside
    """Return each process's exit code and what it said on standard error."""
    codes = server().exit_codes(started.numbers, timeout)
    return [(code, path.read_text()) for code, path in zip(codes, started.said, strict=True)]


def run_in(n_processes, folder, **changes):
    """Run in several processes, or in this one, and return the folder."""
    if n_processes == 1:
        run_here(folder, **changes)
        return folder
    ended = finish(start(folder, n_processes, **changes))
    assert [code for code, _ in ended] == [0] * n_processes, ended
    return folder


def run_here(folder, *, encoder=None, act=None, side=8, data=None, **changes):
    """Run with a temperature that learns; `act` says at which call of which process something happens, and what."""
    chosen = LENET if encoder is None else EncoderSettings(**encoder)
    images, made_views = (
        (Images(side=side), views) if chosen.n_dims == 3 else (Pictures(), views_of_pictures)
    )
    age = torch.arange(N_SCANS, dtype=torch.float32)
    temperature = torch.nn.Parameter(torch.tensor(0.5))
    rank = os.environ.get("LOCAL_RANK", "0")
    calls = []

    def watched(volumes, names, *, epoch):
        calls.append(names)
        if act is not None and (len(calls), rank) == (act["call"], act["rank"]):
            if "signal" in act:
                os.kill(os.getpid(), act["signal"])
            else:
                volumes = volumes * torch.nan if act["do"] == "nan" else None
        return made_views(volumes, names, epoch=epoch)

    objective = losses.YAwareInfoNCE(Gaussian("age", sigma=3.0), temperature=temperature)
    given = tiny_data(metadata={"age": age}, images=images, **(data or {}))
    run(
        folder,
        objective=objective,
        made_views=watched,
        given=given,
        encoder=chosen,
        save=rank == "0",
        **changes,
    )


def serve():
    """Fork the processes that each line of standard input lists.

    Answers with two lines: the numbers of the processes, and, once all have ended, exit codes.
    """
    for line in sys.stdin:
        numbers = [fork(process) for process in json.loads(line)]
        answer(numbers)
        answer([os.waitstatus_to_exitcode(os.waitpid(number, 0)[1]) for number in numbers])


def answer(numbers):
    sys.stdout.write(f"{json.dumps(numbers)}\n")
    sys.stdout.flush()


def fork(process):
    """Run in a process of its own, whose number is returned."""
    number = os.fork()
    if number:
        return number
    code = 1
    try:
        os.environ.update(process["environment"])
        with open(process["said"], "w") as said:
            os.dup2(said.fileno(), sys.stdout.fileno())
            os.dup2(said.fileno(), sys.stderr.fileno())
        run_here(Path(process["folder"]), **process["changes"])
        code = 0
    except NeurocontrastError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        code = error.exit_code
    except Exception:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    torch.set_num_threads(1)
    serve()
