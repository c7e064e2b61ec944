"""Two machines on one: network namespaces with names and addresses of their own, joined by a cable.

Where these cannot be made, the machines are two process groups that meet at a loopback address.
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

    def __init__(self, name: str, space: str | None) -> None:
        self.name, self.space = name, space
        self.running: list[subprocess.Popen] = []

    def start(self, command: list[object], **options: object) -> subprocess.Popen:
        words = list(map(str, command))
        if self.space is not None:
            named = f'echo {self.name} > /proc/sys/kernel/hostname; exec "$@"'
            words = ["ip", "netns", "exec", self.space, "unshare", "--uts", "sh", "-c", named, "sh", *words]
        process = subprocess.Popen(words, text=True, start_new_session=True, **options)
        self.running.append(process)
        return process

    def torchrun(self, run_id: str, *, max_restarts: int = 0) -> list[object]:
        """Return the beginning of the line that a user types on every machine."""
        where = ["--rdzv-endpoint", f"machine-a:{PORT}"]
        if self.space is None:
            is_host = int(self.name == "machine-a")
            where = ["--rdzv-endpoint", f"127.0.0.1:{PORT}", "--rdzv-conf", f"is_host={is_host}"]
            where += ["--local-addr", "127.0.0.1"]
        return [
            sys.executable, "-m", "torch.distributed.run", "--nnodes", 2, "--nproc-per-node", 1, "--rdzv-backend",
            "c10d", *where, "--rdzv-id", run_id, "--max-restarts", max_restarts, "-m", "neurocontrast",
        ]  # fmt: skip

    def processes(self) -> list[int]:
        """Return the processes of this machine; torchrun's workers are in sessions of their own."""
        if self.space is not None:
            found = subprocess.run(["ip", "netns", "pids", self.space], capture_output=True, text=True, check=True)
            return list(map(int, found.stdout.split()))
        return [
            pid for process in self.running for pid in (process.pid, *_below(process.pid)) if process.poll() is None
        ]

    def worker(self) -> int:
        """Return the process of the training itself, which torchrun has started."""
        return next(pid for pid in self.processes() if b"LOCAL_RANK=" in _environment_of(pid))

    def lose(self) -> None:
        for pid in self.processes():
            os.kill(pid, signal.SIGKILL)
        for process in self.running:
            process.wait()


def _below(pid: int) -> list[int]:
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    children = list(map(int, found.stdout.split()))
    return [each for child in children for each in (child, *_below(child))]


def _environment_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


@contextmanager
def two_machines():
    """Give two machines, and end all that runs on them."""
    spaces = {name: f"{name}-{os.getpid()}" for name in NAMES}
    joined = _join(spaces)
    machines = [Machine(name, space if joined else None) for name, space in spaces.items()]
    try:
        yield machines
    finally:
        for machine in machines:
            machine.lose()
        if joined:
            _part(spaces)


def _join(spaces: dict[str, str]) -> bool:
    """Make the namespaces, with a cable between them and each other's names; say whether that can be done here."""
    ends = dict(zip(NAMES, (f"nca{os.getpid()}", f"ncb{os.getpid()}"), strict=True))
    name, other = NAMES
    hosts = "127.0.0.1 localhost\n" + "".join(f"{address} {each}\n" for each, address in NAMES.items())
    try:
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
    except (OSError, subprocess.CalledProcessError):
        _part(spaces)
        return False
    return True


def _part(spaces: dict[str, str]) -> None:
    for space in spaces.values():
        if Path("/run/netns", space).exists():
            _ip("netns", "delete", space)
        shutil.rmtree(Path("/etc/netns") / space, ignore_errors=True)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], capture_output=True, check=True)
