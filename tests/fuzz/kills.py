"""A call in a process of its own, killed at one of the files that it writes."""

import atexit
import json
import signal
import subprocess
import sys
import tempfile
from functools import cache

import numpy as np

PROGRAM = """
import json, os, signal, sys, traceback
from importlib import import_module

# Imported once: a call is a copy of this process, and begins where another would have imported.
for library in ("lightning_fabric", "monai.transforms", "nibabel", "pandas", "scipy.stats", "sklearn.linear_model",
                "torch"):
    import_module(library)


def call(function, places, options, below, kill_at):
    n_written = 0

    def count_what_is_written(event, given):
        nonlocal n_written
        if event not in ("open", "os.rename", "os.mkdir", "os.remove") or not str(given[0]).startswith(below):
            return
        if event == "open" and not (set(given[1] or "") & set("wxa+") or given[2] & (os.O_WRONLY | os.O_RDWR)):
            return
        n_written += 1
        if n_written == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count_what_is_written)
    function(*places, **options)
    return n_written


for line in sys.stdin:
    module, name, *given = json.loads(line)
    function = getattr(import_module(module), name)
    reader, writer = os.pipe()
    process = os.fork()
    if process == 0:
        code = 1
        try:
            os.dup2(2, 1)
            os.write(writer, str(call(function, *given)).encode())
            code = 0
        except BaseException:
            traceback.print_exc()
        os._exit(code)
    os.close(writer)
    _, status = os.waitpid(process, 0)
    counted = os.read(reader, 20).decode()
    os.close(reader)
    print(json.dumps([os.waitstatus_to_exitcode(status), counted]), flush=True)
"""


@cache
def server():
    """Start the process whose copies are called, and the file of its messages."""
    messages = tempfile.TemporaryFile("w+")  # noqa: SIM115 - as long as the process
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=messages,
        text=True,
    )
    atexit.register(process.kill)
    return process, messages


def call(module, name, places, options, below, kill_at=0):
    """Call a function of a module, killed when it writes file number `kill_at` in `below`; return how many it wrote."""
    process, messages = server()
    given = [module, name, [f"{place}" for place in places], options, str(below), kill_at]
    process.stdin.write(json.dumps(given) + "\n")
    process.stdin.flush()
    answer = process.stdout.readline()
    code, counted = json.loads(answer or "[null, null]")
    if code != (-signal.SIGKILL if kill_at else 0):
        messages.seek(0)
        raise AssertionError(f"{name} ended with {code}: {messages.read()[-3000:]}")
    return 0 if kill_at else int(counted)


def spread(n_written, n_kills):
    """Return when to kill: the first file, the last, and others evenly between."""
    return sorted({int(at) for at in np.linspace(1, n_written, n_kills)})
