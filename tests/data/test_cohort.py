import shutil
from pathlib import Path

import nibabel as nib
import numpy as np
import pandas as pd
import pytest

from neurocontrast.data import read_cohort
from neurocontrast.data.cohort import Cohort, split_by_subject
from neurocontrast.data.quality import (
    doubts_about,
    doubts_about_images,
    inspect_scan,
    inspect_scans,
)
from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.provenance import subject_digest
from neurocontrast.transforms import Preprocessing

HEADER = "participant_id\tpath\tage\tsex\tsite\tdiagnosis"


def test_a_table_becomes_values_by_the_rule_of_each_column(write_table, tmp_path):
    cohort = read_cohort(
        write_table(
            HEADER + "\ttiv\tcode\tscanner",
            "001\ta.nii.gz\t34.5\tmale\tParis\tn/a\t1500\t007\tTrio",
            "002\tb.nii\t89+\t2\t01\tcontrol\tn/a\t8\tn/a",
            "003\tc.npy\tn/a\tn/a\tn/a\tcontrol\t1.6e3\tn/a\t3",
        )
    )
    table = cohort.table
    identity = [("001", "001", ""), ("002", "002", ""), ("003", "003", "")]
    assert (
        list(zip(table["participant_id"], table["subject_id"], table["session"], strict=True))
        == identity
    )
    assert table["path"][0] == str(tmp_path / "a.nii.gz")
    np.testing.assert_array_equal(table["age"], [34.5, 89, np.nan])
    assert list(table["sex"].fillna("missing")) == ["M", "F", "missing"]
    assert list(table["site"].fillna("missing")) == ["Paris", "01", "missing"]
    np.testing.assert_array_equal(table["tiv"], [1500, np.nan, 1600])
    assert list(table["code"][:2]) == ["007", "8"]
    assert list(table["scanner"].fillna("missing")) == ["Trio", "missing", "3"]
    assert any("89+" in warning for warning in cohort.warnings)


def test_all_bad_rows_are_told_together(write_table):
    path = write_table(
        HEADER,
        "s1\ta.nii.gz\t-3\tM\tA\tc",
        "s2\tb.nii.gz\t900\tx\tA\tc",
        "s2\tc.nii.gz\t30\tF\tA\tc",
        "n/a\td.nii.gz\t30\tF\tA\tc",
        "s5\ta.nii.gz\t30\tF\tA\tc",
        "s6\tf.mnc\t30\tF\tA\tc",
        "s7\t\t30\tF\tA\tc",
    )
    with pytest.raises(DataError) as caught:
        read_cohort(path)
    text = str(caught.value)
    assert text.startswith("participants.tsv: 8 problems")
    assert (
        "line 2, s1, column 'age': found '-3'; an age is a number of years from 0 to 120, or n/a"
        in text
    )
    assert "line 3, s2, column 'age': found '900'" in text
    assert "line 3, s2, column 'sex': found 'x'; sex is M, F" in text
    assert "line 4, s2, column 'participant_id': this participant is on line 3 already" in text
    assert "need a column 'session'" in text
    assert "line 5, n/a, column 'participant_id': found 'n/a'" in text
    assert "line 6, s5, column 'path': " in text
    assert "is the image of line 2 already" in text
    assert "an image ends in .nii.gz, .nii, .mgz, .mgh, .npy" in text
    assert "line 8, s7, column 'path': found ''; every scan needs an image" in text


def test_sessions_and_subjects(write_table):
    header = "participant_id\tsession\tsubject_id\tpath"
    cohort = read_cohort(
        write_table(header, "s1\t01\tA\ta.nii", "s1\t02\tA\tb.nii", "s2\tn/a\tB\tc.nii")
    )
    assert cohort.names() == ["s1 session 01", "s1 session 02", "s2"]
    assert cohort.subject_digests() == sorted(map(subject_digest, "AB"))
    assert "A" not in cohort.subject_digests()
    with pytest.raises(
        DataError, match=r"line 3, s1.*session '01' of this participant is on line 2 already"
    ):
        read_cohort(write_table(header, "s1\t01\tA\ta.nii", "s1\t01\tA\tb.nii"))
    with pytest.raises(
        DataError, match=r"line 3, s1, column 'subject_id': found 'B', but 'A' above"
    ):
        read_cohort(write_table(header, "s1\t01\tA\ta.nii", "s1\t02\tB\tb.nii"))
    with pytest.raises(DataError, match=r"column 'subject_id': found 'n/a'; every row needs one"):
        read_cohort(write_table(header, "s1\t01\tA\ta.nii", "s2\t02\tn/a\tb.nii"))


def test_missing_images_are_named_with_their_near_miss(write_table, tmp_path):
    (tmp_path / "a.nii").touch()
    path = write_table("participant_id\tpath", "s1\ta.nii.gz", "s2\tb\\c.nii.gz", images=False)
    with pytest.raises(DataError) as caught:
        read_cohort(path)
    text = str(caught.value)
    assert "Did you mean 'a.nii'?" in text
    assert "is images_root the folder" in text
    assert "not with '\\'" in text
    assert len(read_cohort(path, check_images=False)) == 2
    with pytest.raises(DataError, match="images_root: there is no folder"):
        read_cohort(path, images_root=tmp_path / "nowhere")
    (tmp_path / "dicom").mkdir()
    with pytest.raises(DataError, match="heudiconv or dcm2bids"):
        read_cohort(write_table("participant_id\tpath", "s1\tdicom"))


def test_a_file_of_two_channels_is_refused(write_table):
    table = write_table("participant_id\tgm\twm", "01\ta.nii.gz\ta.nii.gz", "02\tb.nii\tc.npy")
    with pytest.raises(
        DataError, match=r"line 2, 01, column 'wm': found the file of column 'gm'; each channel"
    ):
        read_cohort(table, channels=["gm", "wm"])


def test_known_columns_are_found_in_any_case_and_near_misses_suggested(write_table):
    cohort = read_cohort(
        write_table("Participant_ID\tpath\tAge\tTIV", "s1\ta.nii\t30\t5", images=False),
        check_images=False,
    )
    assert list(cohort.table.columns) == [
        "participant_id",
        "subject_id",
        "session",
        "path",
        "age",
        "TIV",
    ]
    with pytest.raises(
        DataError, match=r"'participant_id' is needed\. Did you mean 'participants_id'"
    ):
        read_cohort(write_table("participants_id\tpath", "s1\ta.nii"))
    with pytest.raises(DataError, match="names the column 'age' twice"):
        read_cohort(write_table("participant_id\tpath\tage\tAge", "s1\ta.nii\t3\t4"))
    with pytest.raises(DataError, match="column 'path' is needed"):
        read_cohort(write_table("participant_id\tsession", "sub-01\t1"))
    with pytest.raises(DataError, match="kept for embeddings"):
        read_cohort(write_table("participant_id\tpath\tfeature_0001", "s1\ta.nii\t3"))
    warned = read_cohort(write_table("participant_id\tpath\tgender", "s1\ta.nii\tM")).warnings
    assert any("rename it 'sex'" in warning for warning in warned)


def test_select_and_subset(write_table):
    cohort = read_cohort(
        write_table(
            HEADER, "s1\ta.nii\t3\tM\tA\tc", "s2\tb.nii\t4\tF\tB\tp", "s3\tc.nii\t5\tF\tn/a\tnone"
        )
    )
    assert list(cohort.select({"diagnosis": "none", "site": "n/a"}).table["participant_id"]) == [
        "s3"
    ]
    with pytest.raises(DataError, match="no value 'n/a'"):  # none is a value, as in "no diagnosis"
        cohort.select({"diagnosis": "n/a"})
    assert list(cohort.select({"site": ["A", "B"], "sex": ["female"]}).table["participant_id"]) == [
        "s2"
    ]
    assert list(cohort.select({"site": ["n/a"]}).table["participant_id"]) == ["s3"]
    assert list(cohort.select({"age": ["3", 5.0]}).table["participant_id"]) == ["s1", "s3"]
    assert list(
        cohort.select({"participant_id": {"not": "s2"}, "age": 5}).table["participant_id"]
    ) == ["s3"]
    assert list(cohort.select({"site": {"not": ["A", "n/a"]}}).table["participant_id"]) == ["s2"]
    assert list(cohort.subset([2, 0]).table["participant_id"]) == ["s3", "s1"]
    assert list(cohort.subset(np.array([True, False, True])).table.index) == [0, 1]
    with pytest.raises(DataError, match=r"no column 'sites'.*Did you mean 'site'"):
        cohort.select({"sites": ["A"]})
    with pytest.raises(ConfigError, match=r"where\.site: the only operator is not"):
        cohort.select({"site": {"nto": ["A"]}})
    with pytest.raises(
        DataError, match=r"'diagnosis' has no value 'control'.*It has: 'c', 'none', 'p'"
    ):
        cohort.select({"diagnosis": ["control"]})
    with pytest.raises(DataError, match="no scan is left"):
        cohort.select({"site": ["A"], "sex": ["F"]})


def test_the_digest_is_of_the_content_and_not_of_the_place(tmp_path):
    def cohort_in(folder, age="30"):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "p.tsv").write_text(
            f"participant_id\tpath\tage\ns1\tx/a.nii\t{age}\ns2\tx/b.nii\t4\n"
        )
        return read_cohort(tmp_path / folder / "p.tsv", check_images=False)

    assert cohort_in("one").digest() == cohort_in("two").digest()
    assert cohort_in("one").digest() == cohort_in("one", age="30.0").digest()
    assert cohort_in("one").digest() != cohort_in("one", age="31").digest()
    assert cohort_in("one").digest() != cohort_in("one").subset([1, 0]).digest()


def test_simulated_scans_are_known(write_table):
    cells = [
        ("source", "simulated MNI"),
        ("source", "IXI"),
        *(("simulated", cell) for cell in ("true", "1", "false")),
    ]
    found = [
        read_cohort(write_table(f"participant_id\tpath\t{name}", f"s1\ta.nii\t{cell}"))
        for name, cell in cells
    ]
    assert [cohort.simulated for cohort in found] == [True, False, True, True, False]


def test_spellings_that_look_alike_are_warned_of(write_table):
    rows = ("s1\ta.nii\t3\tM\tSite A\tc\t27,5", "s2\tb.nii\t3\t2\tsite-a\tc\t28")
    warnings = read_cohort(write_table(f"{HEADER}\tmmse", *rows)).warnings
    assert (
        "column 'mmse' is read as text: 1 of 2 cells are no numbers, as 1.5 and n/a are" in warnings
    )
    assert any("'Site A', 'site-a' count as different" in warning for warning in warnings)
    assert any("mixes numbers and letters" in warning for warning in warnings)


# --- training and validation
# -----------------------------------------------------------------------------------------
def cohort_of(n_subjects, *, n_sites=4, n_sessions=1, with_site=True):
    rows = [
        (f"s{i}", f"site{i % n_sites}", str(k))
        for i in range(n_subjects)
        for k in range(n_sessions)
    ]
    table = pd.DataFrame(rows, columns=["subject_id", "site", "session"])
    table.insert(0, "participant_id", table["subject_id"])
    return Cohort(table if with_site else table.drop(columns="site"), source=Path("p.tsv"))


def test_a_subject_never_straddles_and_every_scan_is_somewhere():
    cohort = cohort_of(30, n_sessions=3)
    train, val = split_by_subject(cohort, 0.2, 0)
    assert sorted([*train, *val]) == list(range(90))
    subjects = cohort.table["subject_id"]
    assert not set(subjects[train]) & set(subjects[val])
    assert len(val) == 18


def test_each_site_gives_its_share():
    cohort = cohort_of(400, n_sites=4)
    _, val = split_by_subject(cohort, 0.1, 1)
    assert set(cohort.table["site"][val].value_counts()) == {10}


def test_seed_and_subjects_decide_and_not_the_order_of_rows():
    cohort = cohort_of(50)
    _, val = split_by_subject(cohort, 0.2, 3)
    _, again = split_by_subject(cohort, 0.2, 3)
    _, other = split_by_subject(cohort, 0.2, 4)
    np.testing.assert_array_equal(val, again)
    assert set(val) != set(other)
    order = np.random.default_rng(0).permutation(50)
    shuffled = cohort.subset(order)
    _, val_of_shuffled = split_by_subject(shuffled, 0.2, 3)
    assert set(shuffled.table["subject_id"][val_of_shuffled]) == set(
        cohort.table["subject_id"][val]
    )


def test_edges():
    cohort = cohort_of(3, with_site=False)
    assert [len(rows) for rows in split_by_subject(cohort, 0.0, 0)] == [3, 0]
    assert [len(rows) for rows in split_by_subject(cohort, 0.01, 0)] == [2, 1]
    assert [len(rows) for rows in split_by_subject(cohort, 0.99, 0)] == [1, 2]
    for fraction in (-0.1, 1.0, float("nan")):
        with pytest.raises(ConfigError, match="val_fraction"):
            split_by_subject(cohort, fraction, 0)
    with pytest.raises(DataError, match="needs two subjects"):
        split_by_subject(cohort_of(1, n_sessions=3), 0.5, 0)


def test_missing_sites_are_a_stratum():
    cohort = cohort_of(40, n_sites=2)
    cohort.table.loc[cohort.table["site"] == "site1", "site"] = np.nan
    _, val = split_by_subject(cohort, 0.2, 0)
    assert cohort.table["site"][val].isna().sum() == 4


def test_deep_reads_voxels_and_shallow_headers_alone(brain, write_nifti, tmp_path):
    path = write_nifti(np.zeros_like(brain), "constant.nii.gz")
    assert inspect_scan(path, deep=False).problem == ""
    assert "every voxel is 0" in inspect_scan(path, deep=True).problem
    good = inspect_scan(write_nifti(brain), deep=True)
    assert good.problem == ""
    assert good.header.shape == brain.shape
    assert "no such file" in inspect_scan(tmp_path / "absent.nii", deep=False).problem
    assert "less than 50%" in inspect_scan(write_nifti(brain), Preprocessing(), deep=True).problem


@pytest.mark.parametrize("n_workers", [0, 2])
def test_all_images_are_looked_at_in_order(brain, write_nifti, n_workers):
    paths = [str(write_nifti(brain, f"scan{i}.nii.gz")) for i in range(9)]
    Path(paths[4]).write_bytes(b"")
    findings = inspect_scans(paths, deep=True, n_workers=n_workers)
    assert [finding.scan for finding in findings] == paths
    assert [bool(finding.problem) for finding in findings] == [i == 4 for i in range(9)]


def test_masks_copies_and_mixed_formats_are_doubtful(brain, write_nifti, tmp_path):
    mask = write_nifti((brain > 0).astype(np.float32), "mask.nii.gz")
    copy = tmp_path / "copy.nii.gz"
    shutil.copy(mask, copy)
    np.save(tmp_path / "a.npy", brain)
    doubts = doubts_about_images(
        inspect_scans([str(mask), str(copy), str(tmp_path / "a.npy")], deep=True)
    )
    assert any("2 images, the first" in doubt and "is it a mask?" in doubt for doubt in doubts)
    assert any("the same file under 2 names" in doubt for doubt in doubts)
    assert any(
        "1 .npy arrays, which have no orientation, are among 2 NIfTI images" in doubt
        for doubt in doubts
    )


def test_a_header_without_orientation_is_doubtful(brain, tmp_path):
    nib.save(nib.Nifti1Image(brain, None), tmp_path / "a.nii")
    (doubt,) = doubts_about_images([inspect_scan(tmp_path / "a.nii", deep=False)])
    assert "left and right are a guess" in doubt


def test_doubts_about_a_cohort(write_table):
    header = "participant_id\tsession\tsubject_id\tpath\tage\tsex\tsite\tdiagnosis"
    rows = [f"a{i}\t1\ta{i}\ta{i}.nii\t30\tF\tA\t{'pc'[i % 2]}" for i in range(6)]
    rows += [
        "b1\t1\tb1\tb1.nii\tn/a\tM\tB\tp",
        "b1\t2\tb1\tb2.nii\t31\tF\tB\tp",
        "A0\t1\tA0\tc.nii\t40\tM\tB\tp",
    ]
    doubts = doubts_about(read_cohort(write_table(header, *rows)))
    assert "column 'age' is missing in 1 of 9 scans" in doubts
    assert "subjects with two sexes: 'b1'" in doubts
    assert "'A0', 'a0' count as different subjects" in doubts
    assert "sites with fewer than 5 people: B (2)" in doubts
    assert any("sites with a single diagnosis: 'B'" in doubt for doubt in doubts)
