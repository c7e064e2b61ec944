"""Synthetic tables for the tests of the data package."""

from collections.abc import Callable
from pathlib import Path

import pytest


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
