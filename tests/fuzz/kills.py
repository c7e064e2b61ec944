"""A call in a process of its own, killed at one of the files that it writes."""

import json
import signal
import subprocess
import sys

import numpy as np

PROGRAM = """
import json, os, signal, sys
from importlib import import_module

module, name, places, options, below, kill_at = json.loads(sys.argv[1])
n_written = 0


def count_what_is_written(event, given):
    global n_written
    if event not in ("open", "os.rename", "os.mkdir", "os.remove") or not str(given[0]).startswith(below):
        return
    if event == "open" and not (set(given[1] or "") & set("wxa+") or given[2] & (os.O_WRONLY | os.O_RDWR)):
        return
    n_written += 1
    if n_written == kill_at:
        os.kill(os.getpid(), signal.SIGKILL)


module = import_module(module)
sys.addaudithook(count_what_is_written)
getattr(module, name)(*places, **options)
print(n_written)
"""


def call(module, name, places, options, below, kill_at=0):
    """Call a function of a module, killed when it writes file number `kill_at` in `below`; return how many it wrote."""
    given = json.dumps(
        [module, name, [f"{place}" for place in places], options, str(below), kill_at]
    )
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, given], capture_output=True, text=True, check=False
    )
    assert done.returncode == (-signal.SIGKILL if kill_at else 0), done.stderr
    return 0 if kill_at else int(done.stdout.split()[-1])


def spread(n_written, n_kills):
    """Return when to kill: the first file, the last, and others evenly between."""
    return sorted({int(at) for at in np.linspace(1, n_written, n_kills)})
