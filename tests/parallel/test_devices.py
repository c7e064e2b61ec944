import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator")

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


def numbers_of(program, *arguments, **environment):
    """Return the numbers that a program prints, whose allocator is set up by these variables alone."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=plain | environment)
    return [int(word) for word in done.stdout.split()]


def test_what_is_freed_is_used_again():
    (plain,), (kept,) = numbers_of(FAULTS, "plain"), numbers_of(FAULTS, "keep")
    assert kept < 0.1 * plain
    (obeyed,) = numbers_of(FAULTS, "keep", MALLOC_ARENA_MAX="2")  # whoever sets the allocator up is obeyed
    assert obeyed > 0.5 * plain


def test_memory_is_given_back_at_the_end():
    held, after = numbers_of(RESIDENT)
    assert after < held - 400_000_000
