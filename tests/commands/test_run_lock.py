import fcntl
import multiprocessing
import signal
import time

import pytest
from filelock import FileLock
from small_run import Listening

from neurocontrast import locks
from neurocontrast.exceptions import ConfigError
from neurocontrast.locks import hold
from neurocontrast.progress import SILENT


def hold_until_killed(folder, held):
    with hold(folder, SILENT):
        held.set()
        time.sleep(600)


@pytest.fixture
def holder(tmp_path):
    forking = multiprocessing.get_context("fork")
    held = forking.Event()
    process = forking.Process(target=hold_until_killed, args=(tmp_path / "run", held))
    process.start()
    held.wait()
    yield process
    process.kill()
    process.join()


def test_a_second_process_is_refused_and_a_killed_one_leaves_no_lock(holder, tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "_PATIENCE", 0.2)
    with pytest.raises(ConfigError, match="another process is training in"):
        hold(tmp_path / "run", SILENT).__enter__()
    monkeypatch.undo()
    holder.kill()
    with hold(tmp_path / "run", SILENT):
        assert (tmp_path / "run/.lock").is_file()


def test_a_holder_that_is_just_ending_is_waited_for(holder, tmp_path, monkeypatch):
    tries = []

    class KillingLock(FileLock):
        def _acquire(self):
            super()._acquire()
            tries.append(self.is_locked)
            holder.kill()

    monkeypatch.setattr(locks, "FileLock", KillingLock)
    monkeypatch.setattr(locks, "_PATIENCE", 600.0)
    with hold(tmp_path / "run", SILENT):
        holder.join()
        assert holder.exitcode == -signal.SIGKILL
    assert not tries[0]
    assert tries[-1]


def test_a_folder_that_an_ending_holder_removes_is_made_again(tmp_path, monkeypatch):
    class LateLock(FileLock):
        n_tries = 0

        def _acquire(self):
            self.n_tries += 1
            if self.n_tries == 1:
                (tmp_path / "run").rmdir()
            super()._acquire()

    monkeypatch.setattr(locks, "FileLock", LateLock)
    with hold(tmp_path / "run", SILENT):
        assert (tmp_path / "run/.lock").is_file()


def test_nothing_is_left(tmp_path):
    with hold(tmp_path / "deep/run", SILENT):
        (tmp_path / "deep/run/result").write_text("")
    assert [path.name for path in (tmp_path / "deep/run").iterdir()] == ["result"]
    with hold(tmp_path / "empty", SILENT):
        pass
    assert not (tmp_path / "empty").exists()


def test_a_file_system_without_locks_is_told(tmp_path, monkeypatch):
    def refuse(handle, kind):
        raise OSError(95, "Operation not supported")

    heard = Listening()
    monkeypatch.setattr(fcntl, "flock", refuse)
    with hold(tmp_path, heard):
        pass
    assert "has no locks (Operation not supported)" in heard.warned[0]
