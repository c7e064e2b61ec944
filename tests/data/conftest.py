"""Synthetic tables for the tests of the data package."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from neurocontrast.data.cache import VolumeCache

sys.path.insert(0, str(Path(__file__).parent))  # tests are imported by path; this lets them share `cached_scans`


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


@pytest.fixture
def scans(brain, write_nifti):
    generator = np.random.default_rng(0)
    return [
        str(
            write_nifti(
                brain + (brain > 0) * generator.normal(0, 50, brain.shape).astype(np.float32), f"scan{i}.nii.gz"
            )
        )
        for i in range(5)
    ]


@pytest.fixture
def cache(tmp_path):
    from cached_scans import CONTRACT

    return VolumeCache(tmp_path / "cache", CONTRACT)
