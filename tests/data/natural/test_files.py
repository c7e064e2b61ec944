import os
import tarfile
import zipfile

import pytest

from neurocontrast.data.natural.pictures import open_files
from neurocontrast.exceptions import DataError


def link(name, kind=tarfile.SYMTYPE, target="/etc/passwd"):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


@pytest.mark.parametrize("name", ["x.tar", "x.tar.gz", "x.tar.xz"])
def test_an_archive_is_read_by_name_and_leaves_nothing(write_tar, tmp_path, name):
    source = write_tar({"./b/2.jpg": b"two", "a/1.jpg": b"one", "a/._1.jpg": b"noise", "notes.txt": b"no"}, name)
    (tmp_path / "scratch").mkdir()
    with open_files(source, scratch=tmp_path / "scratch") as found:
        assert found.names == ["a/1.jpg", "b/2.jpg", "notes.txt"]
        assert [found.read(name) for name in found.names] == [b"one", b"two", b"no"]
    assert list((tmp_path / "scratch").iterdir()) == []


@pytest.mark.parametrize(
    "member",
    [
        {"../up.jpg": b"x"},
        {"a/../../up.jpg": b"x"},
        {"s": link("soft.jpg")},
        {"s": link("soft.jpg", target="../../up.jpg")},
        {"d": link("device.jpg", tarfile.CHRTYPE)},
        {"p": link("pipe.jpg", tarfile.FIFOTYPE)},
    ],
    ids=["up", "up again", "absolute link", "link upwards", "device", "pipe"],
)
def test_a_hostile_archive_is_refused_and_writes_nowhere_else(write_tar, tmp_path, member):
    (tmp_path / "scratch").mkdir()
    source = write_tar(member, "x.tar")
    with pytest.raises(DataError, match=r"x\.tar"), open_files(source, scratch=tmp_path / "scratch"):
        pass
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["scratch", "x.tar"]
    assert list((tmp_path / "scratch").iterdir()) == []


@pytest.mark.parametrize("name", ["x.tar", "x.tar.gz", "x.tar.xz"])
@pytest.mark.parametrize("kept", [0.3, 0.85])
def test_a_cut_archive_is_refused(write_tar, name, kept):
    source = write_tar({f"{n}.jpg": os.urandom(5000) for n in range(8)}, name)
    source.write_bytes(source.read_bytes()[: int(kept * source.stat().st_size)])
    with pytest.raises(DataError, match=r"x\.tar.*cut, damaged"), open_files(source):
        pass


def test_zip_archives_are_read_too(tmp_path):
    good = tmp_path / "good.zip"
    with zipfile.ZipFile(good, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("b/2.jpg", "two")
        archive.writestr("__MACOSX/b/2.jpg", "noise")
        archive.writestr("../../up.jpg", "leads elsewhere")
    (tmp_path / "scratch").mkdir()
    with open_files(good, scratch=tmp_path / "scratch") as files:
        assert files.names == ["b/2.jpg"]
        assert files.read("b/2.jpg") == b"two"
        assert sorted(entry.name for entry in tmp_path.iterdir()) == ["good.zip", "scratch"]


def test_a_folder_is_walked_once_with_its_links(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "1.jpg").write_bytes(b"one")
    (tmp_path / "a" / ".hidden.jpg").write_bytes(b"no")
    (tmp_path / "2.jpg").symlink_to(tmp_path / "a" / "1.jpg")
    (tmp_path / "broken.jpg").symlink_to(tmp_path / "nowhere")
    with open_files(tmp_path) as files:
        assert files.names == ["2.jpg", "a/1.jpg"]
        assert files.read("2.jpg") == b"one"
    (tmp_path / "loop").symlink_to(tmp_path)
    with pytest.raises(DataError, match="lead back to a folder above"), open_files(tmp_path):
        pass


def test_what_is_no_source_is_refused(tmp_path):
    (tmp_path / "x.rar").write_bytes(b"Rar!")
    with pytest.raises(DataError, match="neither a folder nor an archive"), open_files(tmp_path / "x.rar"):
        pass
    with pytest.raises(DataError, match="no file or folder"), open_files(tmp_path / "absent"):
        pass
