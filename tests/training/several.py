"""The tiny run in several processes: started by `run_in`, or as a program, once for each of them."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import torch
from tiny import LENET, N_SCANS, Images, Pictures, run, views, views_of_pictures
from tiny import data as tiny_data

from neurocontrast import losses
from neurocontrast.encoders import EncoderSettings
from neurocontrast.exceptions import NeurocontrastError
from neurocontrast.kernels import Gaussian

PROGRAM = Path(__file__)


def start(folder, n_processes, *, resume=False, **changes):
    """Start the run's processes."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
    shared = {"WORLD_SIZE": n_processes, "LOCAL_WORLD_SIZE": n_processes, "TORCHELASTIC_RUN_ID": "tiny",
              "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": 1}  # fmt: skip
    given = json.dumps({**changes, "resume": resume, "devices": n_processes})
    command = [sys.executable, str(PROGRAM), str(folder), given]
    started = []
    for rank in range(n_processes):
        own = {
            name: str(value)
            for name, value in (shared | {"RANK": rank, "LOCAL_RANK": rank}).items()
        }
        started.append(
            subprocess.Popen(command, env=os.environ | own, stderr=subprocess.PIPE, text=True)
        )
    return started


def finish(processes, timeout=300):  # far less where nothing runs beside
    """Return each process's exit code and what it said on standard error."""
    try:
        said = [process.communicate(timeout=timeout)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [(process.returncode, text) for process, text in zip(processes, said, strict=True)]


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


if __name__ == "__main__":
    torch.set_num_threads(1)
    try:
        run_here(Path(sys.argv[1]), **json.loads(sys.argv[2]))
    except NeurocontrastError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        sys.exit(error.exit_code)
