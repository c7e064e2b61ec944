"""Two machines on one: network namespaces with names and addresses of their own, joined by a cable.

These are for root to make, with `ip` and `unshare`.
"""

import os
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

NAMES = {"machine-a": "10.77.0.1", "machine-b": "10.77.0.2"}
PORT = 29511


class Machine:
    """One of the machines: `start` runs a command there, `lose` ends all its processes at once, as a power cut does."""

    def __init__(self, name: str, space: str) -> None:
        self.name = name
        self.space = space
        self.running: list[subprocess.Popen] = []

    def start(self, command: list[object], **options: object) -> subprocess.Popen:
        named = f'echo {self.name} > /proc/sys/kernel/hostname; exec "$@"'
        there = [
            "ip",
            "netns",
            "exec",
            self.space,
            "unshare",
            "--uts",
            "sh",
            "-c",
            named,
            "sh",
            *map(str, command),
        ]
        process = subprocess.Popen(there, text=True, start_new_session=True, **options)
        self.running.append(process)
        return process

    def torchrun(self, run_id: str, *, max_restarts: int = 0) -> list[object]:
        """Return the beginning of the line that a user types on every machine."""
        return [
            sys.executable, "-m", "torch.distributed.run", "--nnodes", 2, "--nproc-per-node", 1, "--rdzv-backend",
            "c10d", "--rdzv-endpoint", f"machine-a:{PORT}", "--rdzv-id", run_id, "--max-restarts", max_restarts,
            "-m", "neurocontrast",
        ]  # fmt: skip

    def processes(self) -> list[int]:
        found = subprocess.run(
            ["ip", "netns", "pids", self.space], capture_output=True, text=True, check=True
        )
        return list(map(int, found.stdout.split()))

    def worker(self) -> int:
        """Return the process of the training itself, which torchrun has started."""
        return next(pid for pid in self.processes() if b"LOCAL_RANK=" in _environment_of(pid))

    def lose(self) -> None:
        for pid in self.processes():
            os.kill(pid, signal.SIGKILL)
        for process in self.running:
            process.wait()


def _environment_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


@contextmanager
def two_machines():
    """Give two machines, and end all that runs on them."""
    spaces = {name: f"{name}-{os.getpid()}" for name in NAMES}
    machines = [Machine(name, space) for name, space in spaces.items()]
    try:
        _join(spaces)
        yield machines
    finally:
        for machine in machines:
            if Path("/run/netns", machine.space).exists():
                machine.lose()
                _ip("netns", "delete", machine.space)
            shutil.rmtree(Path("/etc/netns") / machine.space, ignore_errors=True)


def _join(spaces: dict[str, str]) -> None:
    """Make the namespaces, with a cable between them and each other's names."""
    ends = dict(zip(NAMES, (f"nca{os.getpid()}", f"ncb{os.getpid()}"), strict=True))
    name, other = NAMES
    hosts = "127.0.0.1 localhost\n" + "".join(
        f"{address} {each}\n" for each, address in NAMES.items()
    )
    for space in spaces.values():
        folder = Path("/etc/netns") / space
        folder.mkdir(parents=True)
        (folder / "hosts").write_text(hosts)
        _ip("netns", "add", space)
    cable = ["type", "veth", "peer", "name", ends[other], "netns", spaces[other]]
    _ip("link", "add", ends[name], "netns", spaces[name], *cable)
    for each, space in spaces.items():
        _ip("-n", space, "addr", "add", f"{NAMES[each]}/24", "dev", ends[each])
        _ip("-n", space, "link", "set", "lo", "up")
        _ip("-n", space, "link", "set", ends[each], "up")


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], capture_output=True, check=True)
