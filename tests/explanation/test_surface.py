"""Values of regions on the cortex: from annotations of fsaverage5 to a picture."""

import matplotlib.image
import numpy as np
import pytest
from nibabel.freesurfer import write_annot

from neurocontrast.exceptions import ConfigError
from neurocontrast.explanation.surface import (
    N_VERTICES,
    draw_regions,
    find_annotations,
    values_of_vertices,
)

NAMES = ["unknown", "superiorfrontal", "insula"]


def write_atlas(folder, *, n_vertices=N_VERTICES, name="aparc", names=NAMES):
    """Write a parcellation of three bands, the first of no region; the last vertex is of none."""
    folder.mkdir(exist_ok=True)
    labels = np.arange(n_vertices) * len(names) // n_vertices
    labels[-1] = -1
    colours = np.array(
        [[60 * k, 20, 20, 0, 60 * k + 20 * 256 + 20 * 65536] for k in range(len(names))]
    )
    for side in ("lh", "rh"):
        write_annot(folder / f"{side}.{name}.annot", labels, colours, names)
    return folder


def test_each_vertex_has_the_value_of_its_region_and_hemisphere(tmp_path):
    labels = find_annotations(write_atlas(tmp_path / "label"), "aparc")
    values = {
        "lh_superiorfrontal_thickness": 0.5,
        "rh_insula_thickness": -1.0,
        "rh_insula_volume": 9.0,
    }
    found = values_of_vertices(values, labels, "thickness")
    band = N_VERTICES // 3
    assert np.isnan(found["lh"][:band]).all()
    assert (found["lh"][band + 1 : 2 * band] == 0.5).all()
    assert np.isnan(found["lh"][2 * band + 2 :]).all()
    assert (found["rh"][2 * band + 2 : -1] == -1.0).all()
    assert np.isnan(found["rh"][-1])


@pytest.mark.slow
def test_a_picture_has_a_row_for_each_kind_of_measure(tmp_path):
    labels = find_annotations(write_atlas(tmp_path / "label"), "aparc")
    assert draw_regions(
        {"lh_insula_thickness": 0.4, "rh_insula_volume": -0.2}, labels, tmp_path / "two.png"
    )
    assert draw_regions({"lh_insula_thickness": 0.4}, labels, tmp_path / "one.png")
    two, one = (matplotlib.image.imread(tmp_path / f"{name}.png") for name in ("two", "one"))
    assert two.shape[0] > 1.5 * one.shape[0]
    assert np.ptp(one) > 0
    assert not draw_regions({"Left-Amygdala": 0.4}, labels, tmp_path / "none.png")
    assert not (tmp_path / "none.png").exists()


def test_the_atlas_is_freesurfers_by_default_and_may_be_absent(tmp_path, monkeypatch):
    monkeypatch.delenv("FREESURFER_HOME", raising=False)
    assert find_annotations(None, "aparc") is None
    monkeypatch.setenv("FREESURFER_HOME", str(tmp_path))
    assert find_annotations(None, "aparc") is None
    (tmp_path / "subjects" / "fsaverage5").mkdir(parents=True)
    write_atlas(tmp_path / "subjects" / "fsaverage5" / "label", name="aparc.a2009s")
    assert find_annotations(None, "aparc") is None
    assert set(find_annotations(None, "aseg+aparc.a2009s")) == {"lh", "rh"}


def test_a_wrong_folder_or_mesh_is_refused_by_name(tmp_path):
    with pytest.raises(
        ConfigError, match=r"atlas: there is no .*lh\.aparc\.annot and no .*rh\.aparc\.annot"
    ):
        find_annotations(tmp_path, "aparc")
    write_atlas(tmp_path / "fine", n_vertices=40_962)
    with pytest.raises(
        ConfigError, match=r"lh\.aparc\.annot is of a mesh with 40962 vertices; 10242 are needed"
    ):
        find_annotations(tmp_path / "fine", "aparc")
    damaged = write_atlas(tmp_path / "damaged")
    (damaged / "rh.aparc.annot").write_bytes(b"no annotation")
    with pytest.raises(ConfigError, match=r"rh\.aparc\.annot is not a readable annotation"):
        find_annotations(damaged, "aparc")
