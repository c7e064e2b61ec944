"""The tiny run in several processes: started by `run_in`, or as a program, once for each of them."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__)


def environment_of(rank, n_processes, port):
    own = {
        "TORCHELASTIC_RUN_ID": "tiny",
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(n_processes),
        "LOCAL_WORLD_SIZE": str(n_processes),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    return {**os.environ, **(own if n_processes > 1 else {}), "OMP_NUM_THREADS": "1"}


def free_port():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


def start(folder, n_processes=1, *, resume=False, **changes):
    """Start the run's processes."""
    port = free_port()
    changes = {**changes, **({"devices": n_processes} if n_processes > 1 else {})}
    command = [sys.executable, str(PROGRAM), str(folder), str(int(resume)), json.dumps(changes)]
    return [
        subprocess.Popen(
            command,
            env=environment_of(rank, n_processes, port),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(n_processes)
    ]


def finish(processes, timeout=300):  # far less where nothing runs beside
    """Return each process's exit code and what it said on standard error."""
    try:
        said = [process.communicate(timeout=timeout)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [(process.returncode, text) for process, text in zip(processes, said, strict=True)]


def run_in(n_processes, folder, **changes):
    ended = finish(start(folder, n_processes, **changes))
    assert [code for code, _ in ended] == [0] * n_processes, ended
    return folder


def main():
    import torch
    from tiny import N_SCANS, Images, Pictures, data, run, views, views_of_pictures

    from neurocontrast import losses
    from neurocontrast.encoders import EncoderSettings
    from neurocontrast.exceptions import NeurocontrastError
    from neurocontrast.kernels import Gaussian

    torch.set_num_threads(1)
    folder, resume, changes = Path(sys.argv[1]), sys.argv[2] == "1", json.loads(sys.argv[3])
    encoder = EncoderSettings(**changes.pop("encoder", {"name": "lenet", "projection": (8, 4)}))
    acting = changes.pop("act", None)
    age = torch.arange(N_SCANS, dtype=torch.float32)
    images, made_views = Images(side=changes.pop("side", 8)), views
    if encoder.n_dims == 2:
        images, made_views = Pictures(), views_of_pictures
    given = data(metadata={"age": age}, images=images, **changes.pop("data", {}))
    temperature = torch.nn.Parameter(torch.tensor(0.5))  # learns
    calls = []

    def watched(volumes, names, *, epoch):
        calls.append(names)
        if acting is not None and len(calls) == acting["call"] and os.environ.get("LOCAL_RANK", "0") == acting["rank"]:
            if "signal" in acting:
                os.kill(os.getpid(), acting["signal"])
            else:
                volumes = volumes * torch.nan if acting["do"] == "nan" else None
        return made_views(volumes, names, epoch=epoch)

    sys.stdout.write("started\n")
    sys.stdout.flush()
    try:
        run(
            folder,
            resume=resume,
            objective=losses.YAwareInfoNCE(Gaussian("age", sigma=3.0), temperature=temperature),
            made_views=watched,
            given=given,
            encoder=encoder,
            save=os.environ.get("LOCAL_RANK", "0") == "0",
            **changes,
        )
    except NeurocontrastError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        sys.exit(error.exit_code)


if __name__ == "__main__":
    sys.path.insert(0, str(PROGRAM.parent))
    main()
