import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator")

PROGRAM = """
import contextlib, resource, sys
import numpy as np
from neurocontrast.parallel.devices import keeping_freed_memory

def touch():
    np.frombuffer(bytearray(100_000_000), np.uint8)

def resident():
    with open("/proc/self/statm") as stream:
        return int(stream.read().split()[1]) * resource.getpagesize()

with keeping_freed_memory() if sys.argv[1] == "keep" else contextlib.nullcontext():
    touch()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(5):
        touch()
    n_faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    np.full(60_000_000, 1.0)
    held = resident()
print(n_faults, held - resident())
"""


def faults_and_given_back(*arguments, **environment):
    """Return what a program's allocator does that is set up by these variables alone."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    command = [sys.executable, "-c", PROGRAM, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=plain | environment)
    return map(int, done.stdout.split())


def test_what_is_freed_is_used_again_and_given_back_at_the_end():
    (plain, _), (kept, given_back) = faults_and_given_back("plain"), faults_and_given_back("keep")
    assert kept < 0.1 * plain
    assert given_back > 400_000_000
    obeyed, _ = faults_and_given_back("keep", MALLOC_ARENA_MAX="2")  # whoever sets the allocator up is obeyed
    assert obeyed > 0.5 * plain
