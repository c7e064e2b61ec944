"""Each format of measures is recognised and read: what programs write becomes one spelling, one unit, one table."""

from pathlib import Path

import pytest

from neurocontrast.data.measures import read_tables
from neurocontrast.data.measures.formats import FORMATS, Format, Sheet
from neurocontrast.data.measures.names import region_of
from neurocontrast.exceptions import DataError

SAMPLE = Path(__file__).resolve().parents[3] / "sample" / "measures"


@pytest.mark.timeout(60)
@pytest.mark.parametrize("column", ["a" * 50_000, " " * 50_000, "_" * 50_000, "a_" * 25_000])
def test_a_name_of_fifty_thousand_characters_is_no_region(column):
    """The time grows with the length of a name, not with its square."""
    assert region_of(column) is None


@pytest.mark.parametrize(
    ("column", "name"),
    [
        ("lh_G&S_frontomargin_thickness", "lh_G_and_S_frontomargin_thickness"),
        (
            "lh.G.S_frontomargin_thickness",
            "lh_G_and_S_frontomargin_thickness",
        ),  # as R makes names of it
        ("G_and_S_frontomargin_thick_L", "lh_G_and_S_frontomargin_thickness"),
        ("Left-Thalamus", "Left-Thalamus-Proper"),
        ("Right.Accumbens.area", "Right-Accumbens-area"),
        ("hippocampus_left", "Left-Hippocampus"),
        ("Lhippo", "Left-Hippocampus"),
        ("X3rd.Ventricle", "3rd-Ventricle"),
        ("eTIV", "EstimatedTotalIntraCranialVol"),
        ("L_bankssts_surfavg", "lh_bankssts_area"),
        ("R_V1_ROI_thickness", "rh_V1_ROI_thickness"),
        ("lAmy_GM_Vol", "lAmy_Vgm"),
        ("wm-lh-bankssts", "wm-lh-bankssts"),
    ],
)
def test_names_are_alike(column, name):
    region = region_of(column)
    assert region is not None
    assert region.name == name
    assert region_of(name) == region  # what was written is read again


def test_what_is_no_region_is_none():
    assert not any(
        map(region_of, ("age", "sex", "BMI", "r_squared", "handedness", "left", "volume"))
    )


TABLE = [
    ["lh.aparc.a2009s.thickness", "lh_G&S_frontomargin_thickness", "lh_G_cuneus_thickness", "BrainSegVol", "eTIV"],
    ["sub-0001", "1.925", "2.046", "1235952.0", "1560838.764254"],
    ["/data/subjects/sub-0002_ses-1/", "2.405", "1.871", "1056970.0", "1115228.151399"],
]  # fmt: skip


@pytest.mark.parametrize("delimiter", ["\t", ",", ";", " "])
@pytest.mark.parametrize("transposed", [False, True])
def test_tables_of_aparcstats2table_are_read_with_any_delimiter_and_transposed(
    tmp_path, delimiter, transposed
):
    rows = [list(row) for row in zip(*TABLE, strict=True)] if transposed else TABLE
    path = tmp_path / "thickness.txt"
    path.write_text("".join(delimiter.join(row) + "\n" for row in rows))
    found = read_tables(path)
    assert found.values.index.tolist() == [("sub-0001", ""), ("sub-0002", "1")]
    assert found.values["lh_G_and_S_frontomargin_thickness"].tolist() == [1.925, 2.405]
    assert found.values["EstimatedTotalIntraCranialVol"].tolist() == [
        1560838.764254,
        1115228.151399,
    ]
    assert (found.kinds["lh_G_cuneus_thickness"], found.atlas) == ("thickness", "aparc.a2009s+aseg")


def test_bare_names_take_hemisphere_and_measure_from_the_first_cell(tmp_path):
    (tmp_path / "rh.txt").write_text("rh.aparc.DKTatlas.area\tcuneus\tinsula\nsub-1\t1500\t2300\n")
    (tmp_path / "aseg.txt").write_text("Measure:mean\tLeft-Hippocampus\tCSF\nsub-1\t74\t40\n")
    found = read_tables([tmp_path / "rh.txt", tmp_path / "aseg.txt"])
    assert list(found.values) == [
        "rh_cuneus_area",
        "rh_insula_area",
        "Left-Hippocampus_mean",
        "CSF_mean",
    ]
    assert found.kinds["Left-Hippocampus_mean"] == "other"
    assert found.atlas == "aparc.DKTatlas+aseg"


def test_a_folder_of_subjects_is_read_one_atlas_and_measure_at_a_time(subject):
    subject("sub-01")
    folder = subject("sub-02_ses-1", mean=2.25, hippocampus=3900)
    subject("fsaverage")
    subject("sub-02_ses-1.long.sub-02")
    found = read_tables(folder)
    assert found.values.index.tolist() == [("sub-01", ""), ("sub-02", "1")]
    assert found.values["lh_G_and_S_frontomargin_thickness"].tolist() == [2.5, 2.25]
    assert found.values["Left-Hippocampus"].tolist() == [4280.4, 3900]
    assert found.values["EstimatedTotalIntraCranialVol"].tolist() == [1500000, 1500000]
    assert (found.kinds["SurfaceHoles"], found.software) == ("other", "FreeSurfer 7.1.1")
    assert "'aparc.a2009s' is taken; not 'aparc', 'aparc.DKTatlas'" in found.notes[0]
    everything = read_tables(folder, atlas="aparc", measure="all")
    assert everything.atlas == "aparc+aseg"
    assert everything.values["rh_bankssts_volume"].tolist() == [2000, 2000]
    assert everything.values["lh_WhiteSurfArea_area"].tolist() == [85000.1, 85000.1]
    with pytest.raises(DataError, match=r"no atlas 'aparc2009'\. Did you mean 'aparc.a2009s'"):
        read_tables(folder, atlas="aparc2009")
    with pytest.raises(
        DataError, match=r"no measure 'thicknes' of the cortex\. Did you mean 'thickness'"
    ):
        read_tables(folder, measure="thicknes")


def test_a_scan_that_two_files_hold_is_refused_with_the_name_of_the_second(subject):
    stats = subject("sub-2", atlases=()) / "sub-2" / "stats"
    subject("2", atlases=())
    with pytest.raises(DataError, match=r"/sub-2/stats/aseg\.stats: the scan has an earlier row"):
        read_tables(stats.parents[1])


def test_versions_of_programs_are_told(subject):
    subject(
        "sub-1",
        version="cvs_version $Id: mri_segstats.c,v 1.121 2016/05/31 17:27:11 greve Exp $",
        atlases=(),
    )
    assert read_tables(
        subject("sub-2", version="FastSurfer_version 2.4.2", atlases=())
    ).software == ("FastSurfer 2.4.2; FreeSurfer 6")


def test_fastsurfers_segmentation_is_read_where_it_is_alone(subject):
    folder = subject("sub-1", atlases=())
    stats = folder / "sub-1" / "stats"
    (stats / "aseg.stats").rename(stats / "aseg+DKT.stats")
    with open(stats / "aseg+DKT.stats", "a") as stream:
        stream.write("  3  1002  2000  2000.5  ctx-lh-cuneus  70  8  32  110  78\n")
    assert read_tables(folder).values["ctx-lh-cuneus"].tolist() == [2000.5]


def test_cat12s_tables_and_xml_become_cubic_millimetres(tmp_path):
    (tmp_path / "ROI_catROI_neuromorphometrics_Vgm.csv").write_text(
        "names,lHip,rHip\nsub-01_T1w,3.25,3.5\n"
    )
    xml = (
        "<S><neuromorphometrics><names><item>lHip</item><item>rHip</item></names><ids>[1;2]</ids>"
        "<data><Vgm>[3.25;3.5]</Vgm><Vcsf>[0.5;0.25]</Vcsf></data></neuromorphometrics>"
        "<cobra><names><item>lHip</item></names><data><Vgm>[9]</Vgm></data></cobra></S>"
    )
    (tmp_path / "catROI_sub-01_T1w.xml").write_text(xml)
    found = read_tables(tmp_path)
    assert found.values.to_dict("records") == [
        {"lHip_Vgm": 3250, "rHip_Vgm": 3500, "lHip_Vcsf": 500, "rHip_Vcsf": 250}
    ]
    assert (found.atlas, found.software) == ("neuromorphometrics", "CAT12")
    (tmp_path / "catROIs_sub-01_T1w.xml").write_text(
        "<S><aparc_DK40><names><item>lbankssts</item></names><data><thickness>[2.5]</thickness></data></aparc_DK40></S>"
    )
    assert read_tables(tmp_path, atlas="aparc_DK40").values["lh_bankssts_thickness"].tolist() == [
        2.5
    ]


def test_brainpreps_table_is_in_millilitres(tmp_path):
    path = tmp_path / "cat12_vbm_roi.tsv"
    names = ["lHip_GM_Vol", "rHip_GM_Vol", "lAmy_GM_Vol", "lHip_CSF_Vol", "rHip_CSF_Vol"]
    path.write_text(
        "\t".join(["participant_id", "session", "TIV", *names])
        + "\n01\t1\t1500\t3.2\t3.1\t0.9\t0.5\t0.5\n"
    )
    assert read_tables(path).values["lHip_Vgm"].tolist() == [3200]


def test_openbhbs_arrays_are_named_by_its_resources(openbhb):
    folder, add_json = openbhb
    desikan = [
        folder
        / "train"
        / "derivatives"
        / "sub-100000000002_preproc-freesurfer_desc-desikan_ROI.npy"
    ]
    assert read_tables(desikan).values.to_dict("records") == [
        {
            "lh_bankssts_area": 1000,
            "rh_bankssts_area": 1101,
            "lh_bankssts_thickness": 2.5,
            "rh_bankssts_thickness": 2.25,
        }
    ]
    with pytest.raises(
        DataError, match=r"there is no 'cat12vbm_labels\.txt', which names the columns"
    ):
        read_tables(folder, atlas="neuromorphometrics")
    add_json()
    found = read_tables(folder, atlas="neuromorphometrics")
    assert found.values["lHip_Vcsf"].tolist() == [500, 1500]


def test_freesurfers_own_tables_of_226_people_are_read_whole():
    found = read_tables(SAMPLE)
    assert found.values.shape == (226, 216)
    assert not found.values.isna().any(axis=None)
    assert [
        sum(kind == each for kind in found.kinds.values()) for each in ("thickness", "volume")
    ] == [150, 61]
    assert found.notes == ()


def semicolons(paths):
    """Read a format from outside the package: names and values of one scan a file, between semicolons."""
    rows = [dict(cell.split("=") for cell in path.read_text().split(";")) for path in paths]
    cells = {name: [row[name] for row in rows] for name in rows[0]}
    return [Sheet(paths[0].parent, [path.stem for path in paths], cells, atlas="mine")]


def test_a_format_from_outside_the_package_is_read(tmp_path, monkeypatch):
    mine = Format(lambda path, _: "mine" if path.suffix == ".scan" else None, semicolons)
    monkeypatch.setitem(FORMATS, "semicolons", mine)
    (tmp_path / "sub-01.scan").write_text("lh_one_thickness=2.5;Lhippo=4000")
    found = read_tables(tmp_path / "sub-01.scan")
    assert found.values.to_dict("records") == [{"lh_one_thickness": 2.5, "Left-Hippocampus": 4000}]
    assert found.atlas == "aseg+mine"
