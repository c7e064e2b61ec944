"""Synthetic tables and folders of files for the tests of the data package, and the table that `index` makes of them."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from neurocontrast import index
from neurocontrast.data import read_cohort


@pytest.fixture
def write_table(tmp_path: Path) -> Callable[..., Path]:
    """Write lines as a table, and an empty file for every image its last column names."""

    def write(*lines: str, name: str = "participants.tsv", images: bool = True) -> Path:
        path = tmp_path / name
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        if images:
            header = lines[0].split("\t")
            for line in lines[1:]:
                image = dict(zip(header, line.split("\t"), strict=False)).get("path", "")
                if image.endswith((".nii", ".nii.gz", ".npy")):
                    (tmp_path / image).parent.mkdir(parents=True, exist_ok=True)
                    (tmp_path / image).touch()
        return path

    return write


def put(root, path, content="image"):
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(
        content if isinstance(content, str) else json.dumps(content), encoding="utf-8"
    )


def rows(text):
    return "\n".join("\t".join(line.split()) for line in text.strip().splitlines()) + "\n"


def made(root, tmp_path, **options):
    """Index a folder; return the rows of the table by participant and session, and the record."""
    found = index(root, tmp_path / "out" / "participants.tsv", **options)
    table = read_cohort(found.path).table
    record = json.loads((found.path.parent / "index.json").read_text())
    by_scan = {(row["participant_id"], row["session"]): row for row in table.to_dict("records")}
    return by_scan, record
