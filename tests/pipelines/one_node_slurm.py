"""A SLURM cluster of this machine alone, in a folder: munged, slurmctld and slurmd, ended with the block using it."""

import contextlib
import getpass
import os
import random
import shutil
import signal
import socket
import subprocess
import time

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "squeue")
PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin"])

# Cores, memory and GPUs are what the files in pipelines/ ask for; here they are only counted,
# whatever there is. A job that was queued again waits until its credential has expired, by default
# two minutes.
SLURM_CONF = """
ClusterName=onenode
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SchedulerParameters=sched_interval=1,batch_sched_delay=0
MpiDefault=none
GresTypes=gpu
FirstJobId={first_job}
KillWait=10
NodeName={host} NodeAddr=127.0.0.1 CPUs=32 RealMemory=128000 Gres=gpu:4 State=UNKNOWN
PartitionName=cpu Nodes={host} Default=YES MaxTime=INFINITE State=UP
PartitionName=gpu Nodes={host} MaxTime=INFINITE State=UP
"""


def missing_programs():
    """Return which of SLURM's programs are not installed."""
    return [name for name in PROGRAMS if shutil.which(name, path=PATH) is None]


@contextlib.contextmanager
def one_node_slurm(folder):
    """Run a cluster within the block, and give the environment in which its commands find it."""
    for name in ("state", "spool"):
        (folder / name).mkdir(parents=True)
    # The processes of a run meet at a port that is made of the job's number.
    own = {"ports": _free_ports(2), "first_job": random.SystemRandom().randrange(10_000, 19_000)}
    host = socket.gethostname().split(".")[0]
    user = getpass.getuser()
    (folder / "slurm.conf").write_text(
        SLURM_CONF.format(folder=folder, host=host, user=user, **own)
    )
    # No cgroup is used, but older versions want a place for them, and newer ones must be told that
    # there is none.
    newer = _version() >= (23, 2)
    cgroup = (
        "CgroupPlugin=disabled"
        if newer
        else f"CgroupPlugin=cgroup/v1\nCgroupMountpoint={folder / 'cgroup'}"
    )
    (folder / "cgroup.conf").write_text(cgroup + "\n")
    for number in range(4):
        (folder / f"gpu{number}").touch()  # stands for /dev/nvidia0 and so on
    (folder / "gres.conf").write_text(f"Name=gpu File={folder}/gpu[0-3]\n")
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)

    environment = {**os.environ, "PATH": PATH, "SLURM_CONF": str(folder / "slurm.conf")}
    files = [f"--{name}-file={folder}/munge.{name}" for name in ("key", "pid", "log", "seed")]
    with contextlib.ExitStack() as stack:

        def start(*command):
            stack.enter_context(_daemon(command, environment, folder / f"{command[0]}.log"))

        start("munged", "--foreground", "--force", f"--socket={folder}/munge.socket", *files)
        _wait_for(lambda: (folder / "munge.socket").exists(), folder)
        start("slurmctld", "-D")
        start("slurmd", "-D")
        _wait_for(
            lambda: _output_of(["sinfo", "-h", "-o", "%t"], environment) in ("idle", "idle\nidle"),
            folder,
        )
        try:
            yield environment
        finally:
            subprocess.run(["scancel", "--me"], env=environment, timeout=20, check=False)
            _wait_for(lambda: not _output_of(["squeue", "-h"], environment), folder, seconds=30)


@contextlib.contextmanager
def _daemon(command, environment, log):
    """Run a daemon within the block, and no longer than this process."""
    guard = ["setpriv", "--pdeathsig", "TERM"] if shutil.which("setpriv") else []
    with open(log, "ab") as stream:
        process = subprocess.Popen(
            [*guard, *command], env=environment, stdout=stream, stderr=stream
        )
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _free_ports(n):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(n)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _version():
    printed = subprocess.run(
        ["slurmctld", "-V"], env={"PATH": PATH}, capture_output=True, text=True, check=True
    ).stdout
    return tuple(map(int, printed.split()[-1].split(".")[:2]))


def _output_of(command, environment):
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=30, check=False
    )
    return done.stdout.strip() if done.returncode == 0 else None


def _wait_for(happens, folder, seconds=60):
    deadline = time.monotonic() + seconds
    while not happens():
        if time.monotonic() > deadline:
            logs = "\n".join(
                f"{log.name}:\n{log.read_text()[-3000:]}" for log in sorted(folder.glob("*.log"))
            )
            raise TimeoutError(f"the cluster was not ready within {seconds} s\n{logs}")
        time.sleep(0.1)
