import os
import subprocess
import sys

import pytest

FAULTS = """
import contextlib, resource, sys
import numpy as np
from neurocontrast.parallel.devices import keeping_freed_memory

def touch():
    np.frombuffer(bytearray(100_000_000), np.uint8)

with keeping_freed_memory() if sys.argv[1] == "keep" else contextlib.nullcontext():
    touch()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(5):
        touch()
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


RESIDENT = """
import resource
import numpy as np
from neurocontrast.parallel.devices import keeping_freed_memory

def resident():
    with open("/proc/self/statm") as stream:
        return int(stream.read().split()[1]) * resource.getpagesize()

with keeping_freed_memory():
    np.full(60_000_000, 1.0)
    held = resident()
print(held, resident())
"""


def plain_environment():
    return {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}


def n_faults(how, **environment):
    done = subprocess.run(
        [sys.executable, "-c", FAULTS, how],
        capture_output=True,
        text=True,
        check=True,
        env=plain_environment() | environment,
    )
    return int(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator")
def test_what_is_freed_is_used_again():
    plain = n_faults("plain")
    assert n_faults("keep") < 0.1 * plain
    assert n_faults("keep", MALLOC_ARENA_MAX="2") > 0.5 * plain  # whoever sets the allocator up is obeyed


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator")
def test_memory_is_given_back_at_the_end():
    done = subprocess.run(
        [sys.executable, "-c", RESIDENT], capture_output=True, text=True, check=True, env=plain_environment()
    )
    held, after = map(int, done.stdout.split())
    assert after < held - 400_000_000
