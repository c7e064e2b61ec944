"""Files appear whole or not at all."""

import hashlib
import json
import os
import stat
import subprocess
import sys

import pandas as pd
import pytest

from neurocontrast.exceptions import ConfigError
from neurocontrast.files import (
    atomic_folder,
    atomic_path,
    check_output_file,
    check_output_folder,
    digest_of,
    digest_of_file,
    write_json,
    write_table,
    write_text,
)


def test_what_is_written_is_whole_and_leaves_nothing_beside_it(tmp_path):
    write_text(tmp_path / "new" / "a.txt", "é\n")
    write_table(tmp_path / "new" / "t.tsv", pd.DataFrame({"site": ["a", "b"], "n": [1, None]}))
    assert (tmp_path / "new" / "a.txt").read_text(encoding="utf-8") == "é\n"
    assert (tmp_path / "new" / "t.tsv").read_text() == "site\tn\na\t1.0\nb\t\n"
    assert {path.name for path in (tmp_path / "new").iterdir()} == {"a.txt", "t.tsv"}


def interrupted(write, path):
    with write(path) as temporary:
        (temporary / "a.txt" if temporary.is_dir() else temporary).write_text("half")
        raise RuntimeError("midway")


def test_failure_keeps_what_was_there_and_removes_the_temporary_one(tmp_path):
    for write, name, content in (
        (atomic_path, "a.txt", "a.txt"),
        (atomic_folder, "out", "out/a.txt"),
    ):
        write_text(tmp_path / content, "before")
        with pytest.raises(RuntimeError, match="midway"):
            interrupted(write, tmp_path / name)
        assert (tmp_path / content).read_text() == "before"
    assert {path.name for path in tmp_path.iterdir()} == {"a.txt", "out"}


def test_permissions_follow_the_umask(tmp_path):
    old = os.umask(0o027)
    try:
        write_text(tmp_path / "a.txt", "x")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == 0o640


def test_json_refuses_nan_and_leaves_no_file(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "a.json", {"auc": float("nan")})
    assert list(tmp_path.iterdir()) == []
    write_json(tmp_path / "a.json", {"site": "Århus"})
    assert json.loads((tmp_path / "a.json").read_text(encoding="utf-8")) == {"site": "Århus"}


def test_digest_depends_on_the_boundaries_of_its_parts():
    assert digest_of("ab", "c") != digest_of("a", "bc")
    assert digest_of("a") == digest_of("a")
    assert len(digest_of()) == 32


def test_file_digest_is_sha256(tmp_path):
    (tmp_path / "a").write_bytes(b"brain")
    assert digest_of_file(tmp_path / "a") == hashlib.sha256(b"brain").hexdigest()


KILLED = """
import os, pathlib, shutil, sys
from neurocontrast import files
out, n_renames = pathlib.Path(sys.argv[1]), int(sys.argv[2])
os.chdir(out.parent)
real = pathlib.Path.rename
def rename(path, target):
    global n_renames
    if not n_renames:
        os._exit(9)
    n_renames -= 1
    return real(path, target)
pathlib.Path.rename = rename
with files.atomic_folder(out) as temporary:
    for name in "ac":
        (temporary / name).write_text("new")
    (temporary / "scratch").mkdir()
"""
"""Writes a folder and ends, as by a kill, before the rename of that number."""


def test_what_a_killed_writer_left_is_swept_and_no_folder_is_lost(tmp_path):
    out = tmp_path / "out"
    seen = set()
    for n_renames in range(3):
        out.mkdir()
        for name in "ab":
            (out / name).write_text("old")
        done = subprocess.run(
            [sys.executable, "-c", KILLED, out, str(n_renames)], check=False
        ).returncode
        check_output_folder(
            out.parent / "other", overwrite=False, marker="", what=""
        )  # sweeps nothing of `out`
        left = list(tmp_path.rglob(".tmp-*"))
        assert bool(left) == bool(done)
        with pytest.raises(ConfigError, match="is not empty"):
            check_output_folder(out, overwrite=False, marker="", what="")
        found = {path.name: path.read_text() for path in out.iterdir() if path.is_file()}
        assert found in ({"a": "old", "b": "old"}, {"a": "new", "c": "new"})
        assert not list(tmp_path.rglob(".tmp-*"))
        seen.add(found["a"])
        (tmp_path / "out").rename(tmp_path / f"done-{n_renames}")
    assert seen == {"old", "new"}


def test_the_folder_one_works_in_gets_the_new_entries(tmp_path, monkeypatch):
    out = tmp_path / "out"
    out.mkdir()
    monkeypatch.chdir(out)
    (out / "old.txt").write_text("old")
    with atomic_folder(out) as temporary:
        (temporary / "new.txt").write_text("new")
    assert [path.name for path in out.iterdir()] == ["new.txt"]
    (out / ".tmp-out-0123456789ab-replaced").mkdir()  # as a kill leaves it
    (out / ".tmp-out-0123456789ab-replaced" / "earlier.txt").write_text("earlier")
    with pytest.raises(ConfigError, match="is not empty"):
        check_output_folder(out, overwrite=False, marker="", what="")
    assert sorted(path.name for path in out.iterdir()) == ["earlier.txt", "new.txt"]


def test_files_of_killed_writers_are_swept(tmp_path):
    dead = [
        f".tmp-0123456789ab-{name}" for name in ("p.tsv", "p.json", ".tmp-ba9876543210-p.jsonl")
    ]
    kept = [".tmp-0123456789ab-others.tsv", ".tmp-short-p.tsv", "p.csv"]
    for name in (*dead, *kept):
        (tmp_path / name).write_text("half")
    check_output_file(tmp_path / "p.tsv", ".tsv", overwrite=False)
    assert {path.name for path in tmp_path.iterdir()} == {*kept}


def test_only_an_output_of_the_same_kind_is_replaced(tmp_path):
    folder = tmp_path / "out"

    def check(overwrite):
        check_output_folder(
            folder, overwrite=overwrite, marker="evaluation.json", what="an evaluation"
        )

    check(overwrite=False)
    folder.mkdir()
    check(overwrite=False)
    (folder / "thesis.tex").write_text("x")
    with pytest.raises(ConfigError, match="overwrite=True"):
        check(overwrite=False)
    with pytest.raises(ConfigError, match="is not an evaluation"):
        check(overwrite=True)
    (folder / "evaluation.json").write_text("{}")
    check(overwrite=True)
    folder = tmp_path / "file"
    folder.write_text("x")
    with pytest.raises(ConfigError, match="must be a folder"):
        check(overwrite=True)
