import os
import subprocess
import sys

import pytest

from neurocontrast.parallel.workers import WorkerError, _unless_left, map_files


def describe(number: int) -> tuple[int, int, str | None]:
    return number, os.getpid(), os.environ.get("OMP_NUM_THREADS")


def end_yourself(number: int) -> int:
    os._exit(9) if number == 3 else None
    return number


def refuse(number: int) -> int:
    raise ValueError(f"no {number}")


def test_little_work_is_done_in_this_process():
    assert list(map_files(describe, [(1,), (2,)], n_workers=4)) == [describe(1), describe(2)]


def test_much_work_is_done_in_processes_of_one_thread():
    results = list(map_files(describe, [(i,) for i in range(12)], n_workers=2))
    assert sorted(number for number, _, _ in results) == list(range(12))
    assert os.getpid() not in {process for _, process, _ in results}
    assert {n_threads for _, _, n_threads in results} == {"1"}


def test_a_worker_that_dies_is_told():
    with pytest.raises(WorkerError, match=r"ended from outside.*data\.n_workers"):
        list(map_files(end_yourself, [(i,) for i in range(12)], n_workers=2))


def test_a_worker_whose_parent_was_killed_begins_nothing():
    assert _unless_left(os.getppid(), describe, 3)[0] == 3
    with pytest.raises(WorkerError, match="has ended"):
        _unless_left(os.getpid(), describe, 3)


def test_an_error_in_a_worker_comes_back():
    with pytest.raises(ValueError, match="no "):
        list(map_files(refuse, [(i,) for i in range(12)], n_workers=2))


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
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env=plain | environment
    )
    return map(int, done.stdout.split())


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator")
def test_what_is_freed_is_used_again_and_given_back_at_the_end():
    (plain, _), (kept, given_back) = faults_and_given_back("plain"), faults_and_given_back("keep")
    assert kept < 0.1 * plain
    assert given_back > 400_000_000
    obeyed, _ = faults_and_given_back(
        "keep", MALLOC_ARENA_MAX="2"
    )  # whoever sets the allocator up is obeyed
    assert obeyed > 0.5 * plain
