"""The list of planted faults does not rot; `make faults` tells whether the tests find them."""

import ast
import functools
import subprocess
import sys

import pytest

from tests.faults.plant import LIST, ROOT, read_faults


@functools.cache
def statements_of(path: str) -> list[ast.stmt]:
    return ast.parse((ROOT / "tests" / path).read_text()).body


def test_every_fault_can_be_planted_where_it_says():
    faults = read_faults()
    assert len({(fault.file, fault.old, fault.new) for fault in faults}) == len(faults) >= 100
    for fault in faults:
        content = (ROOT / "neurocontrast" / fault.file).read_text()
        assert content.count(fault.old) == 1, f"{fault.file}: '{fault.old}'"
        assert fault.new != fault.old
        assert fault.why
        ast.parse(content.replace(fault.old, fault.new), fault.file)
        assert fault.tests, fault.why
        for test in fault.tests:
            path, *names = test.split("::")
            body = statements_of(path)
            for name in names:
                body = next(each.body for each in body if getattr(each, "name", None) == name)


@pytest.mark.slow
def test_a_fault_that_tests_find_is_told_from_one_that_they_do_not(tmp_path):
    header, *_ = LIST.read_text().splitlines()
    rows = [
        ("seeds.py", "_LOW = 0xFFFFFFFF", "_LOW = 0xFFFFFFFE", "other numbers", "test_seeds.py"),
        ("seeds.py", "_LOW = 0xFFFFFFFF", "_LOW = 4294967295", "the same number", "test_seeds.py"),
    ]
    (tmp_path / "list.tsv").write_text(
        "\n".join([header, *("\t".join(row) for row in rows)]) + "\n"
    )
    command = [sys.executable, ROOT / "tests/faults/plant.py", "--list", tmp_path / "list.tsv"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert "1 of 2 faults found" in done.stdout
    assert "not found: seeds.py: the same number" in done.stdout
