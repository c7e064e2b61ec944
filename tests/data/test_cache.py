import errno
import multiprocessing
import os
import signal
import stat
import zlib
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from neurocontrast.data import cache as cache_module
from neurocontrast.data.cache import VolumeCache, default_cache_folder
from neurocontrast.exceptions import DataError
from neurocontrast.progress import SILENT
from neurocontrast.transforms.compose import load_volume
from neurocontrast.transforms.preprocessing import Preprocessing

CONTRACT = Preprocessing(spacing_mm=2.5, shape=(20, 22, 16))


@pytest.fixture
def scans(brain, write_nifti):
    noise = np.random.default_rng(0).normal(0, 50, (5, *brain.shape)).astype(np.float32)
    return [str(write_nifti(brain + (brain > 0) * noise[i], f"scan{i}.nii.gz")) for i in range(5)]


@pytest.fixture
def cache(tmp_path):
    return VolumeCache(tmp_path / "cache", CONTRACT)


def count_loads(monkeypatch):
    loads = []
    apply = cache_module.apply
    monkeypatch.setattr(
        cache_module, "apply", lambda made, item: loads.append(item["image"]) or apply(made, item)
    )
    return loads


def failing_with(number):
    """Return what a disk does that is full or may not be written."""

    def fail(*given, **named):
        raise OSError(number, os.strerror(number))

    return fail


def entries_of(cache):
    return sorted(cache.folder.glob("*.safetensors"))


class Warnings:
    """A progress that keeps the warnings."""

    def __init__(self):
        self.told = []

    def task(self, *given):
        return SILENT.task(*given)

    def warning(self, text):
        self.told.append(text)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_what_is_read_is_the_volume(scans, tmp_path, dtype):
    cache = VolumeCache(tmp_path / "cache", CONTRACT, dtype=dtype)
    assert cache.prepare(scans, n_workers=0) == 5
    volume = cache.read(scans[0])
    assert volume.dtype == dtype
    expected = load_volume(scans[0], CONTRACT)
    np.testing.assert_allclose(
        volume, expected, rtol=1e-3 if dtype == "float16" else 0, atol=1e-6 * (dtype == "float16")
    )
    volume[:] = 0
    np.testing.assert_allclose(cache.read(scans[0]), expected, rtol=1e-3, atol=1e-6)
    assert load_file(entries_of(cache)[0])["volume"].shape == (1, 20, 22, 16)


@pytest.mark.slow
def test_worker_processes_make_the_same_entries(scans, tmp_path, brain, write_nifti, monkeypatch):
    monkeypatch.setattr(cache_module, "N_SCANS_A_WORKER", 4)
    more = [*scans, *(str(write_nifti(brain + i, f"more{i}.nii.gz")) for i in range(4))]
    here = VolumeCache(tmp_path / "here", CONTRACT)
    workers = VolumeCache(tmp_path / "workers", CONTRACT)
    here.prepare(more, n_workers=0)
    assert workers.prepare(more, n_workers=2) == 9
    for path in more:
        np.testing.assert_array_equal(here.read(path), workers.read(path))


@pytest.mark.parametrize("keep_times", [False, True])
def test_a_changed_file_is_never_served_stale(brain, write_nifti, cache, keep_times):
    path = write_nifti(brain, "scan.nii")
    before = np.array(cache.read(path))
    status = path.stat()
    content = bytearray(path.read_bytes())
    content[-4000:] = content[-8000:-4000]  # other voxels, the same size
    path.write_bytes(content)
    if keep_times:
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        assert path.stat().st_mtime_ns == status.st_mtime_ns
    assert path.stat().st_size == status.st_size
    assert not np.array_equal(cache.read(path), before)
    np.testing.assert_allclose(cache.read(path), load_volume(path, CONTRACT), rtol=1e-3, atol=1e-6)
    assert len(entries_of(cache)) == 1


def test_a_link_is_followed_to_its_file(brain, write_nifti, cache, tmp_path, monkeypatch):
    path = write_nifti(brain)
    link = tmp_path / "link.nii.gz"
    link.symlink_to(path)
    cache.prepare([path], n_workers=0)
    loads = count_loads(monkeypatch)
    cache.read(link)
    assert not loads
    (tmp_path / "folder").symlink_to(path.parent)
    linked = tmp_path / "folder" / path.name
    assert cache.missing([link, linked]) == []
    link.unlink()
    link.symlink_to(write_nifti(brain[::-1], "other.nii.gz"))
    assert cache.missing([linked, link]) == [str(link)]
    assert not np.array_equal(cache.read(link), cache.read(path))


@pytest.mark.parametrize("how", ["cut", "flip", "text", "header", "longer"])
def test_a_damaged_entry_is_made_again(scans, cache, how):
    cache.prepare(scans[:1], n_workers=0)
    good = np.array(cache.read(scans[0]))
    entry = entries_of(cache)[0]
    content = bytearray(entry.read_bytes())
    if how == "flip":
        content[len(content) // 2] ^= 0x10
    elif how == "header":
        content[:6] = b"xxxxxx"
    entry.write_bytes(
        {"cut": content[:-100], "text": b"hello" * 1000, "longer": content + b"x"}.get(how, content)
    )
    assert cache.prepare(scans[:1], n_workers=0) == (0 if how == "flip" else 1)
    np.testing.assert_array_equal(cache.read(scans[0]), good)


@pytest.mark.timeout(60)
def test_an_entry_that_is_no_file_is_not_waited_for_and_made_again(scans, cache):
    good = cache.read(scans[0])
    (entry,) = entries_of(cache)
    for make in (os.mkfifo, lambda path: path.symlink_to("/dev/zero")):
        entry.unlink()
        make(entry)
        assert cache.missing(scans[:1]) == scans[:1]
        np.testing.assert_array_equal(cache.read(scans[0]), good)
        assert stat.S_ISREG(entry.lstat().st_mode)


@pytest.mark.parametrize("refused", ["the folder", "its files"])
def test_a_folder_that_may_not_be_written_is_read_and_what_it_lacks_is_made_each_time(
    scans, cache, monkeypatch, refused
):
    cache.prepare(scans[:2], n_workers=0)
    before = entries_of(cache)
    warned = Warnings()
    refuse = failing_with(errno.EROFS)
    target = (
        (cache_module.tempfile, "TemporaryFile")
        if refused == "the folder"
        else (cache_module, "atomic_path")
    )
    monkeypatch.setattr(*target, refuse)
    loads = count_loads(monkeypatch)
    assert cache.prepare(scans, n_workers=0, progress=warned) == 0
    assert len(warned.told) == 1
    assert "cannot be written: 3 scans have" in warned.told[0]
    monkeypatch.setattr(cache_module, "atomic_path", refuse)
    loads.clear()
    for path in [*scans, *scans]:
        np.testing.assert_allclose(
            cache.read(path), load_volume(path, CONTRACT), rtol=1e-3, atol=1e-6
        )
    assert loads == [*scans[2:], *scans[2:]]
    assert entries_of(cache) == before


def test_scans_that_cannot_be_read_are_not_counted_as_lacking_an_entry(
    scans, cache, tmp_path, monkeypatch
):
    damaged = tmp_path / "damaged.nii.gz"
    damaged.write_bytes(b"no scan")
    failures = {}
    warned = Warnings()
    assert cache.prepare([scans[0], damaged], n_workers=0, progress=warned, failures=failures) == 1
    assert (len(failures), warned.told) == (1, [])
    monkeypatch.setattr(cache_module, "atomic_path", failing_with(errno.EROFS))
    assert (
        cache.prepare([*scans[:3], damaged], n_workers=0, progress=warned, failures=failures) == 0
    )
    assert len(warned.told) == 1
    assert "cannot be written: 2 scans have" in warned.told[0]


@pytest.mark.parametrize(
    ("mode", "of_folder", "of_entry"), [(0o2770, 0o2770, 0o640), (0o777, 0o775, 0o644)]
)
def test_permissions_are_those_of_a_folder_that_was_there_but_others_never_write(
    scans, tmp_path, mode, of_folder, of_entry
):
    root = tmp_path / "root"
    root.mkdir()
    root.chmod(mode)
    cache = VolumeCache(root, CONTRACT)
    cache.prepare(scans[:1], n_workers=0)
    (entry,) = entries_of(cache)
    assert [path.stat().st_mode & 0o7777 for path in (cache.folder, entry)] == [of_folder, of_entry]
    made = VolumeCache(tmp_path / "new", CONTRACT)
    made.read(scans[0])
    assert made.folder.parent.stat().st_mode & 0o777 == 0o700


def forge(cache, scan, volume, **about):
    """Write an entry as one can who knows the format: the checksum is right."""
    cache.prepare([scan], n_workers=0)
    (entry,) = entries_of(cache)
    with safe_open(entry, "np") as stream:
        known = stream.metadata()
    parts = {"volume": volume, "affine": np.eye(4)}
    crc32 = str(zlib.crc32(volume.tobytes(), zlib.crc32(parts["affine"].tobytes())))
    save_file(parts, entry, metadata={**known, "crc32": crc32, **about})
    return entry


@pytest.mark.parametrize("how", ["owner", "mode"])
def test_an_entry_that_another_may_have_written_is_made_again_unless_the_folder_is_shared(
    scans, cache, tmp_path, monkeypatch, how
):
    good = cache.read(scans[0])
    volume = np.arange(np.prod(cache.shape), dtype=np.float16).reshape(cache.shape)
    entry = forge(cache, scans[0], volume)
    me = os.geteuid()
    if how == "mode":
        entry.chmod(0o660)
    elif me == 0:
        os.chown(entry, 12_345, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    shared = VolumeCache(tmp_path / "cache", CONTRACT, shared=True)
    np.testing.assert_array_equal(shared.read(scans[0]), volume)
    assert cache.missing(scans[:1]) == scans[:1]
    np.testing.assert_array_equal(cache.read(scans[0]), good)


def test_an_entry_of_another_shape_type_name_or_folder_is_never_used(scans, cache, tmp_path):
    good = cache.read(scans[0])
    for volume in (np.ones((1, 1, 1, 1), np.float16), good.astype(np.float32), good[..., :8]):
        forge(cache, scans[0], np.ascontiguousarray(volume))
        np.testing.assert_array_equal(cache.read(scans[0]), good)
    for about in ('["other", "x", 1, 2, 3]', "{}", ""):
        forge(cache, scans[0], np.zeros_like(good), about=about)
        np.testing.assert_array_equal(cache.read(scans[0]), good)


def test_a_killed_preparation_leaves_no_half_entry_and_continues(scans, cache):
    def prepare_until_killed(cache, scans, n_workers):
        write = cache_module.atomic_path
        done = []

        def write_then_die(path):
            if len(done) == 2:
                os.kill(os.getpid(), signal.SIGKILL)
            done.append(path)
            return write(path)

        cache_module.atomic_path = write_then_die
        cache.prepare(scans, n_workers=n_workers)

    assert prepare_in(1, cache, scans, prepare_until_killed) == [-signal.SIGKILL]
    assert cache.prepare(scans, n_workers=0) == 3


def test_a_full_disk_ends_a_preparation(scans, cache, monkeypatch):
    monkeypatch.setattr(cache_module, "atomic_path", failing_with(errno.ENOSPC))
    with pytest.raises(DataError, match="is full; what is finished is kept"):
        cache.prepare(scans, n_workers=0)


def test_a_file_that_changes_while_it_is_read_is_refused(brain, write_nifti, cache, monkeypatch):
    path = write_nifti(brain, "scan.nii")
    apply = cache_module.apply
    monkeypatch.setattr(
        cache_module,
        "apply",
        lambda *given: (apply(*given), write_nifti(brain[::-1], "scan.nii"))[0],
    )
    with pytest.raises(DataError, match="changed while it was read"):
        cache.read(path)


def test_another_contract_or_precision_has_its_own_entries(scans, cache, monkeypatch):
    cache.prepare(scans[:1], n_workers=0)
    for other in (
        VolumeCache(cache.folder.parent, CONTRACT, dtype="float32"),
        VolumeCache(cache.folder.parent, Preprocessing(spacing_mm=2.4, shape=(20, 22, 16))),
        VolumeCache(
            cache.folder.parent,
            Preprocessing(spacing_mm=2.5, shape=(20, 22, 16), normalise="zscore-brain"),
        ),
    ):
        assert other.folder != cache.folder
        assert other.prepare(scans[:1], n_workers=0) == 1
    monkeypatch.setattr("neurocontrast.transforms.preprocessing.TRANSFORM_VERSION", 2)
    assert VolumeCache(cache.folder.parent, CONTRACT).folder != cache.folder


def test_all_bad_images_are_named_and_the_good_ones_kept(scans, cache, tmp_path):
    Path(scans[1]).write_bytes(b"")
    Path(scans[3]).write_bytes(Path(scans[3]).read_bytes()[:500])
    with pytest.raises(DataError) as caught:
        cache.prepare([*scans, str(tmp_path / "nowhere.nii.gz")], n_workers=0)
    text = str(caught.value)
    assert "3 problems" in text
    for part in (scans[1], "0 bytes", scans[3], "truncated", "nowhere.nii.gz"):
        assert part in text
    assert len(entries_of(cache)) == 3
    with pytest.raises(DataError, match="nowhere"):
        cache.read(tmp_path / "nowhere.nii.gz")


def test_float16_holds_zscores_and_refuses_what_it_cannot(tmp_path, brain, write_nifti):
    spiky = np.zeros((64, 64, 64), dtype=np.float32)
    spiky[31, 31, 31] = 3e14
    spiky[30, 31, 31] = 1.0
    path = write_nifti(spiky, "spiky.nii")
    keep = Preprocessing(spacing_mm=None, shape=(64, 64, 64))
    volume = VolumeCache(tmp_path / "cache", keep).read(path)
    assert np.isfinite(volume).all()
    assert float(volume.max()) == pytest.approx(512, rel=1e-3)
    bright = write_nifti(brain * 1000, "bright.nii")
    plain = Preprocessing(spacing_mm=2.0, shape=brain.shape, normalise="none")
    with pytest.raises(DataError, match="does not fit float16"):
        VolumeCache(tmp_path / "cache", plain).read(bright)
    assert np.isfinite(VolumeCache(tmp_path / "cache", plain, dtype="float32").read(bright)).all()


def prepare_in(n_processes, cache, scans, prepare=VolumeCache.prepare):
    """Return the exit codes of processes that prepare the same scans at once."""
    forking = multiprocessing.get_context("fork")
    running = [
        forking.Process(target=prepare, args=(cache, scans), kwargs={"n_workers": 0})
        for _ in range(n_processes)
    ]
    for process in running:
        process.start()
    for process in running:
        process.join()
    return [process.exitcode for process in running]


def test_two_processes_at_once_share_a_folder(scans, cache):
    assert prepare_in(2, cache, scans) == [0, 0]
    assert cache.prepare(scans, n_workers=0) == 0
    assert not list(cache.folder.rglob(".tmp-*"))


def test_a_folder_that_cannot_be_used_is_named(scans, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match=r"cache folder .* cannot be used"):
        VolumeCache(tmp_path / "file", CONTRACT).prepare(scans, n_workers=0)
    with pytest.raises(DataError, match="'float16' or 'float32', found 'float64'"):
        VolumeCache(tmp_path, CONTRACT, dtype="float64")


def test_the_default_folder_follows_xdg(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache_folder() == tmp_path / "neurocontrast"
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_cache_folder() == tmp_path / ".cache" / "neurocontrast"
    assert VolumeCache(None, CONTRACT).folder.parent == default_cache_folder()


def test_an_entry_cannot_be_opened_by_others_while_it_is_written(cache, scans, monkeypatch):
    modes = []
    write = Path.write_bytes

    def watched(path, content):
        modes.append(stat.S_IMODE(path.stat().st_mode))
        return write(path, content)

    cache.folder.parent.mkdir()
    cache.folder.parent.chmod(0o2775)
    monkeypatch.setattr(Path, "write_bytes", watched)
    before = os.umask(0o002)
    try:
        cache.read(scans[0])
    finally:
        os.umask(before)
    assert modes == [0o644]
