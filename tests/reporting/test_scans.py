from __future__ import annotations

import nibabel
import numpy as np
import pandas as pd
import pytest

from neurocontrast.reporting.figures.volumes import draw_scan


def head(shape=(20, 24, 18)):
    grid = np.stack(np.meshgrid(*(np.linspace(-1, 1, size) for size in shape), indexing="ij"))
    return np.exp(-3 * (grid**2).sum(axis=0)).astype(np.float32)


def write(path, volume, affine=None):
    nibabel.save(nibabel.Nifti1Image(volume, np.diag([4.0, 4, 4, 1]) if affine is None else affine), path)
    return path


def test_nifti_of_any_orientation(tmp_path):
    path = write(tmp_path / "las.nii.gz", head()[..., None], np.diag([-4.0, 4, 4, 1]))
    picture = draw_scan(path, name="scan_1", label="Scan 1")
    assert picture.caption == "Scan 1. 20 × 24 × 18 voxels of 4, 4, 4 mm."
    assert b"<svg" in picture.encode("svg")


def test_npy(tmp_path):
    np.save(tmp_path / "volume.npy", head()[None])
    assert draw_scan(tmp_path / "volume.npy", name="scan_1", label="Scan 1").alt.endswith("of Scan 1.")


def test_no_pyplot_figure_is_left_open(tmp_path):
    draw_scan(write(tmp_path / "a.nii", head()), name="scan_1", label="Scan 1")
    from matplotlib import pyplot

    assert pyplot.get_fignums() == []


@pytest.mark.parametrize("volume", [np.zeros((8, 8, 8)), np.full((8, 8, 8), np.nan), np.ones((8, 8, 8, 3))])
def test_what_cannot_be_shown(tmp_path, volume):
    path = write(tmp_path / "a.nii", volume.astype(np.float32))
    with pytest.raises(ValueError, match=r"contrast|dimensions"):
        draw_scan(path, name="scan_1", label="Scan 1")


def test_scans_on_the_page(tmp_path, make, render, parse):
    folder = make.make_binary(tmp_path / "e", n_boot=5)
    write(tmp_path / "good.nii.gz", head())
    (tmp_path / "broken.nii.gz").write_bytes(b"not a volume")
    rows = [("sub-0000", "good.nii.gz"), ("sub-0001", "broken.nii.gz"), ("sub-0002", "absent.nii.gz")]
    table = pd.DataFrame(
        [
            {"participant_id": name, "session": "", "site": "site-01", "path": str(tmp_path / file)}
            for name, file in rows
        ]
    )
    table.to_csv(folder / "scans.tsv", sep="\t", index=False)
    page = parse.Page(render(folder))
    assert "Simulated scan 1, site: site-01, diagnosis:" in page.text
    assert "1 scan, not where the evaluation found it" in page.text
    assert "1 scan, not readable as a volume" in page.text
    assert str(tmp_path) not in page.text
