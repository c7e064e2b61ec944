"""CAT12's tables of regions by their older and newer names: the same measures, in cubic millimetres."""

import numpy as np
import pytest

from neurocontrast import index
from neurocontrast.data.measures import read_tables
from tests.reports.folders import write_people

PEOPLE = [f"sub-{number:02d}" for number in range(1, 5)]
VOLUMES_ML = {"lAmy": 1.0, "lHip": 3.2, "rHip": 3.3, "lIns": 6.8}


def write_table(path, typical, *, delimiter=","):
    random = np.random.default_rng(5)
    lines = [delimiter.join(["names", *typical])]
    for person in PEOPLE:
        values = [f"{value * random.normal(1, 0.08):.4f}" for value in typical.values()]
        lines.append(delimiter.join([f"{person}_T1w", *values]))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("measure", ["Vgm", "Vwm", "Vcsf"])
@pytest.mark.parametrize("atlas", ["lpba40", "thalamic_nuclei", "my_atlas"])
@pytest.mark.parametrize("delimiter", [",", ";"])
def test_volumes_are_alike_by_both_names(tmp_path, atlas, measure, delimiter):
    for prefix in ("ROI", "ROI_catROI", "study_ROI"):
        path = tmp_path / prefix / f"{prefix}_{atlas}_{measure}.csv"
        write_table(path, VOLUMES_ML, delimiter=delimiter)
    new, old, prefixed = (read_tables(tmp_path / name) for name in
                          ("ROI", "ROI_catROI", "study_ROI"))  # fmt: skip
    assert new.values.equals(old.values)
    assert new.values.equals(prefixed.values)
    assert new.atlas == old.atlas
    assert (new.software, new.values.index[0]) == ("CAT12", ("sub-01", ""))
    assert 2_000 < new.values[f"lHip_{measure}"].median() < 5_000


def test_thicknesses_of_surfaces_are_alike_by_both_names(tmp_path):
    for name in ("ROI_aparc_DK40_thickness.csv", "ROI_catROIs_aparc_DK40_thickness.csv"):
        write_table(tmp_path / name[:8] / name, {"lbankssts": 2.5, "rcuneus": 1.9})
    new = read_tables(tmp_path / "ROI_apar")
    old = read_tables(tmp_path / "ROI_catR")
    assert new.values.equals(old.values)
    assert new.kinds == {"lh_bankssts_thickness": "thickness", "rh_cuneus_thickness": "thickness"}


def test_one_atlas_of_several_is_taken_and_another_chosen(tmp_path):
    write_table(tmp_path / "cat" / "ROI_neuromorphometrics_Vgm.csv", VOLUMES_ML)
    write_table(tmp_path / "cat" / "ROI_cobra_Vgm.csv", {"lCA1": 0.9, "rCA1": 0.9})
    write_people(tmp_path / "people.tsv", PEOPLE, np.random.default_rng(0))
    options = {"phenotypes": [tmp_path / "people.tsv"], "overwrite": True}
    found = index(tmp_path / "cat", tmp_path / "participants.tsv", **options)
    assert "'neuromorphometrics' is taken; not 'cobra'" in " ".join(found.measures.notes)
    found = index(
        tmp_path / "cat", tmp_path / "participants.tsv", choose=["atlas=cobra"], **options
    )
    assert list(found.measures.values) == ["lCA1_Vgm", "rCA1_Vgm"]


def test_a_table_of_another_program_with_roi_in_its_name_is_not_scaled(tmp_path):
    columns = {"Left-Hippocampus": 4000.0, "Right-Hippocampus": 4100.0, "Left-Putamen": 5000.0}
    columns |= {"Right-Putamen": 5000.0, "Left-Amygdala": 1600.0}
    write_table(tmp_path / "ROI_freesurfer_volumes.csv", columns)
    values = read_tables(tmp_path).values
    assert 3_000 < values["Left-Hippocampus"].median() < 5_000
