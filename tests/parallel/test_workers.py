import os

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
