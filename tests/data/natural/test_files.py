import gzip
import lzma
import os
import stat
import tarfile
import zipfile

import pytest

from neurocontrast.data.natural import files as files_module
from neurocontrast.data.natural.files import open_files
from neurocontrast.exceptions import DataError


def anything(name):
    return True


def link(name, kind=tarfile.SYMTYPE, target="/etc/passwd"):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


@pytest.mark.parametrize("name", ["x.tar", "x.tar.gz", "x.tar.xz"])
def test_an_archive_is_read_by_name(write_tar, name):
    source = write_tar({"./b/2.jpg": b"two", "a/1.jpg": b"one", "a/._1.jpg": b"noise", "notes.txt": b"no"}, name)
    with open_files(source, lambda name: name.endswith(".jpg")) as files:
        assert files.names == ["a/1.jpg", "b/2.jpg"]
        assert [files.read(name) for name in files.names] == [b"one", b"two"]
        assert files.n_skipped == 1


def test_nothing_is_unpacked(write_tar, tmp_path):
    source = write_tar({"a/1.jpg": b"one"})
    spool = tmp_path / "spool"
    spool.mkdir()
    with open_files(source, anything, spool=spool):
        assert list(spool.iterdir()) == []


def test_all_hostile_members_are_told_at_once(write_tar):
    source = write_tar(
        {
            "../up.jpg": b"x",
            "/etc/absolute.jpg": b"x",
            "a/../../up.jpg": b"x",
            "back\\slash.jpg": b"x",
            "C:/drive.jpg": b"x",
            "new\nline.jpg": b"x",
            "s": link("soft.jpg"),
            "h": link("hard.jpg", tarfile.LNKTYPE),
            "d": link("device.jpg", tarfile.CHRTYPE),
            "p": link("pipe.jpg", tarfile.FIFOTYPE),
            "good.jpg": b"x",
        }
    )
    with pytest.raises(DataError) as found, open_files(source, anything):
        pass
    message = str(found.value)
    assert "10 problems" in message
    assert message.count("leads out of the archive") == 5
    assert message.count("a link or device") == 4
    assert "good.jpg" not in message


def test_a_name_that_stands_twice_is_refused(tmp_path, write_tar):
    with tarfile.open(tmp_path / "twice.tar", "w") as archive:
        for _ in range(2):
            archive.addfile(tarfile.TarInfo("a/1.jpg"))
    with pytest.raises(DataError, match="there twice"), open_files(tmp_path / "twice.tar", anything):
        pass


@pytest.mark.parametrize("name", ["x.tar", "x.tar.gz", "x.tar.xz"])
@pytest.mark.parametrize("kept", [0.3, 0.6, 0.85])
def test_a_cut_archive_is_refused(write_tar, name, kept):
    source = write_tar({f"{n}.jpg": os.urandom(5000) for n in range(8)}, name)
    source.write_bytes(source.read_bytes()[: int(kept * source.stat().st_size)])
    with pytest.raises(DataError, match=r"x\.tar.*cut, damaged"), open_files(source, anything):
        pass


def test_a_damaged_checksum_is_found(write_tar):
    source = write_tar({"1.jpg": os.urandom(5000)}, "x.tar.gz")
    content = bytearray(source.read_bytes())
    content[-8] ^= 1
    source.write_bytes(content)
    with pytest.raises(DataError, match="damaged"), open_files(source, anything):
        pass


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress])
def test_what_unpacks_without_end_is_refused_before_it_is_all_read(tmp_path, monkeypatch, compress):
    monkeypatch.setattr(files_module, "_MAX_FREE", 2**20)
    header = tarfile.TarInfo("zeros.txt")
    header.size = 2**40
    source = tmp_path / "bomb.tar.xz"
    source.write_bytes(compress(header.tobuf() + bytes(2**24)))
    with pytest.raises(DataError, match="decompression bomb"), open_files(source, anything):
        pass


def test_a_stream_that_hides_its_size_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(files_module, "_MAX_FREE", 2**20)
    source = tmp_path / "bomb.tar.gz"
    member = tarfile.TarInfo("a.jpg")
    source.write_bytes(gzip.compress(member.tobuf() + bytes(2**25)))  # zeros behind the end of the archive
    with pytest.raises(DataError, match="far more than an honest archive"), open_files(source, anything):
        pass


def test_a_member_of_negative_size_is_refused(tmp_path):
    member = tarfile.TarInfo("a.jpg")
    member.size = -512
    (tmp_path / "x.tar").write_bytes(member.tobuf() + bytes(1024))
    with pytest.raises(DataError, match="negative size"), open_files(tmp_path / "x.tar", anything):
        pass


def test_a_file_that_is_too_large_is_refused(write_tar, monkeypatch):
    monkeypatch.setattr(files_module, "MAX_FILE_BYTES", 10)
    with (
        pytest.raises(DataError, match="11 bytes are more than the 10"),
        open_files(write_tar({"a.jpg": bytes(11)}), anything),
    ):
        pass


def test_zip_archives_follow_the_same_rules(tmp_path):
    good, bad = tmp_path / "good.zip", tmp_path / "bad.zip"
    with zipfile.ZipFile(good, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("b/2.jpg", "two")
        archive.writestr("__MACOSX/b/2.jpg", "noise")
        archive.writestr("a/1.jpg", "one")
    with open_files(good, anything) as files:
        assert files.names == ["a/1.jpg", "b/2.jpg"]
        assert files.read("b/2.jpg") == b"two"
    soft = zipfile.ZipInfo("soft.jpg")
    soft.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(bad, "w") as archive:
        archive.writestr(soft, "/etc/passwd")
        archive.writestr("../up.jpg", "x")
    with pytest.raises(DataError) as found, open_files(bad, anything):
        pass
    assert "a link or device" in str(found.value)
    assert "leads out" in str(found.value)


def test_a_damaged_zip_is_refused(tmp_path):
    source = tmp_path / "x.zip"
    with zipfile.ZipFile(source, "w") as archive:
        archive.writestr("1.jpg", b"x" * 100)
    content = bytearray(source.read_bytes())
    content[60] ^= 1
    source.write_bytes(content)
    with open_files(source, anything) as files, pytest.raises(DataError, match=r"'1\.jpg' is damaged"):
        files.read("1.jpg")
    source.write_bytes(content[:50])
    with pytest.raises(DataError, match="as a zip archive"), open_files(source, anything):
        pass


def test_a_folder_is_walked_once_with_its_links(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "1.jpg").write_bytes(b"one")
    (tmp_path / "a" / ".hidden.jpg").write_bytes(b"no")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "2.jpg").symlink_to(tmp_path / "a" / "1.jpg")
    (tmp_path / "broken.jpg").symlink_to(tmp_path / "nowhere")
    with open_files(tmp_path, anything) as files:
        assert files.names == ["2.jpg", "a/1.jpg"]
        assert files.read("2.jpg") == b"one"
    os.mkfifo(tmp_path / "pipe.jpg")
    with pytest.raises(DataError, match="neither a file nor a folder"), open_files(tmp_path, anything):
        pass


def test_what_is_no_source_is_refused(tmp_path):
    (tmp_path / "x.rar").write_bytes(b"Rar!")
    with pytest.raises(DataError, match="neither a folder nor an archive"), open_files(tmp_path / "x.rar", anything):
        pass
    with pytest.raises(DataError, match="no file or folder"), open_files(tmp_path / "absent", anything):
        pass
