"""Synthetic scans and tables for the tests of the data package."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest


@pytest.fixture
def brain() -> np.ndarray:
    """A lopsided blob on a zero background, (24, 28, 20), so that no flip or transposition looks like another."""
    x, y, z = np.meshgrid(*(np.linspace(-1, 1, n) for n in (24, 28, 20)), indexing="ij")
    blob = np.clip(1 - (x**2 + y**2 + z**2) / 0.7, 0, None) * (1 + 0.4 * x + 0.3 * y + 0.2 * z)
    return (1000 * blob).astype(np.float32)


@pytest.fixture
def write_nifti(tmp_path: Path) -> Callable[..., Path]:
    """Write voxels given in RAS order as a NIfTI file whose axes are stored as `axes`."""

    def write(
        voxels: np.ndarray, name: str = "scan.nii.gz", *, axes: str = "RAS", spacing: Sequence[float] = (2.0, 2.0, 2.0)
    ) -> Path:
        affine = np.diag([*spacing, 1.0])
        ornt = nib.orientations.ornt_transform(
            nib.orientations.axcodes2ornt("RAS"), nib.orientations.axcodes2ornt(axes)
        )
        image = nib.Nifti1Image(np.asarray(voxels), affine).as_reoriented(ornt)
        image.set_sform(image.affine, 1)
        image.set_qform(image.affine, 1)
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        nib.save(image, path)
        return path

    return write


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
