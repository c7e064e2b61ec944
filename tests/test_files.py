"""Files appear whole or not at all."""

import hashlib
import json
import os
import stat

import pandas as pd
import pytest

from neurocontrast.exceptions import ConfigError
from neurocontrast.files import (
    atomic_folder,
    atomic_path,
    check_output_folder,
    digest_of,
    digest_of_file,
    write_json,
    write_table,
    write_text,
)


def test_written_file_is_complete_and_leaves_nothing_beside_it(tmp_path):
    write_text(tmp_path / "new" / "a.txt", "é\n")
    assert (tmp_path / "new" / "a.txt").read_text(encoding="utf-8") == "é\n"
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["a.txt"]


def test_failure_keeps_the_previous_file_and_removes_the_temporary_one(tmp_path):
    target = tmp_path / "a.txt"
    target.write_text("before")

    def write_half() -> None:
        with atomic_path(target) as temporary:
            temporary.write_text("half")
            raise RuntimeError("midway")

    with pytest.raises(RuntimeError, match="midway"):
        write_half()
    assert target.read_text() == "before"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_temporary_name_keeps_the_ending(tmp_path):
    with atomic_path(tmp_path / "image.nii.gz") as temporary:
        assert temporary.name.endswith(".nii.gz")
        assert temporary.parent == tmp_path
        temporary.write_bytes(b"x")


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


def test_a_folder_takes_the_place_of_the_earlier_one_whole(tmp_path):
    for content in ("first", "second"):
        with atomic_folder(tmp_path / "out") as temporary:
            (temporary / "a.txt").write_text(content)
    assert (tmp_path / "out" / "a.txt").read_text() == "second"
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_a_failing_folder_leaves_the_earlier_one(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a.txt").write_text("before")

    def fail() -> None:
        with atomic_folder(tmp_path / "out") as temporary:
            (temporary / "a.txt").write_text("half")
            raise RuntimeError("midway")

    with pytest.raises(RuntimeError, match="midway"):
        fail()
    assert (tmp_path / "out" / "a.txt").read_text() == "before"
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_only_an_output_of_the_same_kind_is_replaced(tmp_path):
    folder = tmp_path / "out"

    def check(overwrite):
        check_output_folder(folder, overwrite=overwrite, marker="evaluation.json", what="an evaluation")

    check(overwrite=False)
    folder.mkdir()
    check(overwrite=False)
    (folder / "thesis.tex").write_text("x")
    with pytest.raises(ConfigError, match="--overwrite"):
        check(overwrite=False)
    with pytest.raises(ConfigError, match="is not an evaluation"):
        check(overwrite=True)
    (folder / "evaluation.json").write_text("{}")
    check(overwrite=True)
    folder = tmp_path / "file"
    folder.write_text("x")
    with pytest.raises(ConfigError, match="must be a folder"):
        check(overwrite=True)


def test_a_table_is_tab_separated_and_leaves_nothing_beside_it(tmp_path):
    write_table(tmp_path / "t.tsv", pd.DataFrame({"site": ["a", "b"], "n": [1, None]}))
    assert (tmp_path / "t.tsv").read_text() == "site\tn\na\t1.0\nb\t\n"
    assert [path.name for path in tmp_path.iterdir()] == ["t.tsv"]
