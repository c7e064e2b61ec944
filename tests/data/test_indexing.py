"""Folders as hospitals and pipelines leave them, and the one table that comes of them."""

import os

import pandas as pd
import pytest

from neurocontrast import index
from neurocontrast.data import read_cohort
from neurocontrast.exceptions import ConfigError, DataError
from tests.data.conftest import made, put, rows


@pytest.fixture
def bids(tmp_path):
    root = tmp_path / "bids"
    for subject, sessions in (("01", ["1", "2"]), ("02", [None])):
        for session in sessions:
            ses, name = (f"/ses-{session}", f"_ses-{session}") if session else ("", "")
            put(root, f"sub-{subject}{ses}/anat/sub-{subject}{name}_T1w.nii.gz")
            put(root, f"sub-{subject}{ses}/anat/sub-{subject}{name}_T2w.nii.gz")
    put(root, "T1w.json", {"Manufacturer": "Siemens", "MagneticFieldStrength": 3})
    put(root, "sub-02/anat/sub-02_T1w.json", {"ManufacturersModelName": "Prisma"})
    put(root, "sub-01/ses-2/sub-01_ses-2_T1w.json", {"MagneticFieldStrength": 1.5})
    put(
        root,
        "participants.tsv",
        rows("participant_id age sex site\nsub-01 30.5 F london\nsub-02 89+ M paris"),
    )
    put(
        root,
        "derivatives/x/sub-01/ses-1/anat/sub-01_ses-1_desc-preproc_T1w.nii.gz".replace(
            "preproc", "other"
        ),
    )
    return root


@pytest.fixture(autouse=True)
def _folder(tmp_path):
    (tmp_path / "out").mkdir()


def test_bids_becomes_a_cohort(bids, tmp_path):
    found, record = made(bids, tmp_path)
    assert sorted(found) == [("sub-01", "1"), ("sub-01", "2"), ("sub-02", "")]
    assert [found["sub-01", session]["field_strength"] for session in "12"] == [3, 1.5]
    last = found["sub-02", ""]
    assert (last["age"], last["sex"], last["site"]) == (89, "M", "paris")
    assert (last["scanner"], last["field_strength"], last["stage"]) == ("Siemens Prisma", 3, "raw")
    assert last["age_source"] == "participants.tsv"
    assert record["layout"] == "bids"
    assert (record["n_found"], record["n_chosen"], record["left_out"]) == (3, 3, [])


def test_the_more_specific_table_gives_the_age(bids, tmp_path):
    put(bids, "sub-01/sub-01_sessions.tsv", rows("session_id age\nses-1 30.5\nses-2 33.1"))
    put(
        bids,
        "sub-01/ses-2/sub-01_ses-2_scans.tsv",
        rows("filename age\nanat/sub-01_ses-2_T1w.nii.gz 33.5"),
    )
    found, _ = made(bids, tmp_path)
    assert (found["sub-01", "1"]["age"], found["sub-01", "1"]["age_source"]) == (
        30.5,
        "sub-01/sub-01_sessions.tsv",
    )
    assert found["sub-01", "2"]["age"] == 33.5
    assert found["sub-01", "2"]["sex"] == "F"


def test_levels_and_units_are_decoded(bids, tmp_path):
    put(bids, "participants.tsv", rows("participant_id age sex dx\nsub-01 366 1 0\nsub-02 600 2 1"))
    described = {
        "AGE": {"Units": "months"},
        "sex": {"Levels": {"1": "male", "2": "female"}},
        "dx": {"Levels": {"0": "control", "1": {"Description": "patient"}}},
    }
    put(bids, "participants.json", described)
    found, _ = made(bids, tmp_path)
    decoded = [
        tuple(found[key][name] for name in ("age", "sex", "diagnosis")) for key in sorted(found)
    ]
    assert decoded == [(30.5, "M", "control"), (30.5, "M", "control"), (50, "F", "patient")]


def test_a_row_without_a_session_is_of_every_session_and_volumes_in_mm3_become_ml(bids, tmp_path):
    table = (
        "participant_id session_id diagnosis eTIV\nsub-01 n/a AD 1512345.6\nsub-02 n/a CN 1498.7"
    )
    put(bids, "phenotype/visits.tsv", rows(table))
    found, _ = made(bids, tmp_path)
    assert [found["sub-01", session]["diagnosis"] for session in "12"] == ["AD", "AD"]
    assert (found["sub-01", "2"]["tiv"], found["sub-02", ""]["tiv"]) == (1512.3, 1498.7)


def test_a_table_with_other_sessions_of_a_person_alone_is_named(bids, tmp_path):
    table = "participant_id session_id diagnosis\nsub-01 1 AD\nsub-02 m00 CN\nsub-02 m12 AD"
    put(bids, "phenotype/visits.tsv", rows(table))
    found, record = made(bids, tmp_path)
    assert found["sub-01", "1"]["diagnosis"] == "AD"
    assert pd.isna(found["sub-01", "2"]["diagnosis"])
    told = [note for note in record["notes"] if "visits.tsv" in note]
    assert told == [
        "phenotype/visits.tsv: of 2 scans, such as sub-01 ses-2, it has rows of other sessions alone; not joined."
    ]


def test_a_person_with_contradicting_rows_is_left_out_with_all_sessions(bids, tmp_path):
    put(
        bids,
        "participants.tsv",
        rows("participant_id dx\nsub-01 control\nsub-02 control\nsub-01 patient"),
    )
    found, record = made(bids, tmp_path, skip=True)
    assert sorted(found) == [("sub-02", "")]
    assert [each["what"] for each in record["left_out"]] == ["sub-01"]


def test_a_scan_without_session_is_left_out_alone(bids, tmp_path):
    put(bids, "sub-01/anat/sub-01_T1w.nii.gz")
    (bids / "sub-01/anat/sub-01_T1w.json").write_text("{")
    found, record = made(bids, tmp_path, skip=True)
    assert sorted(found) == [("sub-01", "1"), ("sub-01", "2"), ("sub-02", "")]
    assert [each["what"] for each in record["left_out"]] == ["sub-01"]


def test_another_sex_is_kept_as_recorded(bids, tmp_path):
    put(
        bids,
        "participants.tsv",
        rows("participant_id age age_at_scan sex\nsub-01 n/a 30 other\nsub-02 n/a 40 F"),
    )
    found, _ = made(bids, tmp_path)
    assert (found["sub-01", "1"]["sex_recorded"], found["sub-02", ""]["sex"]) == ("other", "F")
    assert [found["sub-01", "1"]["age"], found["sub-02", ""]["age"]] == [
        30,
        40,
    ]  # of the column that holds ages


def test_all_problems_come_at_once_and_nothing_is_written(bids, tmp_path):
    put(bids, "sub-03/anat/sub-03_acq-a_T1w.nii.gz")
    put(bids, "sub-03/anat/sub-03_acq-b_T1w.nii.gz")
    put(bids, "sub-04/anat/sub-04_T1w.nii.gz", "")
    put(
        bids,
        "sub-05/anat/sub-05_T1w.nii.gz",
        "version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
    )
    table = "participant_id age sex\nsub-01 30 F\nsub-02 40 0\nsub-03 50 F\nsub-05 x F\nsub-09 50 F"
    put(bids, "participants.tsv", rows(table))
    put(bids, "phenotype/intake.tsv", rows("participant_id age sex\nsub-01 44 M"))
    with pytest.raises(DataError) as error:
        made(bids, tmp_path)
    text = str(error.value)
    assert "sub-09" not in text
    for expected in (
        "sub-03: 2 images: sub-03_acq-a_T1w.nii.gz, sub-03_acq-b_T1w.nii.gz; decide with --choose acq=a",
        "sub-04/anat/sub-04_T1w.nii.gz: is empty (0 bytes)",
        "sub-04: there is an image, and no table has a row",
        "is a pointer of git-lfs",
        "column 'sex': found '0'; sex is M, F",
        "column 'age': found 'x'",
        "age is '44' in phenotype/intake.tsv and '30' in participants.tsv",
        "sex is 'M' in phenotype/intake.tsv and 'F' in participants.tsv",
    ):
        assert expected in text
    assert list((tmp_path / "out").iterdir()) == []
    found, record = made(bids, tmp_path, skip=True, choose=["acq=none"])
    assert sorted(found) == [("sub-02", "")]
    reasons = {each["what"]: each["reason"] for each in record["left_out"]}
    assert reasons["sub-03/anat/sub-03_acq-a_T1w.nii.gz"] == "not chosen by --choose"
    assert "git-lfs" in reasons["sub-05"]


def test_runs_are_chosen(bids, tmp_path):
    put(bids, "sub-02/anat/sub-02_run-1_T1w.nii.gz")
    put(bids, "sub-02/anat/sub-02_run-10_T1w.nii.gz")
    (bids / "sub-02/anat/sub-02_T1w.nii.gz").unlink()
    with pytest.raises(DataError, match=r"--choose run=first or --choose run=all"):
        made(bids, tmp_path)
    found, _ = made(bids, tmp_path, choose=["run=first"])
    assert found["sub-02", ""]["run"] == 1
    found, _ = made(bids, tmp_path, choose=["run=all"], overwrite=True)
    assert ("sub-02", "run-10") in found


@pytest.mark.parametrize(
    ("name", "table", "message"),
    [
        ("sub-01/sub-01_sessions.tsv", "session_id age\nses-01 30.5\nses-2 33.1",
         r"sub-01 ses-1: the image is of ses-1, and a table has ses-01"),
        ("participants.tsv", "participant_id age exact_age\nsub-01 35-40 36.5\nsub-02 40-45 44",
         r"(?s)found '35-40'.*age_band.*'exact_age' holds numbers"),
        ("participants.tsv", "participant_id interview_age\nsub-01 24+\nsub-02 600",
         r"found '24\+'; an age in months is a number"),
        ("participants.tsv", "participant_id dx\nsub-01 control\nsub-02 control\nsub-01 patient",
         r"line 4.*'control' in line 2, and 'patient' here"),
        ("participants.tsv", "participant_id visit age\nsub-01 1 30\nsub-01 2 30.5\nsub-02 1 30",
         r"line 3.*'30' in line 2, and '30.5' here"),
        ("participants.tsv", "participant_id TIV\nsub-01 1.5\nsub-02 1512,5", r"(?s)'1.5'; the volume .*'1512,5'; the"),
        ("participants.tsv", "participant_id age\nsub-01 30\nsub-002 40",
         r"sub-002 of participants\.tsv and sub-02 differ in zeros"),
    ],
)  # fmt: skip
def test_tables_that_leave_a_doubt_are_refused(bids, tmp_path, name, table, message):
    put(bids, name, rows(table))
    with pytest.raises(DataError, match=message):
        made(bids, tmp_path)


def test_several_data_sets_side_by_side_are_sites(tmp_path):
    root = tmp_path / "all"
    for site in ("london", "paris"):
        put(root, f"{site}/sub-01/anat/sub-01_T1w.nii.gz")
        put(
            root,
            f"{site}/participants.tsv",
            rows(f"participant_id age\nsub-01 {30 if site == 'london' else 50}"),
        )
    found, _ = made(root, tmp_path, site_from="folder")
    assert found["sub-london_01", ""]["site"] == "london"
    assert found["sub-paris_01", ""]["age"] == 50
    put(tmp_path, "dx.csv", "participant_id,dx\n01,AD")
    with pytest.raises(
        DataError, match=r"(?s)row is of sub-paris_01 too; .* as london_01.*sub-london_01 too"
    ):
        made(root, tmp_path, phenotypes=[tmp_path / "dx.csv"], overwrite=True)
    put(tmp_path, "dx.csv", "participant_id,dx\nlondon_01,AD\nparis_01,CN")
    found, _ = made(root, tmp_path, phenotypes=[tmp_path / "dx.csv"], overwrite=True)
    assert found["sub-paris_01", ""]["diagnosis"] == "CN"


def test_an_excel_sheet_is_a_table_of_people(bids, tmp_path):
    sheet = pd.DataFrame(
        {"Subject": ["01", "02"], "Age": [31, 52], "Gender": ["f", "m"], "Education": [12, 16]}
    )
    sheet.to_excel(tmp_path / "people.xlsx", index=False)
    (bids / "participants.tsv").unlink()
    found, record = made(
        bids,
        tmp_path,
        phenotypes=[tmp_path / "people.xlsx"],
        id_column="Subject",
        keep=["Education", "age"],
    )
    assert (
        found["sub-02", ""]["age"],
        found["sub-02", ""]["sex"],
        found["sub-02", ""]["Education"],
    ) == (52, "M", 16)
    assert record["tables"] == ["people.xlsx"]
    (tmp_path / "people.xlsx").write_text("no workbook")
    with pytest.raises(DataError, match=r"people.xlsx: not readable as an Excel workbook"):
        made(bids, tmp_path, phenotypes=[tmp_path / "people.xlsx"], overwrite=True)


def test_wrong_options_are_named(bids, tmp_path):
    out = tmp_path / "out" / "participants.tsv"
    for options, expected in (
        ({"layout": "bidz"}, r"layout: found 'bidz'. Did you mean 'bids'"),
        (
            {"site_from": "nowhere"},
            r"site_from: must be one of 'column', 'folder', 'scanner', found 'nowhere'",
        ),
        (
            {"site_from": "folder"},
            r"site_from: 'folder' takes 'sub-01' as a site, which is of one person",
        ),
        ({"choose": ["run"]}, r"choose: found 'run'"),
        ({"choose": ["acq=a", "acq=b"]}, r"choose: found acq=a and acq=b; give one"),
        ({"keep": ["cohort", "nowhere"]}, r"keep: no table says 'cohort', 'nowhere'"),
        ({"phenotypes": [bids / "none.csv"]}, r"none.csv: there is no such file"),
        (
            {"id_column": "participant_id"},
            r"id_column: is of the tables of phenotypes, and there is none",
        ),
        (
            {"phenotypes": [bids / "participants.tsv"], "id_column": "id"},
            r"there is no column 'id'",
        ),
    ):
        with pytest.raises((ConfigError, DataError), match=expected):
            index(bids, out, **options)
    with pytest.raises(DataError, match="no such folder"):
        index(bids / "nowhere", out)
    with pytest.raises(ConfigError, match=r"ends in .tsv"):
        index(bids, out.with_suffix(".xlsx"))
    assert list(out.parent.iterdir()) == []


def test_numbers_of_rows_are_not_taken_for_people(bids, tmp_path):
    put(tmp_path, "sheet.csv", "id,patient,diagnosis\n01,02,AD\n02,01,CN")
    with pytest.raises(DataError, match=r"sheet\.csv: no column of identifiers .*'patient'"):
        made(bids, tmp_path, phenotypes=[tmp_path / "sheet.csv"])


FMRIPREP = "derivatives/fmriprep/sub-01/ses-1/anat/sub-01_ses-1_desc-preproc_T1w.nii.gz"
FREESURFER = "derivatives/freesurfer/sub-01_ses-1/mri/brainmask.mgz"


@pytest.mark.parametrize("derivatives", [[FREESURFER], [FMRIPREP], [FREESURFER, FMRIPREP]])
def test_raw_images_come_before_those_of_derivatives(bids, tmp_path, derivatives):
    for path in derivatives:
        put(bids, path)
    found, record = made(bids, tmp_path)
    assert (record["layout"], len(found)) == ("bids", 3)
    assert [note.split()[-5:-3] for note in record["notes"]] == [
        ["--layout", path.split("/")[1]] for path in sorted(derivatives)
    ]
    other = derivatives[-1].split("/")[1]
    found, _ = made(bids, tmp_path, layout=other, overwrite=True)
    assert [row["age"] for row in found.values()] == [30.5]


def test_two_layouts_without_raw_images_are_told_apart(tmp_path):
    put(tmp_path, f"bids/{FMRIPREP}")
    put(tmp_path, "bids/cat12/mri/mwp1sub-01_T1w.nii")
    with pytest.raises(
        DataError, match=r"several layouts are there: fmriprep \(1 images\), cat12 \(1 images\)"
    ):
        made(tmp_path / "bids", tmp_path)


def test_a_person_without_image_is_a_note(bids, tmp_path):
    put(bids, "participants.tsv", rows("participant_id age\nsub-01 30\nsub-02 40\nsub-09 50"))
    found, record = made(bids, tmp_path)
    assert len(found) == 3
    assert record["notes"] == ["People in a table with no image: sub-09."]
    assert record["left_out"] == [
        {"what": "sub-09", "reason": "participants.tsv has a row, and there is no image"}
    ]


def test_a_rating_is_kept_and_selects(bids, tmp_path):
    put(bids, "participants.tsv", rows("participant_id age qc_rating\nsub-01 30 1\nsub-02 40 3"))
    made(bids, tmp_path)
    cohort = read_cohort(tmp_path / "out" / "participants.tsv")
    assert cohort.select({"qc_rating": ["1"]}).table["participant_id"].tolist() == [
        "sub-01",
        "sub-01",
    ]


def test_paths_are_relative_to_the_table_and_empty_columns_are_not_written(bids, tmp_path):
    made(bids, tmp_path)
    table = pd.read_csv(tmp_path / "out" / "participants.tsv", sep="\t")
    assert table["path"][0] == "../bids/sub-01/ses-1/anat/sub-01_ses-1_T1w.nii.gz"
    assert not {"diagnosis", "gm", "iqr", "qc_rating", "run"} & set(table)
    (tmp_path / "deep" / "real").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "deep" / "real")
    found = index(bids, tmp_path / "link" / "participants.tsv")  # ".." from there is elsewhere
    assert pd.read_csv(found.path, sep="\t")["path"][0].startswith(str(bids))


def test_a_table_that_is_read_is_never_replaced(bids, tmp_path):
    before = (bids / "participants.tsv").read_text()
    with pytest.raises(ConfigError, match="one of the tables that were read"):
        index(bids, bids / "participants.tsv", overwrite=True)
    extra = tmp_path / "out" / "extra.tsv"
    extra.write_text(before)
    with pytest.raises(ConfigError, match="one of the tables that were read"):
        index(bids, extra, phenotypes=[extra], overwrite=True)
    assert (bids / "participants.tsv").read_text() == extra.read_text() == before


def test_what_no_table_can_hold_is_refused_at_once_or_left_out_by_name(tmp_path):
    root = tmp_path / "ixi"
    root.mkdir()
    names = ["a\tb", "a\nb", "a\rb", os.fsdecode(b"a\xffb"), " a", "good"]
    for number, name in enumerate(names, start=1):
        put(root, f"{name}/IXI{number:03d}-Guys-0700-T1.nii.gz")
    with pytest.raises(DataError) as error:
        index(root, tmp_path / "out" / "participants.tsv")
    for found in ("holds a tab", "holds a line break", "not UTF-8", "begins or ends with a space"):
        assert found in str(error.value)
    assert "5 problems" in str(error.value)
    assert str(error.value).isascii()
    assert list((tmp_path / "out").iterdir()) == []
    found, record = made(root, tmp_path, skip=True)
    assert [row["path"].rpartition("/")[2] for row in found.values()] == [
        "IXI006-Guys-0700-T1.nii.gz"
    ]
    assert len(record["left_out"]) == 5


def test_labels_are_read_whole_and_a_scan_in_the_folder_of_another_is_refused(bids, tmp_path):
    (bids / "participants.tsv").unlink()
    for name, session in (("HH-012", "1"), ("HH-013", "2"), ("Zoë", "a-b")):
        put(bids, f"sub-{name}/ses-{session}/anat/sub-{name}_ses-{session}_T1w.NII.gz")
    found, _ = made(bids, tmp_path)
    assert {("sub-HH-012", "1"), ("sub-HH-013", "2"), ("sub-Zoë", "a-b")} < set(found)
    assert found["sub-Zoë", "a-b"]["field_strength"] == 3
    for folder, name in (
        ("sub-03", "sub-04"),
        ("sub-05/ses-1", "sub-05_ses-2"),
        ("sub-B_6", "sub-B_6"),
        ("sub-7.1", "sub-7.1"),
    ):
        put(bids, f"{folder}/anat/{name}_T1w.nii.gz")
    with pytest.raises(
        DataError, match=r"(?s)4 problems.*is in folder 'sub-B_6', and its name is of sub-B "
    ):
        made(bids, tmp_path, overwrite=True)


def test_a_cell_with_a_tab_is_mended_and_a_damaged_sidecar_named(bids, tmp_path):
    put(bids, "sub-01/ses-1/anat/sub-01_ses-1_T1w.json", {"Manufacturer": "Sie\tmens"})
    assert made(bids, tmp_path)[0]["sub-01", "1"]["scanner"] == "Sie mens"
    put(bids, "sub-02/anat/sub-02_T1w.json", "[" * 100_000)
    with pytest.raises(DataError, match=r"sub-02_T1w\.json: not readable as JSON"):
        made(bids, tmp_path, overwrite=True)


@pytest.mark.timeout(60)
def test_pipes_and_devices_are_left_out_by_name_and_circles_of_links_refused(bids, tmp_path):
    os.mkfifo(bids / "sub-02/anat/sub-02_run-2_T1w.nii.gz")
    (bids / "sub-02/anat/sub-02_run-3_T1w.nii.gz").symlink_to("/dev/zero")
    os.mkfifo(bids / "sub-01" / "sub-01_sessions.tsv")
    os.mkfifo(bids / "aseg.stats")
    (bids / "loop.tsv").symlink_to("loop.tsv")
    found, record = made(bids, tmp_path)
    assert len(found) == 3
    reasons = {each["what"].rpartition("/")[2]: each["reason"] for each in record["left_out"]}
    assert reasons["sub-02_run-2_T1w.nii.gz"] == "is a named pipe, not a file"
    assert reasons["sub-02_run-3_T1w.nii.gz"] == "is a device, not a file"
    assert reasons["loop.tsv"] == "is a link that leads back to itself"
    (bids / "sub-01" / "up").symlink_to(bids)
    with pytest.raises(
        DataError, match=r"1 links lead back to a folder above them: 'sub-01/up'\. Remove them\.$"
    ):
        made(bids, tmp_path, overwrite=True)
