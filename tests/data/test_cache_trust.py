"""Entries of the cache are used where this user wrote them, or where the folder is shared."""

from __future__ import annotations

import os
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from cached_scans import CONTRACT, Warnings, count_loads, entries_of
from safetensors import safe_open
from safetensors.numpy import save_file

from neurocontrast.data import cache as cache_module
from neurocontrast.data.cache import VolumeCache
from neurocontrast.exceptions import ConfigError


@pytest.fixture
def other_user(monkeypatch, tmp_path):
    """A second key: what is written with it is another user's."""
    mine = os.environ["NEUROCONTRAST_CACHE_KEY"]
    monkeypatch.setenv("NEUROCONTRAST_CACHE_KEY", str(tmp_path / "other" / "cache.key"))
    made = VolumeCache(tmp_path / "cache", CONTRACT)
    monkeypatch.setenv("NEUROCONTRAST_CACHE_KEY", mine)
    return made


def forged(cache, scan, volume):
    """Write an entry as one can who knows the format and not the key: every checksum is right."""
    cache.prepare([scan], n_workers=0)
    (entry,) = entries_of(cache)
    parts = {"volume": volume, "affine": np.eye(4)}
    status = Path(scan).stat()
    known = {part: str(zlib.crc32(values.tobytes())) for part, values in parts.items()}
    known["source"] = f"[{status.st_size}, {status.st_mtime_ns}, {status.st_ctime_ns}]"
    with safe_open(entry, "np") as stream:
        kept = {name: text for name, text in stream.metadata().items() if name.endswith(".hmac")}
    save_file(parts, entry, metadata=kept | known)


def test_a_forged_entry_is_made_again_unless_the_folder_is_shared(scans, cache, tmp_path):
    good = cache.read(scans[0])
    volume = np.arange(np.prod(cache.shape), dtype=np.float16).reshape(cache.shape)
    forged(cache, scans[0], volume)
    shared = VolumeCache(tmp_path / "cache", CONTRACT, shared=True)
    np.testing.assert_array_equal(shared.read(scans[0]), volume)
    assert cache.missing(scans[:1]) == scans[:1]
    np.testing.assert_array_equal(cache.read(scans[0]), good)
    np.testing.assert_array_equal(cache.affine_of(scans[0]), shared.affine_of(scans[0]))


def test_an_entry_of_another_shape_or_type_is_never_used(scans, cache, tmp_path):
    good = cache.read(scans[0])
    for volume in (np.ones((1, 1, 1, 1), np.float16), good.astype(np.float32), good[..., :8]):
        forged(cache, scans[0], np.ascontiguousarray(volume))
        for each in (VolumeCache(tmp_path / "cache", CONTRACT, shared=True), cache):
            np.testing.assert_array_equal(each.read(scans[0]), good)


def test_an_entry_is_no_other_scan_s_nor_another_preprocessing_s(scans, cache, monkeypatch):
    cache.prepare(scans[:1], n_workers=0)
    (first,) = entries_of(cache)
    monkeypatch.setattr(cache_module, "signature_of", lambda files: cache_module.Signature(1, 2, 3))
    good = cache.read(scans[1])
    (second,) = set(entries_of(cache)) - {first}
    cache.read(scans[0])
    second.write_bytes(first.read_bytes())
    np.testing.assert_array_equal(cache.read(scans[1]), good)


def test_entries_of_another_user_are_used_only_where_the_folder_is_shared(scans, cache, other_user, monkeypatch):
    other_user.prepare(scans[:2], n_workers=0)
    shared = VolumeCache(cache.folder.parent, CONTRACT, shared=True)
    loads = count_loads(monkeypatch)
    assert shared.missing(scans[:2]) == []
    assert cache.missing(scans[:2]) == scans[:2]
    assert cache.prepare(scans[:2], n_workers=0) == 2
    assert len(loads) == 2


def test_the_key_is_made_once_for_its_user_alone(tmp_path, monkeypatch):
    monkeypatch.delenv("NEUROCONTRAST_CACHE_KEY")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    code = "from neurocontrast.data.cache_key import cache_key; print(cache_key()[0].hex())"
    running = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(3)]
    found = {process.communicate()[0].strip() for process in running}
    kept = tmp_path / "config" / "neurocontrast" / "cache.key"
    assert found == {kept.read_bytes().hex()}
    assert kept.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in kept.parent.iterdir()] == ["cache.key"]


def test_a_key_that_others_can_read_or_of_another_length_is_refused(tmp_path, monkeypatch):
    for name, content, mode, said in (("open", b"x" * 32, 0o644, "chmod 600"), ("cut", b"x", 0o600, "found 1")):
        path = tmp_path / name
        path.write_bytes(content)
        path.chmod(mode)
        monkeypatch.setenv("NEUROCONTRAST_CACHE_KEY", str(path))
        with pytest.raises(ConfigError, match=f"{name}: the key of the cache .*{said}"):
            VolumeCache(tmp_path, CONTRACT)


def test_where_no_key_can_be_kept_one_warning_says_so_and_what_is_read_is_right(scans, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("NEUROCONTRAST_CACHE_KEY", str(tmp_path / "file" / "cache.key"))
    cache, warned = VolumeCache(tmp_path / "cache", CONTRACT), Warnings()
    assert cache.prepare(scans[:2], n_workers=2, progress=warned) == 2
    assert len(warned.told) == 1
    assert "Set NEUROCONTRAST_CACHE_KEY to a file" in warned.told[0]
    assert cache.missing(scans[:2]) == []
