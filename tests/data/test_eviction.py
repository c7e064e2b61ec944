from __future__ import annotations

import errno
import json
import os
import subprocess
import sys

import numpy as np
import pytest

from neurocontrast.config import load_config
from neurocontrast.data import cache as cache_module
from neurocontrast.data import eviction
from neurocontrast.data.cache import VolumeCache
from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.progress import SILENT
from neurocontrast.transforms.compose import load_volume
from neurocontrast.transforms.preprocessing import Preprocessing

ONE = 16_384
"""What an entry of these tests takes on the disk, in bytes."""
MINE, OTHER, THIRD = (Preprocessing(spacing_mm=spacing, shape=(20, 22, 16)) for spacing in (2.5, 2.4, 3.0))

CODE = """
import sys
import numpy as np
from neurocontrast.data import VolumeCache
from neurocontrast.transforms import Preprocessing
from neurocontrast.transforms.compose import load_volume
kept = Preprocessing(spacing_mm=float(sys.argv[2]), shape=(20, 22, 16))
cache = VolumeCache(sys.argv[1], kept, limit_gb=float(sys.argv[3]) or None)
for _ in range(3):
    cache.prepare(sys.argv[4:], n_workers=0)
    for scan in sys.argv[4:]:
        np.testing.assert_allclose(cache.read(scan), load_volume(scan, kept), rtol=1e-3, atol=1e-6)
print("read", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def scans(brain, write_nifti):
    return [str(write_nifti(np.roll(brain, i, axis=1), f"scan{i}.nii")) for i in range(6)]


@pytest.fixture
def start(tmp_path):
    """Start a process that fills a cache, and lives until it is ended."""
    running = []

    def begin(spacing, limit, scans):
        command = [sys.executable, "-c", CODE, str(tmp_path / "cache"), str(spacing), str(limit), *scans]
        running.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        return running[-1]

    yield begin
    for process in running:
        process.kill()
        process.communicate()


class Warnings:
    def __init__(self):
        self.told = []

    def task(self, *given):
        return SILENT.task(*given)

    def warning(self, text):
        self.told.append(text)


def limit_of(n_entries):
    return n_entries * ONE / 2**30


def opened(tmp_path, kept=MINE, *, n_entries=None):
    return VolumeCache(tmp_path / "cache", kept, limit_gb=None if n_entries is None else limit_of(n_entries))


def forget_leases(monkeypatch):
    """Let this process be one that has used nothing."""
    for lease in eviction._leases.values():
        lease.path.unlink(missing_ok=True)
    monkeypatch.setattr(eviction, "_leases", {})


def entries_of(cache):
    return sorted(cache.folder.glob("??/*.safetensors"))


def test_what_was_not_used_for_longest_makes_room(scans, tmp_path, monkeypatch):
    others = opened(tmp_path, OTHER)
    others.prepare(scans, n_workers=0)
    for age, scan in enumerate(scans):
        os.utime(others._entry_path(scan), (1e9 - age, 1e9 - age))
    others.read(scans[5])  # the oldest is used
    foreign = [tmp_path / "cache" / "notes.safetensors", others.folder / "notes.txt"]
    for path in foreign:
        path.write_text("mine")
    forget_leases(monkeypatch)
    cache = opened(tmp_path, n_entries=6)
    assert cache.prepare(scans[:3], n_workers=0) == 3
    left = [scan for scan in scans if others._entry_path(scan).exists()]
    assert scans[5] in left
    assert left[:-1] == scans[: len(left) - 1]
    assert len(left) == 3
    assert sum(entry.n_bytes for entry in eviction.list_entries(tmp_path / "cache")) <= 6 * ONE
    assert all(path.read_text() == "mine" for path in foreign)


def test_without_a_limit_nothing_is_deleted_and_with_one_what_is_too_much(scans, tmp_path, monkeypatch):
    cache = opened(tmp_path, OTHER)
    cache.prepare(scans, n_workers=0)
    forget_leases(monkeypatch)
    assert opened(tmp_path).prepare(scans[:2], n_workers=0) == 2
    assert len(entries_of(cache)) == 6
    assert opened(tmp_path, n_entries=3).prepare(scans[:2], n_workers=0) == 0
    assert len(entries_of(cache)) == 1
    assert len(entries_of(opened(tmp_path))) == 2


def test_scans_beyond_the_limit_are_made_on_each_reading(scans, tmp_path):
    cache, warned = opened(tmp_path, n_entries=4), Warnings()
    assert cache.prepare(scans, n_workers=0, progress=warned) == len(entries_of(cache)) == 4
    assert len(warned.told) == 1
    assert "is full (data.cache_limit_gb: " in warned.told[0]
    assert ": 2 scans (" in warned.told[0]
    for scan in [*scans, *scans]:
        np.testing.assert_allclose(cache.read(scan), load_volume(scan, MINE), rtol=1e-3, atol=1e-6)
    assert len(entries_of(cache)) == 4
    assert opened(tmp_path, n_entries=0.5).prepare(scans[4:], n_workers=0) == 0


def test_entries_of_a_living_process_are_kept_and_those_of_a_killed_one_deleted(scans, tmp_path, start):
    process = start(2.4, 0, scans)
    assert process.stdout.readline() == "read\n"
    others, cache = opened(tmp_path, OTHER), opened(tmp_path, n_entries=6)
    assert cache.prepare(scans, n_workers=0) < 6
    assert len(entries_of(others)) == 6
    process.kill()
    process.wait()
    assert cache.prepare(scans, n_workers=0) > 0
    assert not entries_of(others)
    assert len(entries_of(cache)) == 6
    assert len(list((tmp_path / "cache" / eviction.IN_USE).iterdir())) == 1


@pytest.mark.slow
def test_two_processes_that_fill_and_evict_at_once_read_what_is_right(scans, tmp_path, start, monkeypatch):
    opened(tmp_path, THIRD).prepare(scans, n_workers=0)
    forget_leases(monkeypatch)
    processes = [start(spacing, limit_of(8), scans) for spacing in (2.5, 2.4)]
    assert [process.stdout.readline() for process in processes] == ["read\n", "read\n"]
    for process in processes:
        process.communicate("")
        assert process.returncode == 0
    assert not list((tmp_path / "cache" / eviction.IN_USE).iterdir())
    cache = opened(tmp_path, n_entries=8)
    cache.prepare(scans, n_workers=0)
    assert len(entries_of(cache)) == 6
    assert sum(entry.n_bytes for entry in eviction.list_entries(tmp_path / "cache")) <= 8 * ONE


@pytest.mark.parametrize(("content", "n_left"), [("of another host", 6), ("not refreshed", 0), ("not readable", 6)])
def test_a_lease_counts_while_it_is_refreshed(scans, tmp_path, monkeypatch, content, n_left):
    others = opened(tmp_path, OTHER)
    others.prepare(scans, n_workers=0)
    names = [f"{others.folder.name}/{path.stem}" for path in entries_of(others)]
    forget_leases(monkeypatch)
    lease = tmp_path / "cache" / eviction.IN_USE / "elsewhere-1-abc.json"
    lease.write_text(json.dumps({"host": "elsewhere", "pid": 2**30, "entries": names}))
    if content == "not readable":
        lease.write_text("{")
    elif content == "not refreshed":
        os.utime(lease, (1e9, 1e9))
    opened(tmp_path, n_entries=6).prepare(scans, n_workers=0)
    assert len(entries_of(others)) == n_left
    assert lease.exists() == (content != "not refreshed")


def test_a_lease_is_written_again_where_it_was_removed(scans, tmp_path):
    opened(tmp_path).prepare(scans[:1], n_workers=0)
    (lease,) = (tmp_path / "cache" / eviction.IN_USE).iterdir()
    before = lease.read_text()
    lease.unlink()
    eviction.hold(tmp_path / "cache", ())
    assert lease.read_text() == before


def test_leases_of_killed_processes_do_not_pile_up_without_a_limit(scans, tmp_path):
    folder = tmp_path / "cache" / eviction.IN_USE
    folder.mkdir(parents=True)
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    (folder / "dead.json").write_text(json.dumps({"host": eviction._this_host(), "pid": dead.pid, "entries": []}))
    opened(tmp_path).prepare(scans[:1], n_workers=0)
    assert [str(os.getpid()) in lease.name for lease in folder.iterdir()] == [True]


def test_what_a_killed_process_was_writing_is_deleted_after_a_day(scans, tmp_path):
    cache = opened(tmp_path, n_entries=1)
    cache.prepare(scans[:1], n_workers=0)
    (entry,) = entries_of(cache)
    old, new = (entry.with_name(f".tmp-{digit * 12}-{entry.name}") for digit in "ab")
    for path in (old, new):
        path.write_bytes(bytes(ONE))
    os.utime(old, (1e9, 1e9))
    cache.prepare(scans[:1], n_workers=0)
    assert entry.exists()
    assert new.exists()
    assert not old.exists()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_makes_room_within_a_limit_and_ends_the_run_without_one(scans, tmp_path, monkeypatch, code):
    others = opened(tmp_path, OTHER)
    others.prepare(scans, n_workers=0)
    forget_leases(monkeypatch)
    write = cache_module.write_entry

    def write_within_quota(*given):
        if len(eviction.list_entries(tmp_path / "cache")) >= 7:
            raise OSError(code, os.strerror(code))
        write(*given)

    monkeypatch.setattr(cache_module, "write_entry", write_within_quota)
    with pytest.raises(DataError, match="is full; what is finished is kept") as caught:
        opened(tmp_path).prepare(scans, n_workers=0)
    assert caught.value.exit_code == 1
    cache = opened(tmp_path, n_entries=100)
    assert len(entries_of(cache)) == 1
    assert cache.prepare(scans, n_workers=0) == 5
    assert len(entries_of(cache)) == 6
    assert len(entries_of(others)) == 1
    warned, more = Warnings(), opened(tmp_path, THIRD, n_entries=100)
    assert more.prepare(scans, n_workers=0, progress=warned) == 1
    assert ": 5 scans (" in warned.told[0]


@pytest.mark.parametrize("value", ["0", "-1", ".nan", ".inf", "much"])
def test_a_limit_that_is_no_size_is_refused(value):
    with pytest.raises(ConfigError, match=r"data\.cache_limit_gb"):
        load_config(None, overrides=[f"data.cache_limit_gb={value}"])
    assert load_config(None, overrides=["data.cache_limit_gb=0.5"]).data.cache_limit_gb == 0.5
