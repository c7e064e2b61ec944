"""Tables of regional measures are read as one: names and identifiers alike, contradictions refused."""

import numpy as np
import pandas as pd
import pytest

from neurocontrast.cli import run
from neurocontrast.config import load_config
from neurocontrast.data.measures import read_measures, read_tables, rows_of
from neurocontrast.exceptions import ConfigError, DataError


@pytest.fixture
def table(tmp_path):
    def write(text, name="measures.tsv"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_a_plain_table_is_read_by_region_and_scan(table):
    path = table(
        "participant_id\tage\tlh_G&S_paracentral_thickness\tLeft-Hippocampus\tscore\n"
        "sub-02\t30\t2.5\t4000.5\t1\n"
        "sub-01_ses-2\t31\tn/a\t3900\t2\n"
    )
    found = read_tables(path)
    assert found.values.index.tolist() == [("sub-01", "2"), ("sub-02", "")]
    assert found.kinds == {
        "lh_G_and_S_paracentral_thickness": "thickness",
        "Left-Hippocampus": "volume",
    }
    np.testing.assert_array_equal(found.values, [[np.nan, 3900], [2.5, 4000.5]])
    assert (found.atlas, found.sources) == ("aparc.a2009s+aseg", (path,))
    assert found.notes == ("measures.tsv: left out 'age', 'score': no known region.",)
    assert read_tables(path, keep=["score"]).values["score"].tolist() == [2, 1]


def test_equal_values_of_two_tables_merge_and_others_are_refused(table):
    one = table("participant_id\teTIV\tLeft-Caudate\nsub-01\t1560838.764\t3500\n", "one.tsv")
    two = table(
        "participant_id,EstimatedTotalIntraCranialVol,BrainSegVol\nsub-01,1.56084e+06,1200000\n",
        "two.csv",
    )
    assert list(read_tables([one, two]).values) == [
        "EstimatedTotalIntraCranialVol",
        "Left-Caudate",
        "BrainSegVol",
    ]
    table("participant_id,eTIV\nsub-01,1570000\n", "two.csv")
    with pytest.raises(
        DataError,
        match=r"sub-01.*EstimatedTotal.*1\.56084e\+06 in one\.tsv and 1\.57e\+06 in two\.csv",
    ):
        read_tables([one, two])


def test_all_that_is_wrong_is_told_at_once(table):
    path = table(
        "participant_id\tLeft-Caudate\nsub-01\tabc\nsub-02\t-999\n\t3500\nsub-03\t3500\nsub-03/\t3500\n"
    )
    with pytest.raises(DataError) as error:
        read_tables(path)
    for text in (
        "4 problems",
        "line 2, sub-01, column 'Left-Caudate': found 'abc'; a number",
        "line 3, sub-02, column 'Left-Caudate': found '-999'; a volume is not below 0",
        "line 4: found no identifier",
        "line 6, sub-03: the scan has an earlier row",
    ):
        assert text in str(error.value)


def test_rows_are_found_by_participant_and_session(table):
    measures = read_tables(
        table(
            "participant_id\tsession\tLeft-Caudate\nsub-01\tn/a\t1000\n02\t1\t2000\nsub-02\t2\t2100\nsub-03\t1\t3000\n"
            "sub-04\tn/a\t4000\n"
        )
    )
    found = rows_of(
        measures,
        ["01", "sub-02", "sub-02", "sub-03", "sub-04", "sub-04", "5"],
        ["1", "2", "1", "", "1", "2", ""],
    )
    assert found.values["Left-Caudate"].fillna(0).tolist() == [1000, 2100, 2000, 3000, 0, 0, 0]
    assert found.lacking.tolist() == [
        4,
        5,
        6,
    ]  # one row without session is of neither of two sessions
    assert found.not_asked == ["sub-04"]


@pytest.mark.parametrize(
    ("column", "value", "seems"),
    [
        (
            "Left-Hippocampus",
            4.0,
            r"'Left-Hippocampus' should be in mm³, .* 4,000 .* 4\. .* in mL \(cm³\)\. Convert",
        ),
        ("eTIV", 1.5, "in L"),
        ("lh_cuneus_thickness", 2500, "in µm"),
        ("lh_cuneus_thickness", 0.25, "in cm"),
        ("rh_WhiteSurfArea_area", 900, "in cm²"),
        ("Left-Hippocampus", 0.0027, "in L, or a share of the head"),
        ("Left-Hippocampus", 0.1, "in no unit: standardised, perhaps"),
    ],
)
def test_another_unit_is_refused_by_name_and_never_converted(table, column, value, seems):
    with pytest.raises(DataError, match=seems):
        read_tables(table(f"participant_id\t{column}\nsub-01\t{value}\n"))


def test_participants_are_one_with_and_without_their_prefix(table):
    one = table("participant_id\tLhippo\nsub-01\t4000\n", "one.tsv")
    two = table("ID\tRhippo\n01\t4100\n", "two.tsv")
    found = read_tables([one, two]).values
    assert found.index.tolist() == [("sub-01", "")]
    assert found.to_dict("records") == [{"Left-Hippocampus": 4000, "Right-Hippocampus": 4100}]


def test_a_thickness_of_zero_is_missing_and_said(table):
    rows = "participant_id\tlh_cuneus_thickness\tCSF\nsub-01\t0\t0\nsub-02\t2.5\t900\n"
    found = read_tables(table(rows), measure="area")
    assert found.values["lh_cuneus_thickness"].isna().tolist() == [True, False]
    assert found.values["CSF"].tolist() == [0, 900]
    assert "all its measures are taken" in found.notes[0]
    assert "1 thicknesses are 0" in found.notes[1]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (
            "a.tsv",
            "participant_id\tage\nsub-01\t3\n",
            "no column is a regional measure that is known.*left out 'age'",
        ),
        (
            "a.tsv",
            "participant_id\tone\ttwo\tname\na\t007\tinf\tx\nb\t008\t3\t1\n",
            r"left out 'one', 'two': no",
        ),
        ("a.tsv", "age\tLhippo\n3\t4000\n", "no column of identifiers"),
        (
            "a.tsv",
            "Measure:volume\tCSF\tLeft-Caudate\nsub-1\t40",
            "line 2 does not have the 3 cells of the header",
        ),
        ("a.tsv", "Measure:volume\tCSF\tCSF\nsub-1\t40\t50\n", "the header names 'CSF' 2 times"),
        (
            "a.tsv",
            "participant_id\tsession\tLhippo\nsub-1_ses-1\t2\t4000\n",
            "found 'sub-1_ses-1' in session '2'",
        ),
        ("aseg.stats", "# ColHeaders A\n", "statistics lie in SUBJECT/stats"),
        ("catROI_a.xml", '<!DOCTYPE l [<!ENTITY a "b">]><S>&a;</S>', "it holds declarations"),
        (
            "catROI_a.xml",
            "<S><n><names><item>a</item></names><data><Vgm>[1;2]</Vgm></data></n></S>",
            "1 names and 2 values",
        ),
        (
            "catROI_a.xml",
            "<S><n><names><item>a</item></names><data><Vgm>[1]</Vgm><Vgm>[2]</Vgm></data></n></S>",
            "n has Vgm twice",
        ),
        ("sub-1_preproc-cat12vbm_desc-gm_ROI.npy", "x", "no folder 'resource' above it"),
    ],
)
def test_damaged_and_foreign_files_are_refused_by_name(table, name, content, said):
    with pytest.raises(DataError, match=rf"{name}: (?s:.*){said}"):
        read_tables(table(content, name))


def test_a_proportion_without_logarithms_is_refused_by_the_settings():
    with pytest.raises(
        ConfigError, match="'proportion' is a difference of logarithms; set log_volumes to true"
    ):
        load_config(
            "measures",
            ["data.kind=measures", "data.head_size=proportion", "data.log_volumes=false"],
        )


@pytest.mark.parametrize("command", [["check"], ["qc", "--out", "quality"]])
def test_who_asks_to_check_people_without_images_hears_what_reads_measures(
    command, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.tsv").write_text("participant_id\tage\tsex\nsub-1\t30\tF\n")
    assert run([command[0], "people.tsv", *command[1:]]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert (
        "People with regional measures and no images are read by index, pretrain, embed and predict"
        in said
    )
    assert [path.name for path in tmp_path.iterdir()] == ["people.tsv"]


@pytest.mark.parametrize(
    ("described", "program"),
    [
        ('"FreeSurfer 7.4"', "FreeSurfer 7.4"),
        ("null", "FreeSurfer 6.0"),
        ('{"Description": "program and version"}', "FreeSurfer 6.0"),
    ],
)
def test_a_json_file_names_the_software_or_describes_its_column(table, described, program):
    path = table("participant_id\tsoftware\tLeft-Hippocampus\nsub-1\tFreeSurfer 6.0\t4000\n")
    table(f'{{"software": {described}}}', "measures.json")
    found = read_tables(path)
    assert set(found.versions.values()) == {"FreeSurfer 6.0"}
    assert program in found.software
    assert "Description" not in found.software


def test_software_of_a_json_file_that_is_no_text_is_refused(table):
    path = table("participant_id\tLeft-Hippocampus\nsub-1\t4000\n")
    file = table('{"software": {"Description": "program"}}', "measures.json")
    with pytest.raises(DataError, match=f"{file}: 'software' must be text, found") as error:
        read_tables(path)
    assert "\n" not in str(error.value)


def test_regions_of_one_name_in_two_atlases_are_told(tmp_path):
    people = []
    for letter, head in (("a", "lh.aparc.thickness"), ("b", "lh.aparc.DKTatlas.mapped.thickness")):
        names = [f"{letter}{number}" for number in range(8)]
        values = 2 + np.arange(8) / 10
        table = pd.DataFrame(
            {head: names, "lh_cuneus_thickness": values, "lh_insula_thickness": 3.0}
        )
        table.to_csv(tmp_path / f"{letter}.tsv", sep="\t", index=False)
        people += names
    paths = [tmp_path / "a.tsv", tmp_path / "b.tsv"]
    (warning,) = read_measures(pd.DataFrame({"participant_id": people}), paths).warnings
    assert "b.tsv: 'lh_cuneus_thickness' is of the atlas aparc.DKTatlas.mapped" in warning
    assert "of aparc in a.tsv" in warning
    alone = pd.DataFrame({"participant_id": people[:8]})
    assert read_measures(alone, paths[0]).warnings == ()
